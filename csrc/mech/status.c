/* status.c: the version, and what statuses say. */
#include "../fastdp.h"

uint32_t fdp_version(void) { return FDP_VERSION; }

const char *fdp_status_text(fdp_status_t status)
{
    switch (status) {
    case FDP_OK:
        return "no error";
    case FDP_ERR_PARAMETER:
        return "a public parameter is outside its domain";
    case FDP_ERR_ENTROPY:
        return "the operating system gave no randomness";
    case FDP_ERR_MEMORY:
        return "no memory for scratch space";
    case FDP_ERR_RESOLVER:
        return "8,192 bits of precision do not decide, or the law lacks its parameter";
    case FDP_ERR_BUILD:
        return "this build does not compute exactly: build it without -ffast-math and its kin";
    case FDP_ERR_LEVEL:
        return "the environment variable FASTDP_CPU names no level";
    case FDP_ERR_JOB:
        return "the job is not open here, or has too few chunks left";
    }
    return "unknown status";
}
