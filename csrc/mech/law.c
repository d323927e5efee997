/* law.c: see law.h; fdp_sampler_prepare completes a law's error bounds, second-stage
 * lanes and chunk size. Bounds and rates: docs/proofs/kernels.md. */
#include "law.h"

#include <math.h>

#include "digits.h"

fdp_shape_t fdp_law_shape(fdp_kind_t kind)
{
    switch (kind) {
    case FDP_GAUSSIAN_NARROW: return (fdp_shape_t){{2, 4, 0}, 4};
    default: return (fdp_shape_t){{2, 4, 8}, 8};
    }
}

/* A number of lanes that a binomial count of this mean exceeds with probability
 * below 2^-64, by Chernoff's e^-mean (e mean / c)^c; a multiple of 16. */
uint32_t fdp_slots_for(double trials, double rate)
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

static uint32_t chunk_outputs(double acceptance, double trials)
{
    if (acceptance == 1.0) {
        return (uint32_t)trials;
    }
    /* A full batch nearly always fills the chunk. */
    const double mean = trials * acceptance;
    const double sure = mean - 6.0 * sqrt(mean * (1.0 - acceptance)) - 4.0;
    return sure < 16.0 ? 16 : (uint32_t)sure & ~UINT32_C(15);
}

static bool prepare_gaussian(fdp_sampler_t *sampler)
{
    const bool narrow = sampler->kind == FDP_GAUSSIAN_NARROW;
    const uint32_t shift = sampler->law.gaussian.shift;
    const double trials[3] = {FDP_BATCH_SMALL, FDP_GROUP, FDP_BATCH};
    sampler->law.gaussian.error = 0x1p-44;
    sampler->law.gaussian.narrow_error = narrow ? 0x1.6p-17f : 0x1.2p-16f;
    for (int i = 0; i < 3; i++) {
        sampler->slots[i] = fdp_slots_for(trials[i], 0x1p-14);
    }
    return narrow ? shift <= 8 : shift >= 9 && shift <= 54;
}

fdp_status_t fdp_sampler_prepare(fdp_sampler_t *sampler)
{
    double trials = FDP_BATCH;
    bool fits = sampler->acceptance > 0.0 && sampler->acceptance <= 1.0;
    switch (sampler->kind) {
    case FDP_DIGITS:
        fits &= fdp_digits_prepare(&sampler->law.digits);
        trials = FDP_PASS;
        break;
    case FDP_GAUSSIAN_NARROW:
    case FDP_GAUSSIAN_WIDE: fits &= prepare_gaussian(sampler); break;
    default: fits = false; break;
    }
    sampler->chunk_outputs = fits ? chunk_outputs(sampler->acceptance, trials) : 0;
    return fits ? FDP_OK : FDP_ERR_PARAMETER;
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
