/* job.c: a call whose chunks are given out once. A chunk that is given out twice would show the
 * difference of two data to whoever sees both outputs. */
#include <string.h>
#if !defined(_WIN32) && !defined(__wasi__)
#include <unistd.h>
#endif

#include "../base/wipe.h"
#include "../fastdp.h"
#include "target.h"

/* The number of this process; 0 where no process is copied. */
static int64_t process(void)
{
#if defined(_WIN32) || defined(__wasi__)
    return 0;
#else
    return (int64_t)getpid();
#endif
}

fdp_status_t fdp_job_open(fdp_job_t *job)
{
    memset(job, 0, sizeof *job);
    const fdp_status_t status = fdp_call_open(&job->call);
    if (status == FDP_OK) {
        job->self = job;
        job->process = process();
    }
    return status;
}

void fdp_job_close(fdp_job_t *job) { fdp_wipe(job, sizeof *job); }

/* `next` is a plain integer for C++, which has no _Atomic. Only a request that fits moves it, so
 * it never passes the end. */
fdp_status_t fdp_job_take(fdp_job_t *job, uint64_t chunks, uint64_t *first)
{
    *first = 0;
    if (job->self != job || job->process != process()) {
        return FDP_ERR_JOB;
    }
    uint64_t next = __atomic_load_n(&job->next, __ATOMIC_RELAXED);
    do {
        if (chunks > FDP_JOB_CHUNKS - next) {
            return FDP_ERR_JOB;
        }
    } while (!__atomic_compare_exchange_n(&job->next, &next, next + chunks, 1, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    *first = next;
    return FDP_OK;
}

fdp_status_t fdp_job_release(fdp_job_t *job, const fdp_sampler_t *sampler, size_t n,
                             const fdp_target_t *target)
{
    const size_t per_chunk = sampler->chunk_outputs;
    uint64_t first;
    const fdp_status_t status =
        per_chunk == 0 ? FDP_ERR_PARAMETER
                       : fdp_job_take(job, n / per_chunk + (n % per_chunk != 0), &first);
    if (status != FDP_OK) {
        fdp_target_zero(target, n);
        return status;
    }
    return fdp_release(&job->call, sampler, first, n, target);
}
