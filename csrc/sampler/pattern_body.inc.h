/* pattern_body.inc.h: patterns of eight Bernoulli bits by an alias table of 256 columns, compiled
 * once per level. docs/proofs/bernoulli.md. A level defines load2 and look2, which look up the
 * bytes of two tables of 256 at the 64 indices of one block, and of the next block as well if
 * FDP_LOOK_BLOCKS is 2; and zeros64, the mask of the bytes that are 0. None of them reads an
 * address that depends on an index. */
#ifndef FDP_LOOK_BLOCKS
#define FDP_LOOK_BLOCKS 1
#endif
#ifndef FDP_HAVE_LOOK_FEW
static inline void FDP_BYTE(look_few)(const uint8_t *a, const uint8_t *b,
                                      const uint8_t *index, uint8_t *one, uint8_t *two,
                                      size_t n)
{
    FDP_BYTE(tables_t) tables;
    (void)n; /* a whole block costs no more */
    FDP_BYTE(load2)(a, b, &tables);
    FDP_BYTE(look2)(&tables, index, index, one, two);
}
#endif

/* For blocks of 64 columns and the first 64 bytes of their U: sets the pattern if that byte decides
 * it; else the pattern is 0 and a bit of `tie` is set. */
static void FDP_BYTE(flip_patterns)(const fdp_bernoulli_t *law,
                                    const uint8_t *restrict word,
                                    uint8_t *restrict pattern, uint64_t *restrict tie,
                                    size_t blocks)
{
    FDP_BYTE(tables_t) tables;
    FDP_ALIGNED(64) uint8_t cuts[64 * FDP_LOOK_BLOCKS], aliases[64 * FDP_LOOK_BLOCKS];
    FDP_BYTE(load2)(law->plane[0], law->alias, &tables);
    for (size_t g = 0; g < blocks; g++) {
        const uint8_t *column = word + 128 * g, *u = column + 64;
        const size_t place = g % FDP_LOOK_BLOCKS;
        if (place == 0) {
            FDP_BYTE(look2)(&tables, column, column + (g + 1 < blocks ? 128 : 0), cuts,
                            aliases);
        }
        const uint8_t *cut = cuts + 64 * place, *alias = aliases + 64 * place;
        uint8_t *out = pattern + 64 * g;
        FDP_ALIGNED(64) uint8_t differ[64];
        for (size_t i = 0; i < 64; i++) {
            const uint8_t less = u[i] < cut[i] ? 0xff : 0;
            const uint8_t equal = u[i] == cut[i] ? 0xff : 0;
            out[i] = (uint8_t)(((alias[i] & less) | (column[i] & ~less)) & ~equal);
            differ[i] = u[i] ^ cut[i];
        }
        tie[g] = FDP_K(zeros64)(differ);
    }
}

/* Sets the patterns of n = 16 or 64 ties, by the next 56 bits of U; byte b of lane i is at more[64
 * (b - 1) + i]. Returns the lanes that stay open. */
static uint64_t FDP_BYTE(flip_settle)(const fdp_bernoulli_t *law,
                                      const uint8_t *restrict column,
                                      const uint8_t *restrict more,
                                      uint8_t *restrict pattern, size_t n)
{
    FDP_ALIGNED(64) uint8_t cut[8][64], below[64] = {0}, differ[64] = {0};
    for (size_t b = 1; b < 8; b += 2) {
        FDP_BYTE(look_few)(law->plane[b], b < 7 ? law->plane[b + 1] : law->alias, column,
                           cut[b - 1], cut[b], n);
    }
    for (size_t b = 0; b < 7; b++) {
        const uint8_t *u = more + 64 * b;
        for (size_t i = 0; i < 64; i++) {
            const uint8_t less = u[i] < cut[b][i] ? 0xff : 0;
            const uint8_t level = differ[i] == 0 ? 0xff : 0;
            below[i] = (uint8_t)(below[i] | (less & level));
            differ[i] = (uint8_t)(differ[i] | (u[i] ^ cut[b][i]));
        }
    }
    for (size_t i = 0; i < 64; i++) {
        pattern[i] = (uint8_t)((cut[7][i] & below[i]) | (column[i] & ~below[i]));
    }
    return FDP_K(zeros64)(differ);
}
