/* wipe.h - erase keys, keystream and noise so that the compiler cannot skip it.
 *
 * This is a memset followed by a barrier that claims to read the bytes, like glibc's
 * explicit_bzero and the Linux kernel's memzero_explicit, but the same on every system
 * and inline for the small fixed sizes of a scalar call. It does not reach copies in
 * registers. It reaches copies in the compiler's spill slots only through fdp_wipe_below.
 */
#ifndef FDP_BASE_WIPE_H
#define FDP_BASE_WIPE_H

#include <string.h>

#include "config.h"

FDP_ALWAYS_INLINE void fdp_wipe(void *p, size_t n)
{
    /* For a long memset of known size, gcc emits "rep stos", which starts slowly. If the size is
     * hidden, gcc calls the library's memset. */
    if (n > 128)
        __asm__("" : "+r"(n));
    if (n != 0)
        memset(p, 0, n);
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Erases 2 kB of the stack below the caller: compilers spill vectors into the frames of the
 * functions that the caller called. */
static __attribute__((noinline, unused)) void fdp_wipe_below(void)
{
    uint8_t frames[2048];
    fdp_wipe(frames, sizeof frames);
}

/* Erases 16 kB of the stack after a call of an exact resolver, whose frames take 10 kB. */
static __attribute__((noinline, unused)) void fdp_wipe_resolver(void)
{
    uint8_t frames[1 << 14];
    fdp_wipe(frames, sizeof frames);
}

#endif
