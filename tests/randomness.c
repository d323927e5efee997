/* randomness.c - bytes of the operating system that a test can fix.
 *
 * Preloaded, it stands before getrandom and getentropy. While fixed, bytes are a
 * function of a seed, of how often was asked before, and of the order of forks; a
 * program that a test starts gets its seed from the environment. Otherwise the system
 * is asked.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic uint64_t seed, asked, forks;
static _Atomic int fixed;

static uint64_t mixed(uint64_t x) /* SplitMix64 */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void fix_randomness(uint64_t from)
{
    seed = mixed(from);
    asked = 0;
    forks = 0;
    fixed = 1;
}

void free_randomness(void) { fixed = 0; }

static void before_fork(void) { forks++; }

static void in_child(void)
{
    seed = mixed(seed ^ mixed(forks));
    asked = 0;
    forks = 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *given = getenv("FASTDP_TEST_SEED");
    pthread_atfork(before_fork, NULL, in_child);
    if (given != NULL && *given != 0) {
        fix_randomness(strtoull(given, NULL, 10));
    }
}

ssize_t getrandom(void *buf, size_t n, unsigned flags)
{
    unsigned char *at = buf;
    if (!fixed) {
        return syscall(SYS_getrandom, buf, n, flags);
    }
    uint64_t number = atomic_fetch_add(&asked, n / 8 + 1);
    for (size_t done = 0; done < n; done += 8) {
        const uint64_t word = mixed(seed + UINT64_C(0xd1342543de82ef95) * number++);
        memcpy(at + done, &word, n - done < 8 ? n - done : 8);
    }
    return (ssize_t)n;
}

int getentropy(void *buf, size_t n)
{
    return getrandom(buf, n, 0) == (ssize_t)n ? 0 : -1;
}
