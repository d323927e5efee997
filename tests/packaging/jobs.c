/* jobs.c: threads on one job draw what one thread draws, and no chunk twice; jobs that are copied,
 * closed, used up or in another process refuse. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fastdp.h"

#define THREADS 4
#define EACH 40      /* releases of a thread */
#define N 10000      /* values of a release: two chunks */
#define TAKES 100000 /* requests of a thread */

static int failures;

static void expect(int truth, const char *what)
{
    if (!truth) {
        printf("failed: %s\n", what);
        failures++;
    }
}

static fdp_sampler_t law;

/* For tests: whoever has the key knows the noise. */
static void open_fixed(fdp_job_t *job)
{
    const uint8_t key[32] = {1, 2, 3};
    expect(fdp_job_open(job) == FDP_OK, "open");
    job->call.stream.cipher = FDP_CIPHER_CHACHA20;
    fdp_stream_derive(job->call.stream.key, key, 0);
}

static int by_number(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* ---- threads ---------------------------------------------------------------- */

typedef struct {
    fdp_job_t *job;
    uint64_t hash[EACH];
    uint64_t range[TAKES][2]; /* the first chunk, and how many */
    int failed;
} part_t;

static uint64_t hash_of(const int64_t *x, size_t n)
{
    uint64_t state = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        state = (state ^ (uint64_t)x[i]) * UINT64_C(0x100000001b3);
    }
    return state;
}

static void *release(void *argument)
{
    part_t *part = argument;
    int64_t *out = malloc(N * sizeof *out);
    const fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
    for (size_t i = 0; i < EACH; i++) {
        part->failed |= fdp_job_release(part->job, &law, N, &target) != FDP_OK;
        part->hash[i] = hash_of(out, N);
    }
    free(out);
    return NULL;
}

static void *take(void *argument)
{
    part_t *part = argument;
    for (size_t i = 0; i < TAKES; i++) {
        part->range[i][1] = 1 + i % 5;
        part->failed |= fdp_job_take(part->job, 1 + i % 5, &part->range[i][0]) != FDP_OK;
    }
    return NULL;
}

/* Runs a function in `THREADS` threads, or in this one after the other. */
static void run(void *(*draw)(void *), fdp_job_t *job, part_t part[THREADS], int together)
{
    pthread_t thread[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        part[i].job = job;
        part[i].failed = 0;
        if (together) {
            expect(pthread_create(&thread[i], NULL, draw, &part[i]) == 0, "a thread");
        } else {
            draw(&part[i]);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        expect(!together || pthread_join(thread[i], NULL) == 0, "its end");
        expect(!part[i].failed, "draws of a thread");
    }
}

static void draw_together(void)
{
    static part_t part[2][THREADS];
    static uint64_t hash[2][THREADS * EACH];
    for (int together = 0; together < 2; together++) {
        fdp_job_t job;
        open_fixed(&job);
        run(release, &job, part[together], together);
        expect(job.next == 2 * THREADS * EACH, "two chunks for each release");
        for (size_t i = 0; i < THREADS; i++) {
            memcpy(hash[together] + i * EACH, part[together][i].hash, sizeof part[0][i].hash);
        }
        qsort(hash[together], THREADS * EACH, sizeof hash[0][0], by_number);
        fdp_job_close(&job);
    }
    expect(memcmp(hash[0], hash[1], sizeof hash[0]) == 0, "what one thread draws");
    for (size_t i = 1; i < THREADS * EACH; i++) {
        expect(hash[0][i] != hash[0][i - 1], "no noise twice");
    }
}

static void take_together(void)
{
    static part_t part[THREADS];
    static uint64_t range[THREADS * TAKES][2];
    fdp_job_t job;
    open_fixed(&job);
    run(take, &job, part, 1);
    for (size_t i = 0; i < THREADS; i++) {
        memcpy(range + i * TAKES, part[i].range, sizeof part[i].range);
    }
    qsort(range, THREADS * TAKES, sizeof range[0], by_number);
    uint64_t next = 0, wrong = 0;
    for (size_t i = 0; i < THREADS * TAKES; i++) {
        wrong += range[i][0] != next;
        next += range[i][1];
    }
    expect(wrong == 0, "chunks without a gap, and none twice");
    expect(job.next == next, "as many as were taken");
    fdp_job_close(&job);
}

/* ---- refusals ---------------------------------------------------------------- */

/* Whether a job refuses any draw, also of nothing, with zeros. */
static int refuses(fdp_job_t *job, size_t n)
{
    int64_t out[3] = {7, 8, 9};
    const fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
    uint64_t first = 9;
    if (fdp_job_take(job, n, &first) != FDP_ERR_JOB || first != 0) {
        return 0;
    }
    const size_t few = n < 3 ? n : 3;
    return fdp_job_release(job, &law, few, &target) == FDP_ERR_JOB && (few < 1 || out[0] == 0) &&
           (few < 2 || out[1] == 0) && (few < 3 || out[2] == 0);
}

static void use_up(void)
{
    fdp_job_t job;
    uint64_t first = 9;
    int64_t out[3] = {7, 8, 9};
    const fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
    open_fixed(&job);
    expect(fdp_job_take(&job, UINT64_MAX, &first) == FDP_ERR_JOB && first == 0, "too many");
    expect(fdp_job_take(&job, FDP_JOB_CHUNKS + 1, &first) == FDP_ERR_JOB, "one too many");
    expect(job.next == 0, "a refused request takes nothing");
    expect(fdp_job_take(&job, FDP_JOB_CHUNKS - 2, &first) == FDP_OK && first == 0, "nearly all");
    expect(fdp_job_take(&job, 3, &first) == FDP_ERR_JOB && first == 0, "more than is left");
    expect(fdp_job_take(&job, UINT64_MAX, &first) == FDP_ERR_JOB, "a sum beyond 64 bits");
    expect(fdp_job_release(&job, &law, 3, &target) == FDP_OK, "the last but one");
    expect(fdp_job_take(&job, 1, &first) == FDP_OK && first == FDP_JOB_CHUNKS - 1, "the last");
    expect(refuses(&job, 3), "none is left");
    expect(fdp_job_take(&job, 0, &first) == FDP_OK, "no chunk can always be had");
    fdp_job_close(&job);
}

static void go_wrong(void)
{
    static const fdp_job_t zeros;
    fdp_job_t job = zeros, copy;
    int64_t out[3] = {7, 8, 9};
    const fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
    expect(refuses(&job, 3) && refuses(&job, 0), "never opened");
    expect(fdp_job_open(&job) == FDP_OK, "open");
    copy = job;
    expect(refuses(&copy, 3) && refuses(&copy, 0), "a copy");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        _exit(refuses(&job, 3) && refuses(&job, 0) ? 0 : 1);
    }
    int told = 1;
    expect(child > 0 && waitpid(child, &told, 0) == child && told == 0, "a forked process");
    fdp_sampler_t unprepared = law;
    unprepared.chunk_outputs = 0;
    expect(fdp_job_release(&job, &unprepared, 3, &target) == FDP_ERR_PARAMETER && out[0] == 0 &&
               job.next == 0,
           "a law that is not prepared");
    expect(fdp_job_release(&job, &law, 3, &target) == FDP_OK && job.next == 1, "it goes on");
    fdp_job_close(&job);
    expect(memcmp(&job, &zeros, sizeof job) == 0, "wiped");
    expect(refuses(&job, 3) && refuses(&job, 0), "closed");
}

static void say(void)
{
    const char *unknown = fdp_status_text((fdp_status_t)(FDP_ERR_JOB + 1));
    expect(fdp_version() == FDP_VERSION, "version");
    expect(strcmp(unknown, "unknown status") == 0, "an unknown status");
    expect(fdp_status_text((fdp_status_t)-1) == unknown, "a negative status");
    for (int i = FDP_OK; i <= FDP_ERR_JOB; i++) {
        expect(strcmp(fdp_status_text((fdp_status_t)i), unknown) != 0, "a known status");
        for (int k = FDP_OK; k < i; k++) {
            expect(strcmp(fdp_status_text((fdp_status_t)i), fdp_status_text((fdp_status_t)k)) != 0,
                   "each status has its text");
        }
    }
}

int main(void)
{
    const uint64_t ten = 10, one = 1;
    const fdp_ratio_t scale = {&ten, &one, 1, 1};
    expect(fdp_sampler_laplace(&law, &scale, 0) == FDP_OK, "a law");
    draw_together();
    take_together();
    use_up();
    go_wrong();
    say();
    printf("%d failures\n", failures);
    return failures != 0;
}
