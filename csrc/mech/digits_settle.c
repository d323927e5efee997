/* digits_settle.c: passes the lanes that known bits do not decide to the exact resolver, with all
 * words of these lanes. */
#include <string.h>

#include "../base/wipe.h"
#include "digits_pass.h"
#include "resolve.h"
#include "scratch.h"

/* Number of further words of a lane: flags, the known digits, the low word. See
 * tests/reference/exact_digits.py, settle. */
#define WORDS (6 + FDP_COPIES)

/* The low bits of a trial as they were drawn; a kernel may have cleared some. */
static uint64_t low_word(const fdp_pass_t *p, size_t i)
{
    const fdp_digits_t *law = p->law;
    const size_t bytes = fdp_low_bytes(law);
    if (bytes == 0) {
        return p->word[i / FDP_BLOCK_LANES * 256 + 128 + i % FDP_BLOCK_LANES] >> 5;
    }
    FDP_ALIGNED(64) uint8_t page[FDP_PAGE];
    const uint64_t at = fdp_low_start(p) + i * bytes;
    uint64_t low = 0;
    fdp_chunk_main(&p->chunk, at - at % FDP_PAGE, page, FDP_PAGE);
    memcpy(&low, page + at % FDP_PAGE, bytes);
    fdp_wipe(page, sizeof page);
    return low;
}

/* Word `which` of a rank: 0 for the first digit, 1 for its tail, 2 for the second digit, 3 for its
 * correction, 4 and up for the copies. */
static uint64_t word_of(const fdp_digits_t *law, const uint8_t *area, size_t rank,
                        size_t which)
{
    const size_t group = rank / FDP_RANK_GROUP * fdp_rank_words(law) + which;
    uint64_t word;
    memcpy(&word, area + 8 * (group * FDP_RANK_GROUP + rank % FDP_RANK_GROUP), sizeof word);
    return word;
}

static fdp_nat_t number(const uint64_t *limbs)
{
    return (fdp_nat_t){(uint64_t *)(uintptr_t)limbs, fdp_nat_trim(limbs, FDP_LIMBS)};
}

static int decide(fdp_settle_t *w, const void *law, const uint64_t *words, int64_t *value)
{
    const fdp_sampler_t *s = law;
    const fdp_nat_t den = number(s->den);
    if (den.n == 0) { /* no law that was made here */
        return -1;
    }
    return fdp_law_settle(w->a, &s->law, number(s->num), den, words, w->block, w->context,
                          value);
}

int fdp_pass_resolve(fdp_pass_t *p, uint32_t trial, const uint64_t *words, fdp_i128_t *value)
{
    const fdp_trial_t pending = {p->call, p->number, trial};
    int64_t found[2] = {0, 0};
    const int kept = fdp_resolve(&pending, decide, p->sampler, words, found, &p->status);
    *value = (fdp_i128_t)((fdp_u128_t)(uint64_t)found[1] << 64 | (uint64_t)found[0]);
    fdp_wipe(found, sizeof found);
    return kept;
}

static void resolve(fdp_pass_t *p, const uint8_t *area, size_t i, const size_t rank[2],
                    const bool special[2])
{
    const fdp_digits_t *law = p->law;
    uint64_t more[WORDS] = {0};
    more[1] = (uint64_t)(int64_t)p->first[i];
    if (law->shift != 0) {
        more[3] = p->second[i] & 31;
        more[5 + FDP_COPIES] = low_word(p, i);
    }
    for (size_t digit = 0; digit < 2; digit++) {
        if (!special[digit]) {
            continue;
        }
        const size_t k = rank[digit];
        more[0] |= UINT64_C(1) << (2 * digit);
        if (k >= FDP_RANKS) {
            continue;
        }
        more[0] |= UINT64_C(2) << (2 * digit);
        more[1 + 2 * digit] = word_of(law, area, k, 2 * digit);
        more[2 + 2 * digit] = word_of(law, area, k, 2 * digit + 1);
        for (size_t c = 0; digit == 1 && fdp_has_copies(law) && c < FDP_COPIES; c++) {
            more[5 + c] = word_of(law, area, k, 4 + c);
        }
    }
    fdp_open_t *const late = &p->late[p->late_count++];
    const uint32_t trial = (uint32_t)(p->pass * FDP_PASS + p->at + i);
    late->lane = i;
    if (fdp_pass_resolve(p, trial, more, &late->value) == 0) { /* digits never reject a value */
        p->status = FDP_ERR_RESOLVER;
    }
    fdp_wipe(more, sizeof more);
}

static bool is_open(const fdp_pass_t *p, size_t digit, size_t rank)
{
    return p->law->unsettled || rank >= p->slots[digit] || p->open[digit][rank];
}

/* Settles the open lanes. A pass has one with a probability below 2^-36. The words of all ranks are
 * read again. */
void fdp_pass_settle(fdp_pass_t *p, size_t need)
{
    const fdp_digits_t *law = p->law;
    const size_t bytes = fdp_area_bytes(law, FDP_RANKS);
    uint8_t *const area = fdp_memory_take(bytes);
    if (area == NULL || !fdp_pass_keep(p)) {
        p->status = FDP_ERR_MEMORY;
        fdp_memory_give(area, bytes);
        return;
    }
    fdp_pass_fill(p, fdp_pass_start(p), area, bytes);
    size_t rank[2] = {p->before[0], p->before[1]};
    for (size_t i = 0; i < need && p->status == FDP_OK; i++) {
        bool special[2] = {false, false}, open = false;
        for (size_t digit = 0; digit < (law->shift == 0 ? 1u : 2u); digit++) {
            special[digit] = p->mask[digit][i / 64] >> (i % 64) & 1;
            open |= special[digit] && is_open(p, digit, rank[digit]);
        }
        if (open) {
            resolve(p, area, i, rank, special);
        }
        rank[0] += special[0];
        rank[1] += special[1];
    }
    fdp_memory_give(area, bytes);
}
