/* look_portable.inc.h: looks up tables of 256 bytes by planes of bits, two blocks at a time. For
 * the few ties it compares every index with every entry. */

#define FDP_LOOK_BLOCKS 2
#define FDP_HAVE_LOOK_FEW
typedef fdp_forms_t FDP_BYTE(tables_t);

static void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                            FDP_BYTE(tables_t) *forms)
{
    fdp_forms_load(one, two, 256, forms);
}

static void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *forms, const uint8_t *index,
                            const uint8_t *next, uint8_t *one, uint8_t *two)
{
    fdp_planes_look(forms, 256, index, next, one, two);
}

typedef uint8_t FDP_BYTE(byte16_t) __attribute__((vector_size(16)));

FDP_ALWAYS_INLINE void FDP_BYTE(scan)(const uint8_t *a, const uint8_t *b,
                                      const uint8_t *index, uint8_t *one, uint8_t *two,
                                      size_t vectors)
{
    FDP_BYTE(byte16_t) at[4], x[4] = {{0}}, y[4] = {{0}}, c = {0};
    memcpy(at, index, 16 * vectors);
    for (size_t k = 0; k < 256; k++, c += 1) {
        for (size_t v = 0; v < vectors; v++) {
            const FDP_BYTE(byte16_t) hit = (FDP_BYTE(byte16_t))(at[v] == c);
            x[v] |= hit & a[k];
            y[v] |= hit & b[k];
        }
    }
    memcpy(one, x, 16 * vectors);
    memcpy(two, y, 16 * vectors);
}

/* n is 16 or 64 */
static void FDP_BYTE(look_few)(const uint8_t *a, const uint8_t *b, const uint8_t *index,
                               uint8_t *one, uint8_t *two, size_t n)
{
    if (n == 16) {
        FDP_BYTE(scan)(a, b, index, one, two, 1);
    } else {
        FDP_BYTE(scan)(a, b, index, one, two, 4);
    }
}

/* Bit i is set if byte i of 64 is 0. */
static inline uint64_t FDP_K(zeros64)(const uint8_t *byte)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t mask = 0;
    for (unsigned k = 0; k < 64; k += 8) {
        uint64_t x;
        memcpy(&x, byte + k, sizeof x);
        const uint64_t zero = ~(((x & low) + low) | x) & ~low; /* in the top bits */
        mask |= ((zero >> 7) * UINT64_C(0x0102040810204080) >> 56) << k;
    }
    return mask;
}
