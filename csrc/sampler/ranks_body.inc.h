/* ranks_body.inc.h: finds the few lanes of a chunk that need more bits, in order, in a fixed number
 * of steps; compiled once per level. Which lanes these are reveals something about their values. So
 * finding them takes the same steps whatever the masks hold, and a step without a lane takes a
 * random place from words of its own: both kinds of places are uniform. The lane of rank r gets the
 * r-th share of the chunk's further bits. docs/proofs/timing.md. In: `masks` <= FDP_RANK_MASKS
 * masks of 64 lanes. Out: place[i] is the place of the lane of rank first + i, and used[i] is all
 * ones; if there is no such lane, place[i] is idle[i] / 2^16 of all lanes, and used[i] is 0. Arrays
 * have room for whole blocks of 32 steps. Returns whether there are more lanes. */

#ifdef FDP_HAVE_RANKS
/* Searches for 32 ranks at once in the running sums of the masks' counts. */
static bool FDP_K(ranks)(const uint64_t *restrict mask, size_t masks, size_t first,
                         const uint16_t *restrict idle, uint16_t *restrict place,
                         uint64_t *restrict used, size_t steps)
{
    FDP_ALIGNED(64) uint16_t before[FDP_RANK_MASKS + 32]; /* lanes in the masks before */
    FDP_ALIGNED(64) uint16_t begin[32], rank[32], live[32];
    uint32_t total = 0;
    for (size_t g = 0; g < masks; g++) {
        before[g] = (uint16_t)total;
        total += (uint32_t)_mm_popcnt_u64(mask[g]);
    }
    const size_t entries = masks <= 32 ? 32 : FDP_RANK_MASKS;
    for (size_t g = masks; g < entries; g++) {
        before[g] = UINT16_MAX;
    }
    const __m512i *const sums = (const void *)before;
    const __m512i all = _mm512_set1_epi16((int16_t)total);
    const __m512i lanes = _mm512_set1_epi16((int16_t)(64 * masks));
    __m512i wanted = _mm512_add_epi16(
        _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15,
                         14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
        _mm512_set1_epi16((int16_t)first));
    for (size_t i = 0; i < steps; i += 32) {
        const __m512i random = _mm512_mulhi_epu16(_mm512_loadu_si512(idle + i), lanes);
        __m512i at = _mm512_setzero_si512(); /* the last mask that has no more lanes before it */
        for (size_t step = entries / 2; step > 0; step /= 2) {
            const __m512i next = _mm512_add_epi16(at, _mm512_set1_epi16((int16_t)step));
            const __m512i sum = entries == 32 ? fdp_words_at(sums, 32, next)
                                              : fdp_words_at(sums, FDP_RANK_MASKS, next);
            at = _mm512_mask_mov_epi16(at, _mm512_cmple_epu16_mask(sum, wanted), next);
        }
        const __mmask32 found = _mm512_cmplt_epu16_mask(wanted, all);
        const __m512i sum = entries == 32 ? fdp_words_at(sums, 32, at)
                                          : fdp_words_at(sums, FDP_RANK_MASKS, at);
        _mm512_store_si512(begin,
                           _mm512_mask_mov_epi16(random, found, _mm512_slli_epi16(at, 6)));
        _mm512_store_si512(rank, _mm512_sub_epi16(wanted, sum));
        _mm512_store_si512(live, _mm512_movm_epi16(found));
        for (size_t k = 0; k < 32; k++) {
            const uint64_t one = UINT64_C(1) << (rank[k] & 63);
            const uint64_t bit = _tzcnt_u64(_pdep_u64(one, mask[begin[k] >> 6]));
            place[i + k] = (uint16_t)(begin[k] + (bit & live[k]));
        }
        for (size_t k = 0; k < 32; k += 8) {
            const __m128i eight = _mm_load_si128((const __m128i *)(const void *)(live + k));
            _mm512_storeu_si512(used + i + k, _mm512_cvtepi16_epi64(eight));
        }
        wanted = _mm512_add_epi16(wanted, _mm512_set1_epi16(32));
    }
    fdp_wipe(before, sizeof before);
    fdp_wipe(begin, sizeof begin);
    fdp_wipe(rank, sizeof rank);
    fdp_wipe(live, sizeof live);
    return total > first + steps;
}
#else
static inline uint64_t FDP_K(any)(uint64_t m) { return (m | (0 - m)) >> 63; }

static bool FDP_K(ranks)(const uint64_t *restrict mask, size_t masks, size_t first,
                         const uint16_t *restrict idle, uint16_t *restrict place,
                         uint64_t *restrict used, size_t steps)
{
    uint64_t kept[FDP_RANK_MASKS + 2]; /* the masks that have a bit set, then empty ones */
    uint8_t where[FDP_RANK_MASKS + 2]; /* the numbers of these masks */
    size_t hits = 0, at = 0;
    for (size_t g = 0; g < masks; g++) {
        kept[hits] = mask[g];
        where[hits] = (uint8_t)g;
        hits += (size_t)FDP_K(any)(mask[g]);
    }
    kept[hits] = kept[hits + 1] = 0;
    where[hits] = 0;
    uint64_t left = kept[0], next = kept[1];
    for (size_t i = 0; i < first + steps; i++) {
        const size_t to = i < first ? 0 : i - first;
        const uint64_t valid = FDP_K(any)(left);
        const unsigned bit = (unsigned)__builtin_ctzll(left | (UINT64_C(1) << 63));
        place[to] = (uint16_t)fdp_pick(fdp_mask(valid), where[at] * 64u + bit,
                                       (idle[to] * 64 * masks) >> 16);
        used[to] = 0 - valid;
        left &= left - 1;
        const uint64_t more = FDP_K(any)(left);
        left = fdp_pick(fdp_mask(more), left, next);
        at += (size_t)(valid & (1 - more));
        next = kept[at + 1];
    }
    fdp_wipe(kept, (masks + 2) * sizeof kept[0]);
    fdp_wipe(where, (masks + 2) * sizeof where[0]);
    return left != 0;
}
#endif
