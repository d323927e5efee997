/* lines.c: reads reports from JSON lines, one envelope per line (docs/reports.md).
 *
 *   fdp_report_lines   the reports of whole lines, up to the first unusual line
 *
 * A usual line has the members of an envelope in their order, with any blanks. The caller
 * reads every other line with a JSON parser, so this file need not know all of JSON: a
 * parser accepts every line that is accepted here, with the same reports. Reports are
 * public: T0.
 */
#include <string.h>

#include "../base/config.h"
#include "../fastdp.h"

typedef struct {
    const char *at, *end;
} reader_t;

static void skip_blanks(reader_t *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) {
        r->at++;
    }
}

static bool take(reader_t *r, const char *text, size_t n)
{
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

/* The text after blanks. */
static bool token(reader_t *r, const char *text)
{
    skip_blanks(r);
    return take(r, text, strlen(text));
}

static bool quoted(reader_t *r, const char *text)
{
    return token(r, "\"") && take(r, text, strlen(text)) && take(r, "\"", 1);
}

static bool member(reader_t *r, const char *name)
{
    return quoted(r, name) && token(r, ":");
}

/* A number of `bytes` bytes. If a digit follows, the next token fails. */
static bool number(reader_t *r, size_t bytes, uint8_t *to)
{
    const uint64_t most = UINT64_MAX >> (64 - 8 * bytes);
    uint64_t value = 0;
    skip_blanks(r);
    const char *const first = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        value = 10 * value + (uint64_t)(*r->at - '0');
        if (value > most) {
            return false;
        }
        r->at++;
    }
    memcpy(to, &value, bytes);
    return r->at > first && (*first != '0' || r->at == first + 1);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* Hex digits: bytes in order, or an integer with its highest digit first. */
static bool digits(reader_t *r, size_t bytes, bool integer, uint8_t *to)
{
    if (!token(r, "\"") || (size_t)(r->end - r->at) / 2 < bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        const int high = digit(r->at[2 * i]), low = digit(r->at[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        to[integer ? bytes - 1 - i : i] = (uint8_t)(16 * high + low);
    }
    r->at += 2 * bytes;
    return take(r, "\"", 1);
}

static bool value(reader_t *r, const fdp_report_part_t *part, uint8_t *report)
{
    uint8_t *const to = report + part->offset;
    return part->kind == FDP_NUMBER ? number(r, part->bytes, to)
                                    : digits(r, part->bytes, part->kind == FDP_WORD, to);
}

static bool one_report(reader_t *r, const fdp_report_form_t *form, uint8_t *report)
{
    if (form->part[0].name == NULL) {
        return value(r, &form->part[0], report);
    }
    for (size_t k = 0; k < form->parts; k++) {
        if (!token(r, k == 0 ? "{" : ",") || !member(r, form->part[k].name) ||
            !value(r, &form->part[k], report)) {
            return false;
        }
    }
    return token(r, "}");
}

/* Reads the reports of a line. Returns their number, or SIZE_MAX if the line is unusual or has
 * more than `most`. */
static size_t one_line(reader_t *r, const fdp_report_form_t *form, uint8_t *out, size_t most)
{
    size_t count = 0;
    if (!token(r, "{") || !member(r, "format") || !quoted(r, "fastdp report") ||
        !token(r, ",") || !member(r, "version") || !token(r, "1") || !token(r, ",") ||
        !member(r, "content") || !token(r, "{") || !member(r, "mechanism") ||
        !quoted(r, form->mechanism) || !token(r, ",") || !member(r, "reports")) {
        return SIZE_MAX;
    }
    const bool list = token(r, "[");
    if (!list || !token(r, "]")) {
        do {
            if (count == most || !one_report(r, form, out + count * form->bytes)) {
                return SIZE_MAX;
            }
            count++;
        } while (list && token(r, ","));
        if (list && !token(r, "]")) {
            return SIZE_MAX;
        }
    }
    return token(r, "}") && token(r, "}") && (skip_blanks(r), r->at == r->end) ? count
                                                                              : SIZE_MAX;
}

size_t fdp_report_lines(const fdp_report_form_t *form, const char *text, size_t size,
                        uint8_t *out, size_t most, size_t *read, size_t *lines)
{
    size_t count = 0;
    *read = *lines = 0;
    while (*read < size) {
        const char *const begin = text + *read;
        const char *const end = memchr(begin, '\n', size - *read);
        const size_t length = end == NULL ? size - *read : (size_t)(end - begin);
        reader_t r = {begin, begin + length};
        skip_blanks(&r);
        if (r.at < r.end) { /* otherwise the line is blank */
            const size_t found =
                one_line(&r, form, out + count * form->bytes, most - count);
            if (found == SIZE_MAX) {
                break;
            }
            count += found;
        }
        *read += length + (end != NULL);
        ++*lines;
    }
    return count;
}
