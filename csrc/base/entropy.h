/* entropy.h - the only source of randomness: the operating system's generator. */
#ifndef FDP_BASE_ENTROPY_H
#define FDP_BASE_ENTROPY_H

#include "config.h"

/* Fill buf[0..n) with bytes of getrandom(2) (Linux) or getentropy(2) (macOS).
 * ensures: returns 0 and all n bytes are fresh; or returns -1, errno says why
 * and buf is all zero. There is no fallback of any kind.
 * May block early at boot, until the kernel's generator is seeded. */
FDP_INTERNAL FDP_NODISCARD int fdp_entropy_fill(void *buf, size_t n);

#endif
