/* digits.h: laws of alias digits, drawn by passes (digits.c). */
#ifndef FDP_MECH_DIGITS_H
#define FDP_MECH_DIGITS_H

#include "../base/config.h"
#include "../fastdp.h"

#define FDP_PASS 8192 /* trials of a pass, and outputs of a chunk without rejection */

/* Completes the derived fields; false: a field is out of range. */
bool fdp_digits_prepare(fdp_digits_t *law);

/* fdp_release for the kind FDP_DIGITS. */
fdp_status_t fdp_digits_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                                uint64_t first_chunk, size_t n,
                                const fdp_target_t *target);

#endif
