/* call.c: the key of a call, and raw words for the resolver and for tests. */
#include <string.h>

#include "../base/entropy.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"

fdp_status_t fdp_call_open(fdp_call_t *call)
{
    memset(call, 0, sizeof *call);
    const fdp_status_t checked = fdp_self_check();
    if (checked != FDP_OK) {
        return checked;
    }
    call->stream.cipher = fdp_cipher_default();
    if (fdp_entropy_fill(call->stream.key, sizeof call->stream.key) != 0) {
        fdp_call_close(call);
        return FDP_ERR_ENTROPY;
    }
    return FDP_OK;
}

void fdp_call_close(fdp_call_t *call) { fdp_wipe(call, sizeof *call); }

void fdp_call_extend(const fdp_call_t *call, uint64_t chunk, uint32_t trial,
                     uint32_t block, uint8_t out[16])
{
    fdp_chunk_t open;
    fdp_chunk_open(&open, &call->stream, chunk);
    fdp_chunk_extend(&open, &trial, 1, block, out);
    fdp_chunk_close(&open);
}

void fdp_call_main(const fdp_call_t *call, uint64_t chunk, uint64_t offset,
                   uint8_t *out, size_t nbytes)
{
    FDP_ALIGNED(64) uint8_t unit[1024];
    fdp_chunk_t open;
    fdp_chunk_open(&open, &call->stream, chunk);
    while (nbytes > 0) {
        const size_t n = nbytes < sizeof unit ? nbytes : sizeof unit;
        fdp_chunk_main(&open, offset, unit, sizeof unit);
        memcpy(out, unit, n);
        out += n;
        offset += sizeof unit;
        nbytes -= n;
    }
    fdp_chunk_close(&open);
    fdp_wipe(unit, sizeof unit);
}
