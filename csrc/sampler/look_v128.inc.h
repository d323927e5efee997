/* look_v128.inc.h: looks up tables of 256 bytes as two tables of 128. */

typedef struct {
    fdp_look_t one[2], two[2];
} FDP_BYTE(tables_t);

static inline void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                                   FDP_BYTE(tables_t) *tables)
{
    for (size_t h = 0; h < 2; h++) {
        fdp_look_open(&tables->one[h], one + 128 * h, 128);
        fdp_look_open(&tables->two[h], two + 128 * h, 128);
    }
}

static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables, const uint8_t *index,
                                   const uint8_t *next, uint8_t *one, uint8_t *two)
{
    (void)next;
    for (size_t v = 0; v < 64; v += 16) {
        const fdp_b16_t i = fdp_b16_load(index + v), low = i & 127;
        const fdp_b16_t upper = (fdp_b16_t)(i > 127);
        const fdp_b16_t x0 = fdp_look(&tables->one[0], 128, low);
        const fdp_b16_t x1 = fdp_look(&tables->one[1], 128, low);
        const fdp_b16_t y0 = fdp_look(&tables->two[0], 128, low);
        const fdp_b16_t y1 = fdp_look(&tables->two[1], 128, low);
        fdp_b16_store(one + v, (x1 & upper) | (x0 & ~upper));
        fdp_b16_store(two + v, (y1 & upper) | (y0 & ~upper));
    }
}

/* Bit i is set if byte i of 64 is 0. */
static inline uint64_t FDP_K(zeros64)(const uint8_t *byte)
{
    fdp_b16_t zero[4];
    for (size_t k = 0; k < 4; k++) {
        zero[k] = (fdp_b16_t)(fdp_b16_load(byte + 16 * k) == 0);
    }
    return fdp_mask64(zero);
}
