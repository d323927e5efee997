/* law.c: see law.h; fdp_sampler_prepare completes a law's error bounds, second-stage
 * lanes and chunk size. Bounds and rates: docs/proofs/kernels.md. */
#include "law.h"

#include <math.h>

fdp_shape_t fdp_law_shape(fdp_kind_t kind)
{
    switch (kind) {
    case FDP_LAPLACE_NARROW: return (fdp_shape_t){{4, 0, 0}, 4, false};
    case FDP_LAPLACE_WIDE: return (fdp_shape_t){{4, 8, 0}, 8, false};
    case FDP_GAUSSIAN_NARROW: return (fdp_shape_t){{2, 4, 0}, 4, true};
    default: return (fdp_shape_t){{2, 4, 8}, 8, true};
    }
}

/* A number of lanes that a binomial count of this mean exceeds with probability
 * below 2^-64, by Chernoff's e^-mean (e mean / c)^c; a multiple of 16. */
static uint32_t slots_for(double trials, double rate)
{
    const double mean = trials * rate;
    uint32_t slots = 16;
    while (slots < FDP_SLOTS_MOST &&
           (slots < mean ||
            slots * log2(slots / (2.7183 * mean)) + 1.4426 * mean < 64.0)) {
        slots += 16;
    }
    return slots;
}

/* Bounds on |y - true y| = error + error_relative * y, docs/proofs/kernels.md.
 * Returns the share of words that the narrow kernel leaves undecided. */
static double prepare_laplace(fdp_laplace_t *law)
{
    const double scale = law->scale;
    law->error = scale * 0x1p-48;
    law->error_relative = 0x1p-49;
    law->unsettled = 0;
    /* Words below `least` are left undecided, so that the cell of the others is
     * at most 0.76 / least of E: the power of two that leaves fewest. */
    int power = 12;
    while (power < 24 &&
           ldexp((2.0 * scale + 1.0) * 0.77, -power - 1) > ldexp(1.0, power - 30)) {
        power++;
    }
    law->narrow_least = INT32_C(1) << power;
    law->narrow_error = (float)(scale * (0x1.8p-22 + ldexp(0.77, -power)) * 1.01);
    law->narrow_error_relative = 0x1.2p-22f;
    /* boundaries (y is `scale` on average; y = 0 has one side), words with little
     * left: docs/proofs/kernels.md, lemma 6 */
    return (2.0 + 1.0 / scale) * (double)law->narrow_error +
           2.0 * scale * (double)law->narrow_error_relative + ldexp(2.0, power - 31);
}

static uint32_t chunk_outputs(double acceptance)
{
    if (acceptance == 1.0) {
        return FDP_BATCH;
    }
    /* A full batch nearly always fills the chunk. */
    const double mean = FDP_BATCH * acceptance;
    const double sure = mean - 6.0 * sqrt(mean * (1.0 - acceptance)) - 4.0;
    return sure < 16.0 ? 16 : (uint32_t)sure & ~UINT32_C(15);
}

static bool shift_fits(const fdp_sampler_t *sampler)
{
    const uint32_t laplace = sampler->law.laplace.shift;
    const uint32_t gaussian = sampler->law.gaussian.shift;
    switch (sampler->kind) {
    case FDP_LAPLACE_NARROW: return laplace == 0;
    case FDP_LAPLACE_WIDE: return laplace >= 1 && laplace <= 44;
    case FDP_GAUSSIAN_NARROW: return gaussian <= 8;
    case FDP_GAUSSIAN_WIDE: return gaussian >= 9 && gaussian <= 54;
    default: return false;
    }
}

fdp_status_t fdp_sampler_prepare(fdp_sampler_t *sampler)
{
    const fdp_kind_t kind = sampler->kind;
    if (!shift_fits(sampler) ||
        !(sampler->acceptance > 0.0 && sampler->acceptance <= 1.0)) {
        return FDP_ERR_PARAMETER;
    }
    double rate;
    if (fdp_is_laplace(sampler)) {
        rate = prepare_laplace(&sampler->law.laplace);
        rate += kind == FDP_LAPLACE_WIDE ? 0x1p-11 : 0.0; /* V near 0 */
    } else {
        sampler->law.gaussian.error = 0x1p-44;
        sampler->law.gaussian.narrow_error =
            kind == FDP_GAUSSIAN_NARROW ? 0x1.6p-17f : 0x1.2p-16f;
        rate = 0x1p-14;
    }
    const double trials[3] = {FDP_BATCH_SMALL, FDP_GROUP, FDP_BATCH};
    for (int i = 0; i < 3; i++) {
        sampler->slots[i] = slots_for(trials[i], rate);
    }
    sampler->chunk_outputs = chunk_outputs(sampler->acceptance);
    return FDP_OK;
}

size_t fdp_law_slots(const fdp_sampler_t *sampler, size_t trials)
{
    return sampler->slots[trials <= FDP_BATCH_SMALL ? 0 : trials <= FDP_GROUP ? 1 : 2];
}

size_t fdp_law_trials(const fdp_sampler_t *sampler, size_t outputs)
{
    const double a = sampler->acceptance;
    const double n = (double)outputs;
    const double extra = a == 1.0 ? 0.0 : 4.0 * sqrt(n * (1.0 - a)) / a;
    const double trials = n / a + extra;
    return trials >= FDP_BATCH ? FDP_BATCH : ((size_t)trials + 63) & ~(size_t)63;
}
