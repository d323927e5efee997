/* numbers.c: reports of numbers between public bounds. The words of a chunk are 8 bytes for each of
 * its lanes, then 4 bytes for each. */
#include <string.h>

#include "../base/config.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"
#include "target.h"

#define LANES FDP_NUMBERS_CHUNK
#define PIECE 512 /* lanes processed at once: their words stay in the nearest cache */

typedef struct {
    FDP_ALIGNED(64) uint64_t u[PIECE];
    FDP_ALIGNED(64) uint32_t r[PIECE];
    FDP_ALIGNED(64) double x[PIECE];
    FDP_ALIGNED(64) uint8_t code[PIECE];
    fdp_chunk_t chunk;
} numbers_t;

/* Gives codes to the last words, fewer than 2^9 of 2^64. These codes depend on no number: two words
 * of a pair get the two end codes, whose values cancel; a word without a partner gets the middle
 * code. */
static void put_last(const fdp_number_t *law, numbers_t *w, size_t n)
{
    const uint64_t count = UINT64_MAX - law->plain;
    for (size_t i = 0; i < n; i++) {
        const uint64_t place = w->u[i] - law->plain - 1;
        if (w->u[i] > law->plain) {
            const uint64_t end = place % 2 == 0 ? 0 : law->outputs[0] - 1;
            w->code[i] = (uint8_t)(place + 1 == count && count % 2 ? law->middle : end);
        }
    }
}

fdp_status_t fdp_number_clients(const fdp_call_t *call, const fdp_number_t *law,
                                uint64_t first_chunk, size_t n, const void *x,
                                fdp_dtype_t type, uint8_t *out)
{
    const fdp_kernels_t *kernels = fdp_kernels();
    if (type != FDP_F64 && type != FDP_F32 && type != FDP_I64) {
        memset(out, 0, n);
        return FDP_ERR_PARAMETER;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    numbers_t w;
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t part = n - at < PIECE ? n - at : PIECE, first = at % LANES;
        const size_t lanes = (part + 63) & ~(size_t)63;
        if (first == 0) {
            fdp_chunk_open(&w.chunk, &call->stream, first_chunk++);
        }
        fdp_chunk_main(&w.chunk, first * sizeof *w.u, w.u, lanes * sizeof *w.u);
        fdp_chunk_main(&w.chunk, LANES * sizeof *w.u + first * sizeof *w.r, w.r,
                       lanes * sizeof *w.r);
        const double *from = (const double *)x + at;
        if (type != FDP_F64 || part < lanes) {
            fdp_load_doubles(x, type, at, part, w.x);
            memset(w.x + part, 0, (lanes - part) * sizeof *w.x);
            from = w.x;
        }
        if (FDP_UNLIKELY(kernels->numbers(law, from, w.u, w.r, w.code, lanes))) {
            put_last(law, &w, part);
        }
        memcpy(out + at, w.code, part);
    }
    fdp_rounding_leave(rounding);
    fdp_wipe(&w, sizeof w);
    return FDP_OK;
}
