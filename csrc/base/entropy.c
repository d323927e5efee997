/* entropy.c - fresh bytes from the operating system, or an error.
 *
 *   fdp_entropy_some   one system call, repeated if a signal interrupts it
 *   fdp_entropy_fill   the loop over short reads; wipes and fails on any error
 *
 * The libc function is called, not the raw system call, so that a test can replace it by
 * one that fails.
 */
#include "entropy.h"

#include <errno.h>

#include "wipe.h"

#if defined(_WIN32)
#include <windows.h>

/* From bcryptprimitives.dll, Windows 10 and later. BCryptGenRandom and RtlGenRandom call this
 * generator in the end; it needs no handle, provider or registry entry. */
BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size);

static ptrdiff_t fdp_entropy_some(unsigned char *buf, size_t n)
{
    if (ProcessPrng(buf, n))
        return (ptrdiff_t)n;
    errno = EIO;
    return -1;
}

#elif defined(__APPLE__) || defined(__wasi__) /* on WASI it is random_get of the host */
#if defined(__APPLE__)
#include <sys/random.h>
#endif
#include <unistd.h>

#define ENTROPY_PIECE 256 /* getentropy refuses to return more at once */

static ptrdiff_t fdp_entropy_some(unsigned char *buf, size_t n)
{
    const size_t piece = n < ENTROPY_PIECE ? n : ENTROPY_PIECE;
    return getentropy(buf, piece) == 0 ? (ptrdiff_t)piece : -1;
}

#else
#include <sys/random.h>
#include <sys/types.h>

static ptrdiff_t fdp_entropy_some(unsigned char *buf, size_t n)
{
    ssize_t got;
    do {
        got = getrandom(buf, n, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

#endif

int fdp_entropy_fill(void *buf, size_t n)
{
    unsigned char *at = buf;
    size_t left = n;

    while (left > 0) {
        const ptrdiff_t got = fdp_entropy_some(at, left);
        /* Treat no progress, or more bytes than requested, as an error. */
        if (got <= 0 || (size_t)got > left) {
            const int saved = got < 0 ? errno : EIO;
            fdp_wipe(buf, n);
            errno = saved;
            return -1;
        }
        at += got;
        left -= (size_t)got;
    }
    return 0;
}
