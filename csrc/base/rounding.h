/* rounding.h: the floating-point mode that every error bound assumes: round to nearest, subnormals
 * kept. Every drawing function sets it on entry and restores the old mode on exit, because a host
 * program may have changed it (fesetround, flush to zero). */
#ifndef FDP_BASE_ROUNDING_H
#define FDP_BASE_ROUNDING_H

#include "config.h"

#if FDP_X86_64
#include <xmmintrin.h>

typedef unsigned fdp_rounding_t;

static inline fdp_rounding_t fdp_rounding_enter(void)
{
    const fdp_rounding_t saved = _mm_getcsr();
    _mm_setcsr(0x1f80); /* all exceptions masked, nearest, no flush to zero */
    return saved;
}

/* The same mode, but subnormal operands and results count as 0. It is for kernels whose bounds
 * allow that, because arithmetic on subnormal numbers takes longer and would reveal subnormal data.
 * All exception flags are raised as well: raising one for the first time, for example at the first
 * rounded result, takes some cycles. */
static inline fdp_rounding_t fdp_rounding_enter_flushed(void)
{
    const fdp_rounding_t saved = _mm_getcsr();
    _mm_setcsr(0x9fff);
    return saved;
}

static inline void fdp_rounding_leave(fdp_rounding_t saved) { _mm_setcsr(saved); }

#else
#include <fenv.h>

typedef fenv_t fdp_rounding_t;

static inline fdp_rounding_t fdp_rounding_enter(void)
{
    fdp_rounding_t saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    return saved;
}

/* On this machine subnormal operands take no extra time. */
static inline fdp_rounding_t fdp_rounding_enter_flushed(void)
{
    return fdp_rounding_enter();
}

static inline void fdp_rounding_leave(fdp_rounding_t saved) { fesetenv(&saved); }
#endif

#endif
