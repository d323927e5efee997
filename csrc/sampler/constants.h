/* Polynomials and constants of the kernels. Made by tools/make_constants.py, which
 * proves the bounds below; do not edit. Theorems: docs/proofs/polynomials.md.
 *
 * For each NAME, on MIN <= argument <= MAX (a plain variable: it is repeated):
 *   FDP_NAME_Ck        coefficient of the k-th power in the whole expression
 *   FDP_NAME_POLY(x)   the polynomial by Horner's rule
 *   FDP_NAME_EVAL(x)   the whole expression
 *   FDP_NAME_FIT_ERR   bounds |expression - function|, in exact arithmetic
 *   FDP_NAME_EVAL_ERR  bounds |computed expression - function|: fit and roundings
 * Log errors are absolute; *_REL is their bound over |f|. The other errors are
 * relative to the function. EVAL_ERR holds for POLY and EVAL as written, rounded to
 * nearest, contracted or not (or in part), with or without flush to zero; for
 * LOG_EVAL_ERR_REL the argument must be 0 or at least 2^-60 in magnitude. */

#ifndef FDP_SAMPLER_CONSTANTS_H
#define FDP_SAMPLER_CONSTANTS_H

#include <stdint.h>

/* ln 2. k * HI is exact for |k| < 2048, contracted or not; *_ERR bounds
 * the distance of the constant, or of HI + LO, from ln 2. */
#define FDP_LN2 0x1.62e42fefa39efp-1
#define FDP_LN2_ERR 0x1.acp-56
#define FDP_LN2_HI 0x1.62e42fefa38p-1
#define FDP_LN2_LO 0x1.ef35793c7673p-45
#define FDP_LN2_SPLIT_ERR 0x1.fap-103
#define FDP_LOG2E 0x1.71547652b82fep+0
/* floor(ln 2 * 2^128) */
#define FDP_LN2_128_HI UINT64_C(0xb17217f7d1cf79ab)
#define FDP_LN2_128_LO UINT64_C(0xc9e3b39803f2f6af)

/* log1p(f), total degree 19: fit 2^-54.00, computed 2^-53.04 (absolute). */
#define FDP_LOG_MIN (-0x1.2bec74p-2)
#define FDP_LOG_MAX 0x1.a827dcp-2
#define FDP_LOG_TERMS 18
#define FDP_LOG_C2 (-0x1.ffffffffffc21p-2)
#define FDP_LOG_C3 0x1.5555555555196p-2
#define FDP_LOG_C4 (-0x1.00000000505e5p-2)
#define FDP_LOG_C5 0x1.9999999a756edp-3
#define FDP_LOG_C6 (-0x1.5555550e5295cp-3)
#define FDP_LOG_C7 0x1.249248a23b585p-3
#define FDP_LOG_C8 (-0x1.00000f0df56dbp-3)
#define FDP_LOG_C9 0x1.c71cb8544bf9ap-4
#define FDP_LOG_C10 (-0x1.99962474d3198p-4)
#define FDP_LOG_C11 0x1.7452fc9905daap-4
#define FDP_LOG_C12 (-0x1.558d6876898afp-4)
#define FDP_LOG_C13 0x1.3be3a38e70c15p-4
#define FDP_LOG_C14 (-0x1.22d245a8043f3p-4)
#define FDP_LOG_C15 0x1.07c3ca14133d4p-4
#define FDP_LOG_C16 (-0x1.0291ebc61abf5p-4)
#define FDP_LOG_C17 0x1.2602df861cd91p-4
#define FDP_LOG_C18 (-0x1.151f54eb24317p-4)
#define FDP_LOG_C19 0x1.f6319a901d287p-6
#define FDP_LOG_POLY(f) \
    (FDP_LOG_C2 + (f) * \
    (FDP_LOG_C3 + (f) * \
    (FDP_LOG_C4 + (f) * \
    (FDP_LOG_C5 + (f) * \
    (FDP_LOG_C6 + (f) * \
    (FDP_LOG_C7 + (f) * \
    (FDP_LOG_C8 + (f) * \
    (FDP_LOG_C9 + (f) * \
    (FDP_LOG_C10 + (f) * \
    (FDP_LOG_C11 + (f) * \
    (FDP_LOG_C12 + (f) * \
    (FDP_LOG_C13 + (f) * \
    (FDP_LOG_C14 + (f) * \
    (FDP_LOG_C15 + (f) * \
    (FDP_LOG_C16 + (f) * \
    (FDP_LOG_C17 + (f) * \
    (FDP_LOG_C18 + (f) * \
    FDP_LOG_C19)))))))))))))))))
#define FDP_LOG_EVAL(f) ((f) + (f) * (f) * FDP_LOG_POLY(f))
#define FDP_LOG_FIT_ERR 0x1.01p-54
#define FDP_LOG_EVAL_ERR 0x1.f3p-54
#define FDP_LOG_FIT_ERR_REL 0x1.7cp-50 /* times |f| */
#define FDP_LOG_EVAL_ERR_REL 0x1.9ep-50 /* times |f| */

/* exp(r), total degree 11: fit 2^-57.85, computed 2^-52.38 (relative). */
#define FDP_EXP_MIN (-0x1.63e43p-2)
#define FDP_EXP_MAX 0x1.63e43p-2
#define FDP_EXP_TERMS 11
#define FDP_EXP_C1 0x1p+0
#define FDP_EXP_C2 0x1.000000000000ap-1
#define FDP_EXP_C3 0x1.55555555554ffp-3
#define FDP_EXP_C4 0x1.555555555068p-5
#define FDP_EXP_C5 0x1.1111111126d8p-7
#define FDP_EXP_C6 0x1.6c16c18492afbp-10
#define FDP_EXP_C7 0x1.a01a012e2dcbfp-13
#define FDP_EXP_C8 0x1.a01998f1472acp-16
#define FDP_EXP_C9 0x1.71df1da878e55p-19
#define FDP_EXP_C10 0x1.28ae7d976bb24p-22
#define FDP_EXP_C11 0x1.ad8b6dcdddc19p-26
#define FDP_EXP_POLY(r) \
    (FDP_EXP_C1 + (r) * \
    (FDP_EXP_C2 + (r) * \
    (FDP_EXP_C3 + (r) * \
    (FDP_EXP_C4 + (r) * \
    (FDP_EXP_C5 + (r) * \
    (FDP_EXP_C6 + (r) * \
    (FDP_EXP_C7 + (r) * \
    (FDP_EXP_C8 + (r) * \
    (FDP_EXP_C9 + (r) * \
    (FDP_EXP_C10 + (r) * \
    FDP_EXP_C11))))))))))
#define FDP_EXP_EVAL(r) (1.0 + (r) * FDP_EXP_POLY(r))
#define FDP_EXP_FIT_ERR 0x1.1cp-58
#define FDP_EXP_EVAL_ERR 0x1.8bp-53

#endif
