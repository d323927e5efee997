/* alias.c: alias tables for integer counts and for real cuts. */
#include "alias.h"

/* Sorts in ascending order by merging. */
static void sort_keys(size_t n, uint32_t *key)
{
    uint32_t room[FDP_COLUMNS];
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            const size_t mid = at + width < n ? at + width : n;
            const size_t end = at + 2 * width < n ? at + 2 * width : n;
            for (size_t i = at, j = mid, k = at; k < end; k++) {
                const bool left = i < mid && (j >= end || key[i] <= key[j]);
                room[k] = left ? key[i++] : key[j++];
            }
        }
        memcpy(key, room, n * sizeof *key);
    }
}

void fdp_alias_counts(size_t n, const uint32_t *count, uint8_t *cut, uint8_t *alias)
{
    uint32_t up[FDP_COLUMNS], down[FDP_COLUMNS];
    bool open[FDP_COLUMNS];
    int32_t units = (int32_t)(256 * n);
    uint32_t donor = FDP_SPECIAL;
    for (uint32_t i = 0; i < n; i++) {
        up[i] = count[i] << 8 | i;
        down[i] = count[i] << 8 | (255 - i);
        units -= (int32_t)count[i];
        open[i] = true;
    }
    sort_keys(n, up);
    sort_keys(n, down);
    size_t i = 0, j = n;
    for (size_t todo = n; todo > 0; todo--) {
        while (!open[up[i] & 255]) {
            i++;
        }
        while (!open[255 - (down[j - 1] & 255)]) {
            j--;
        }
        const uint32_t low = up[i] & 255, high = 255 - (down[j - 1] & 255);
        const int32_t least = (int32_t)count[low], most = (int32_t)count[high];
        if (least <= 255 && 256 - least <= units) {
            cut[low] = (uint8_t)(255 - least);
            alias[low] = (uint8_t)donor;
            units -= 256 - least;
            open[low] = false;
        } else { /* the largest one has at least 256 - units, and becomes the donor */
            cut[high] = (uint8_t)(units != 0 ? units - 1 : 255);
            alias[high] = (uint8_t)(units != 0 ? donor : high);
            donor = high;
            units = most - (256 - units);
            open[high] = false;
        }
    }
}

/* ---- real cuts ------------------------------------------------------------- */

/* Chooses every column's alias from the masses, and overwrites `mass`. */
static bool choose_aliases(const fdp_fx_t *f, size_t n, uint64_t *mass, uint8_t *alias)
{
    const size_t w = f->w;
    uint8_t small[FDP_COLUMNS], large[FDP_COLUMNS];
    size_t smalls = 0, larges = 0;
    uint64_t *one = fdp_arena_take(f->a, w);
    if (one == NULL) {
        return false;
    }
    fdp_fx_set_one(f, one);
    for (size_t i = 0; i < n; i++) {
        alias[i] = (uint8_t)i;
        const bool below = fdp_fx_compare(fdp_fx_hi(f, mass, i), one, w) <= 0;
        const bool above = fdp_fx_compare(fdp_fx_lo(f, mass, i), one, w) >= 0;
        if (below == above) {
            return false;
        }
        if (below) {
            small[smalls++] = (uint8_t)i;
        } else {
            large[larges++] = (uint8_t)i;
        }
    }
    while (smalls + larges > 1) {
        if (smalls == 0 || larges == 0) {
            return false;
        }
        const uint8_t column = small[--smalls], giver = large[larges - 1];
        alias[column] = giver;
        uint64_t *low = fdp_fx_lo(f, mass, giver), *high = fdp_fx_hi(f, mass, giver);
        fdp_limbs_sub(low, low, one, w);
        if (fdp_fx_sign(fdp_fx_lo(f, mass, column), w) > 0) {
            fdp_limbs_add(low, low, fdp_fx_lo(f, mass, column), w);
        }
        fdp_limbs_sub(high, high, one, w);
        fdp_limbs_add(high, high, fdp_fx_hi(f, mass, column), w);
        if (fdp_fx_compare(low, one, w) < 0) {
            larges--;
            if (fdp_fx_compare(high, one, w) > 0 && smalls + larges != 0) {
                return false; /* too close to 1 to decide */
            }
            small[smalls++] = giver;
        }
    }
    return true;
}

void fdp_alias_cuts(const fdp_fx_t *f, size_t n, const uint8_t *alias, uint64_t *masses,
                    uint64_t *cuts)
{
    const size_t w = f->w, mark = fdp_arena_mark(f->a);
    uint8_t ready[FDP_COLUMNS], waiting[FDP_COLUMNS] = {0};
    size_t count = 0;
    uint64_t *one = fdp_arena_take(f->a, w);
    if (one == NULL) {
        return;
    }
    fdp_fx_set_one(f, one);
    memset(cuts, 0, 2 * n * w * sizeof *cuts);
    for (size_t i = 0; i < n; i++) {
        waiting[alias[i]] = (uint8_t)(waiting[alias[i]] + (alias[i] != i));
    }
    for (size_t i = 0; i < n; i++) {
        if (waiting[i] == 0) {
            ready[count++] = (uint8_t)i;
        }
    }
    /* The cut of a column is 1 - mass plus the cuts of the columns whose alias it is, so compute
     * those first. */
    while (count != 0) {
        const size_t i = ready[--count], j = alias[i];
        if (i == j) { /* the last column belongs wholly to its outcome, because the masses sum to
                       * n */
            continue;
        }
        uint64_t *low = fdp_fx_lo(f, cuts, i), *high = fdp_fx_hi(f, cuts, i);
        fdp_limbs_sub(low, one, fdp_fx_hi(f, masses, i), w);
        if (fdp_fx_sign(low, w) < 0) {
            memset(low, 0, w * sizeof *low);
        }
        fdp_limbs_sub(high, one, fdp_fx_lo(f, masses, i), w);
        if (fdp_fx_compare(high, one, w) > 0) {
            memcpy(high, one, w * sizeof *high);
        }
        fdp_limbs_sub(fdp_fx_lo(f, masses, j), fdp_fx_lo(f, masses, j), high, w);
        fdp_limbs_sub(fdp_fx_hi(f, masses, j), fdp_fx_hi(f, masses, j), low, w);
        if (--waiting[j] == 0) {
            ready[count++] = (uint8_t)j;
        }
    }
    fdp_arena_back(f->a, mark);
}

bool fdp_alias_table(const fdp_fx_t *f, size_t n, const uint64_t *masses, uint64_t *entry)
{
    const size_t mark = fdp_arena_mark(f->a), bytes = 2 * n * f->w * sizeof *masses;
    uint64_t *cuts = fdp_fx_take(f, n), *mass = fdp_fx_take(f, n);
    uint8_t alias[FDP_COLUMNS];
    if (mass == NULL) {
        return false;
    }
    memcpy(mass, masses, bytes);
    bool sure = choose_aliases(f, n, mass, alias);
    if (sure) {
        memcpy(mass, masses, bytes);
        fdp_alias_cuts(f, n, alias, mass, cuts);
        for (size_t i = 0; i < n && !f->a->failed; i++) { /* else there are no cuts */
            uint64_t floor;
            sure &= fdp_fx_floor(f, fdp_fx_lo(f, cuts, i), 56, &floor);
            entry[i] = floor << 8 | alias[i];
        }
    }
    fdp_arena_back(f->a, mark);
    return sure && !f->a->failed && !f->a->vague;
}

/* ---- the first digit --------------------------------------------------------- */

void fdp_alias_masses(const fdp_fx_t *f, uint64_t *pairs, const uint32_t *count)
{
    uint32_t units = 1 << 15;
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        units -= count[i];
    }
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        uint64_t *p = fdp_fx_lo(f, pairs, i);
        fdp_fx_left_over(f, p, p, 1 << 15, count[i]);
        fdp_fx_scale(f, p, p, FDP_COLUMNS, units);
    }
}

void fdp_alias_values(const uint32_t *count, fdp_digits_t *law)
{
    uint32_t units = 1 << 15;
    fdp_alias_counts(FDP_COLUMNS, count, law->first.cut, law->first.alias);
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        uint8_t *alias = &law->first.alias[i];
        *alias = *alias == FDP_SPECIAL ? FDP_SPECIAL : (uint8_t)(*alias - 64);
        units -= count[i];
    }
    law->special[0] = (double)units / 32768.0;
}

bool fdp_alias_first(const fdp_fx_t *f, uint64_t *pairs, unsigned tails, fdp_digits_t *law)
{
    uint32_t count[FDP_COLUMNS];
    bool sure = true;
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        const bool tail = i == 0 || (i == FDP_COLUMNS - 1 && tails == 2);
        uint64_t floor;
        sure &= fdp_fx_floor(f, fdp_fx_lo(f, pairs, i), 15, &floor);
        count[i] = tail ? 0 : (uint32_t)floor;
    }
    if (!sure) {
        return false;
    }
    fdp_alias_values(count, law);
    fdp_alias_masses(f, pairs, count);
    return fdp_alias_table(f, FDP_COLUMNS, pairs, law->first_rest);
}
