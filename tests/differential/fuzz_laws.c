/* fuzz_laws.c: constructors of laws on any bytes, draws from what they make, and reports
 * from lines of text, for libFuzzer (tests/packaging/test_core_alone.py).
 *
 * The bytes give a kind of law, the limbs of a numerator and a denominator, and the words
 * that a draw reads. A constructor refuses and leaves zeros, or makes a law that it makes
 * again; a draw fails and leaves zeros, or gives what the exact steps alone give. What is
 * read of a text is read again from the part that was read.
 */
#include <stdlib.h>
#include <string.h>

#include "fastdp.h"

#define DRAWN 9
#define MAIN 65536
#define TRIALS 16384

typedef struct {
    const uint8_t *at;
    size_t left;
} bytes_t;

static uint8_t next(bytes_t *from)
{
    if (from->left == 0) {
        return 0;
    }
    from->left--;
    return *from->at++;
}

static uint64_t word(bytes_t *from, unsigned bytes)
{
    uint64_t x = 0;
    for (unsigned i = 0; i < bytes; i++) {
        x = x << 8 | next(from);
    }
    return x;
}

static void expect(int truth)
{
    if (!truth) {
        abort();
    }
}

static int is_zero(const void *data, size_t size)
{
    const uint8_t *byte = data;
    uint8_t any = 0;
    for (size_t i = 0; i < size; i++) {
        any |= byte[i];
    }
    return any == 0;
}

/* Mostly one or two limbs, a few times many; memory ends where the number does. */
static uint64_t *number(bytes_t *from, size_t *limbs)
{
    const uint8_t kind = next(from);
    *limbs = kind < 200 ? 1 : kind < 240 ? kind % 4 : kind % 16 * 6;
    uint64_t *d = malloc(*limbs * sizeof *d + 1);
    for (size_t i = 0; i < *limbs; i++) {
        d[i] = word(from, 1 + kind % 8);
    }
    return d;
}

static void draw(const fdp_call_t *call, const fdp_sampler_t *law)
{
    int64_t plain[DRAWN], exact[DRAWN];
    const fdp_target_t one = {.out = plain, .out_type = FDP_I64};
    const fdp_target_t two = {.out = exact, .out_type = FDP_I64};
    fdp_sampler_t all = *law;
    memset(plain, 1, sizeof plain);
    memset(exact, 1, sizeof exact);
    all.law.unsettled = 1;
    /* a truncated law settles thousands of trials for any draw: seconds */
    const int compare = law->law.bound == 0 || call->stream.tape->main[0] % 32 == 0;
    const fdp_status_t status = fdp_release(call, law, 0, DRAWN, &one);
    expect(status == FDP_OK || is_zero(plain, sizeof plain));
    if (compare && status == FDP_OK && fdp_release(call, &all, 0, DRAWN, &two) == FDP_OK) {
        expect(memcmp(plain, exact, sizeof plain) == 0);
    }
}

static void sampler(const fdp_call_t *call, const fdp_ratio_t *ratio, int gaussian,
                    int64_t bound)
{
    static fdp_sampler_t law, again;
    memset(&law, 1, sizeof law);
    memset(&again, 2, sizeof again);
    const fdp_status_t status = gaussian ? fdp_sampler_gaussian(&law, ratio)
                                         : fdp_sampler_laplace(&law, ratio, bound);
    if (status != FDP_OK) {
        expect(is_zero(&law, sizeof law));
        return;
    }
    expect((gaussian ? fdp_sampler_gaussian(&again, ratio)
                     : fdp_sampler_laplace(&again, ratio, bound)) == FDP_OK);
    expect(memcmp(&law, &again, sizeof law) == 0);
    draw(call, &law);
}

static void bits(const fdp_call_t *call, const fdp_ratio_t *ratio)
{
    static fdp_bernoulli_t law;
    uint8_t out[DRAWN];
    memset(&law, 1, sizeof law);
    if (fdp_bernoulli_make(&law, ratio) != FDP_OK) {
        expect(is_zero(&law, sizeof law));
    } else if (fdp_flip_bits(call, &law, 0, 8 * DRAWN, NULL, out) != FDP_OK) {
        expect(is_zero(out, sizeof out));
    }
}

static void labels(const fdp_call_t *call, bytes_t *from)
{
    fdp_response_t law;
    int64_t x[DRAWN];
    uint32_t out[DRAWN];
    memset(&law, 1, sizeof law);
    const uint32_t categories = (uint32_t)word(from, 1 + next(from) % 4);
    const uint64_t truth = word(from, 8);
    if (fdp_response_make(&law, categories, truth, next(from) & 1) != FDP_OK) {
        expect(is_zero(&law, sizeof law));
        return;
    }
    for (size_t i = 0; i < DRAWN; i++) {
        x[i] = (int64_t)word(from, 1 + next(from) % 8);
    }
    if (fdp_respond(call, &law, 0, DRAWN, x, FDP_I64, -1, out, FDP_U32) != FDP_OK) {
        expect(is_zero(out, sizeof out));
    }
    for (size_t i = 0; i < DRAWN; i++) {
        expect(out[i] < categories);
    }
}

static void choices(const fdp_call_t *call, const fdp_ratio_t *ratio, bytes_t *from)
{
    static fdp_selection_t law;
    const fdp_race_t noise = next(from) % 4;
    memset(&law, 1, sizeof law);
    if (fdp_selection_make(&law, ratio, noise) != FDP_OK) {
        expect(is_zero(&law, sizeof law));
        return;
    }
    uint64_t score[12];
    int64_t out[3];
    for (size_t i = 0; i < 12; i++) {
        score[i] = word(from, 8);
    }
    const fdp_candidates_t set = {.rows = 3, .n = 4, .score = score,
                                  .type = next(from) & 1 ? FDP_F64 : FDP_I64};
    const uint8_t way = next(from) % 4;
    const fdp_status_t status = way == 0   ? fdp_select_proposed(call, &law, &set, 0, out)
                                : way == 1 ? fdp_select_flipped(call, &law, &set, 0, out)
                                : way == 2 ? fdp_select_inverse(call, &law, &set, 0, 1, out)
                                           : fdp_select_race(call, &law, &set, 0, out);
    for (size_t i = 0; i < 3; i++) {
        expect(status == FDP_OK ? out[i] >= 0 && out[i] < 4 : out[i] == 0);
    }
}

#define HEAD \
    "{\"format\":\"fastdp report\",\"version\":1,\"content\":{\"mechanism\":\"m\",\"reports\":"

/* Forms of reports, and what the text of one of them may begin with. */
static const struct {
    fdp_report_form_t form;
    const char *head;
} forms[] = {
    {{"m", 1, 1, {{NULL, FDP_NUMBER, 0, 1}}}, HEAD "[7,"},
    {{"m", 1, 4, {{NULL, FDP_NUMBER, 0, 4}}}, HEAD "4294967295"},
    {{"m", 1, 3, {{NULL, FDP_ROW, 0, 3}}}, HEAD "[\"0aF1c2\""},
    {{"m", 2, 12, {{"seed", FDP_WORD, 0, 8}, {"value", FDP_NUMBER, 8, 4}}},
     HEAD "[{\"seed\":\"00112233445566ff\",\"value\":5}"},
};

/* Memory ends where the text and the reports end. */
static void lines(bytes_t *from)
{
    const size_t i = next(from) % 4, most = next(from) % 8;
    const size_t head = next(from) % 4 ? strlen(forms[i].head) : 0, size = head + from->left;
    const fdp_report_form_t *form = &forms[i].form;
    char *text = malloc(size + 1), *part;
    uint8_t *out = malloc(most * form->bytes + 1), *again = malloc(most * form->bytes + 1);
    size_t read, lines, reread, relines;
    memcpy(text, forms[i].head, head);
    memcpy(text + head, from->at, from->left);
    text = realloc(text, size == 0 ? 1 : size);
    const size_t count = fdp_report_lines(form, text, size, out, most, &read, &lines);
    expect(count <= most && read <= size && lines <= read);
    part = malloc(read + 1);
    memcpy(part, text, read);
    part = realloc(part, read == 0 ? 1 : read);
    expect(fdp_report_lines(form, part, read, again, count, &reread, &relines) == count);
    expect(reread == read && relines == lines);
    expect(memcmp(out, again, count * form->bytes) == 0);
    free(text);
    free(part);
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t main_words[MAIN], ext[16 * TRIALS];
    bytes_t from = {data, size};
    const uint8_t kind = next(&from) % 7;
    const uint8_t fill = next(&from);
    if (kind == 6) {
        lines(&from);
        return 0;
    }
    const int64_t bound = (int64_t)word(&from, next(&from) % 9);
    fdp_ratio_t ratio;
    uint64_t *num = number(&from, &ratio.nums), *den = number(&from, &ratio.dens);
    ratio.num = num;
    ratio.den = den;
    /* words of a byte, but for what is left of the data */
    memset(main_words, fill, sizeof main_words);
    memset(ext, fill ^ next(&from), sizeof ext);
    for (size_t i = 0; i < from.left; i++) {
        main_words[(i * 977) % MAIN] = from.at[i];
    }
    const fdp_tape_t tape = {1, main_words, sizeof main_words, ext, sizeof ext};
    const fdp_call_t call = {.stream = {.cipher = FDP_CIPHER_TAPE, .tape = &tape}};
    switch (kind) {
    case 0: sampler(&call, &ratio, 0, 0); break;
    case 1: sampler(&call, &ratio, 0, bound); break;
    case 2: sampler(&call, &ratio, 1, 0); break;
    case 3: bits(&call, &ratio); break;
    case 4: labels(&call, &from); break;
    default: choices(&call, &ratio, &from); break;
    }
    free(num);
    free(den);
    return 0;
}
