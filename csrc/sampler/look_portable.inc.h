/* look_portable.inc.h: tables of 256 bytes, of columns by planes of bits, and for the few
 * ties by comparing every index with every entry. */

#define FDP_HAVE_LOOK_COLUMNS
#define FDP_LOOK_BLOCKS 2
typedef fdp_forms_t FDP_BYTE(columns_t);

static void FDP_BYTE(load_columns)(const uint8_t *cut, const uint8_t *alias,
                                   FDP_BYTE(columns_t) *forms)
{
    fdp_forms_load(cut, alias, 256, forms);
}

static void FDP_BYTE(look_columns)(const FDP_BYTE(columns_t) *forms,
                                   const uint8_t *column, const uint8_t *next,
                                   uint8_t *cut, uint8_t *alias)
{
    fdp_planes_look(forms, 256, column, next, cut, alias);
}

typedef uint8_t FDP_BYTE(byte16_t) __attribute__((vector_size(16)));

/* Each entry 16 times over: to spread it anew for every block took a third of the time. */
typedef struct {
    FDP_BYTE(byte16_t) entry[256][2];
} FDP_BYTE(tables_t);

static void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                            FDP_BYTE(tables_t) *tables)
{
    for (size_t c = 0; c < 256; c++) {
        tables->entry[c][0] = one[c] - (FDP_BYTE(byte16_t)){0};
        tables->entry[c][1] = two[c] - (FDP_BYTE(byte16_t)){0};
    }
}

FDP_ALWAYS_INLINE void FDP_BYTE(scan)(const FDP_BYTE(tables_t) *tables,
                                      const uint8_t *index, uint8_t *one, uint8_t *two,
                                      size_t vectors)
{
    FDP_BYTE(byte16_t) at[4], x[4] = {{0}}, y[4] = {{0}}, c = {0};
    memcpy(at, index, 16 * vectors);
    for (size_t k = 0; k < 256; k++, c += 1) {
        for (size_t v = 0; v < vectors; v++) {
            const FDP_BYTE(byte16_t) hit = (FDP_BYTE(byte16_t))(at[v] == c);
            x[v] |= hit & tables->entry[k][0];
            y[v] |= hit & tables->entry[k][1];
        }
    }
    memcpy(one, x, 16 * vectors);
    memcpy(two, y, 16 * vectors);
}

/* n: 16 or 64 */
static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables,
                                   const uint8_t *index, uint8_t *one, uint8_t *two,
                                   size_t n)
{
    if (n == 16) {
        FDP_BYTE(scan)(tables, index, one, two, 1);
    } else {
        FDP_BYTE(scan)(tables, index, one, two, 4);
    }
}

/* Bit i: byte i of 64 is 0. */
static inline uint64_t FDP_BYTE(zeros64)(const uint8_t *byte)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t mask = 0;
    for (unsigned k = 0; k < 64; k += 8) {
        uint64_t x;
        memcpy(&x, byte + k, sizeof x);
        const uint64_t zero = ~(((x & low) + low) | x) & ~low; /* top bits */
        mask |= ((zero >> 7) * UINT64_C(0x0102040810204080) >> 56) << k;
    }
    return mask;
}
