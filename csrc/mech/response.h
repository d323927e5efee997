/* response.h: chunks of k-ary reports, for the mechanisms that build on them. */
#ifndef FDP_MECH_RESPONSE_H
#define FDP_MECH_RESPONSE_H

#include "../base/config.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"

typedef struct {
    FDP_ALIGNED(64) uint8_t word[32768];  /* 2, 4 or 8 bytes for each lane */
    FDP_ALIGNED(64) uint8_t label[16384]; /* 1, 2 or 4 bytes for each lane */
    FDP_ALIGNED(64) uint8_t report[16384];
    FDP_ALIGNED(64) uint8_t more[2048];
    uint64_t special[128];
    fdp_chunk_t chunk;
    fdp_step_t step;
    const fdp_call_t *call;
    const fdp_response_t *law;
    const fdp_kernels_t *kernels;
    uint8_t *to;     /* where the chunk's reports go, in the lanes' type: `report`, or the
                      * caller's memory */
    size_t apart;    /* bytes of `report` that chunks have used */
    uint64_t number; /* of the chunk */
    uint32_t bits;   /* bits of a word: 16, 32 or 64 */
    uint32_t width;  /* bytes of a label: 1, 2 or 4 */
    fdp_status_t failed; /* why the resolver failed, or FDP_OK */
} fdp_respond_t;

/* Bytes of a report. */
static inline size_t fdp_width_of(fdp_dtype_t type)
{
    return type == FDP_U8 ? 1 : type == FDP_U16 ? 2 : 4;
}

/* Prepares for a law; `other` is as in fdp_respond. */
FDP_INTERNAL void fdp_respond_open(fdp_respond_t *r, const fdp_call_t *call,
                                   const fdp_response_t *law, int64_t other);

/* Writes the reports of n labels, at most a chunk, from x[at] on to out[to] on, with the words of
 * chunk `number`. */
FDP_INTERNAL void fdp_respond_chunk(fdp_respond_t *r, uint64_t number, size_t n,
                                    const void *x, fdp_dtype_t x_type, size_t at,
                                    void *out, fdp_dtype_t out_type, size_t to);

/* Wipes what chunks of at most n labels have used. */
FDP_INTERNAL void fdp_respond_close(fdp_respond_t *r, size_t n);

#endif
