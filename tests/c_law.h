/* c_law.h: a law of a rational parameter, for programs that test the core alone. */
#ifndef FDP_TESTS_C_LAW_H
#define FDP_TESTS_C_LAW_H

#include <stdlib.h>

#include "fastdp.h"

/* `name` begins with "laplace" or "gaussian". */
static inline fdp_sampler_t law_of(const char *name, uint64_t num, uint64_t den)
{
    const fdp_ratio_t parameter = {&num, &den, 1, 1};
    fdp_sampler_t sampler;
    if ((name[0] == 'l' ? fdp_sampler_laplace(&sampler, &parameter, 0)
                        : fdp_sampler_gaussian(&sampler, &parameter)) != FDP_OK) {
        abort();
    }
    return sampler;
}

#endif
