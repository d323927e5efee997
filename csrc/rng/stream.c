/* stream.c - makes the keys of a chunk, and chooses the cipher body.
 *
 *   fdp_rows      the table: best first, with the CPU bits required
 *   fdp_chunk_*   the interface (stream.h); a chunk keeps the row it was opened with
 *
 * tests: RFC 8439 2.3.2, FIPS 197 C.3, SP 800-38A F.1.5; every row against the
 * definition in stream.h over 1 MB.
 */
#include "stream.h"

#include <string.h>

#include "../base/cpu.h"
#include "../base/wipe.h"
#include "cipher.h"

#define UNIT FDP_CHACHA_UNIT

#define NONCE_CHUNK 0
#define NONCE_TAPE 1
#define NONCE_DERIVE UINT64_MAX

typedef struct fdp_cipher_row {
    uint32_t cipher;
    uint32_t need;  /* all these FDP_CPU_* bits are needed */
    uint32_t block; /* log2 of the bytes of one counter value */
    void (*open)(fdp_chunk_t *chunk, const uint8_t key[32], uint64_t index);
    fdp_fill_fn *fill;
    fdp_extend_fn *extend;
} fdp_cipher_row_t;

static void chacha_open(fdp_chunk_t *chunk, const uint8_t key[32], uint64_t index)
{
    uint32_t call_key[8], both[16];

    memcpy(call_key, key, sizeof call_key);
    fdp_chacha_block(call_key, index, NONCE_CHUNK, both);
    memcpy(chunk->main_key, both, 32);
    memcpy(chunk->ext_key, both + 8, 32);
    fdp_wipe(call_key, sizeof call_key);
    fdp_wipe(both, sizeof both);
}

#if FDP_AES

static void aes_open(fdp_chunk_t *chunk, const uint8_t key[32], uint64_t index)
{
    fdp_aes_chunk((uint8_t *)chunk->main_key, (uint8_t *)chunk->ext_key, key, index);
}

_Static_assert(sizeof(((fdp_chunk_t *)0)->main_key) == FDP_AES_SCHEDULE,
               "a chunk key has room for an AES-256 schedule");

#endif

#define CHACHA(need, level)                            \
    {FDP_CIPHER_CHACHA20, need, 6, chacha_open, fdp_chacha_fill_##level, \
     fdp_chacha_extend_##level}
#define AES(need, level)                               \
    {FDP_CIPHER_AES256, need, 4, aes_open, fdp_aes_fill_##level, fdp_aes_extend_##level}

static const fdp_cipher_row_t fdp_rows[] = {
#if FDP_X86_64
    AES(FDP_CPU_VAES | FDP_CPU_AVX512, vaes512),
    AES(FDP_CPU_VAES, vaes256),
#endif
#if FDP_AES
    AES(FDP_CPU_AES, v128),
#endif
#if FDP_X86_64
    CHACHA(FDP_CPU_AVX512, avx512),
    CHACHA(FDP_CPU_AVX2, avx2),
#endif
    CHACHA(0, portable),
};

/* The best row at the current level, or NULL. The tape's own extensions, and everything beyond the
 * tape, use ChaCha20. */
static const fdp_cipher_row_t *fdp_row_find(uint32_t cipher)
{
    const uint32_t mask = fdp_cpu_mask();

    if (cipher == FDP_CIPHER_TAPE)
        cipher = FDP_CIPHER_CHACHA20;
    for (size_t i = 0; i < sizeof fdp_rows / sizeof fdp_rows[0]; i++) {
        const fdp_cipher_row_t *row = &fdp_rows[i];
        if (row->cipher == cipher && (row->need & mask) == row->need)
            return row;
    }
    return NULL;
}

int fdp_cipher_available(uint32_t cipher) { return fdp_row_find(cipher) != NULL; }

uint32_t fdp_cipher_default(void)
{
    return fdp_cipher_available(FDP_CIPHER_AES256) ? FDP_CIPHER_AES256
                                                   : FDP_CIPHER_CHACHA20;
}

/* ---- the tape --------------------------------------------------------- */

static void fdp_tape_main(const fdp_chunk_t *chunk, uint64_t offset, uint8_t *out,
                          size_t nbytes)
{
    static const uint32_t zero_key[8];
    const fdp_tape_t *tape = chunk->tape;

    for (size_t done = 0; done < nbytes; done += UNIT) {
        const uint64_t at = offset + done;
        if (chunk->index < tape->chunks && at < tape->main_stride)
            memcpy(out + done, tape->main + chunk->index * tape->main_stride + at, UNIT);
        else
            fdp_chacha_fill_portable(zero_key, (chunk->index << 32) + at / 64, NONCE_TAPE,
                                     out + done, UNIT);
    }
}

static void fdp_tape_extend(const fdp_chunk_t *chunk, const uint32_t *trial, size_t n,
                            uint8_t *out16)
{
    const fdp_tape_t *tape = chunk->tape;

    for (size_t i = 0; i < n; i++) {
        const size_t at = 16 * (size_t)trial[i];
        if (chunk->index < tape->chunks && at + 16 <= tape->ext_stride)
            memcpy(out16 + 16 * i, tape->ext + chunk->index * tape->ext_stride + at, 16);
    }
}

/* ---- the interface ---------------------------------------------------- */

void fdp_chunk_open(fdp_chunk_t *chunk, const fdp_stream_t *stream, uint64_t index)
{
    const fdp_cipher_row_t *row = fdp_row_find(stream->cipher);

    if (row == NULL)
        __builtin_trap();
    chunk->row = row;
    chunk->tape = stream->cipher == FDP_CIPHER_TAPE ? stream->tape : NULL;
    chunk->index = index;
    row->open(chunk, stream->key, index);
}

void fdp_chunk_main(const fdp_chunk_t *chunk, uint64_t offset, void *buf, size_t nbytes)
{
    if (FDP_UNLIKELY(chunk->tape != NULL))
        fdp_tape_main(chunk, offset, buf, nbytes);
    else
        chunk->row->fill(chunk->main_key, offset >> chunk->row->block, 0, buf, nbytes);
}

void fdp_chunk_extend(const fdp_chunk_t *chunk, const uint32_t *trial, size_t n,
                      uint32_t block, uint8_t *out16)
{
    chunk->row->extend(chunk->ext_key, trial, n, block, out16);
    if (FDP_UNLIKELY(chunk->tape != NULL) && block == 0)
        fdp_tape_extend(chunk, trial, n, out16);
}

void fdp_chunk_close(fdp_chunk_t *chunk) { fdp_wipe(chunk, sizeof *chunk); }

void fdp_stream_derive(uint8_t out[32], const uint8_t key[32], uint64_t index)
{
    uint32_t words[8], block[16];

    memcpy(words, key, sizeof words);
    fdp_chacha_block(words, index, NONCE_DERIVE, block);
    memcpy(out, block, 32);
    fdp_wipe(words, sizeof words);
    fdp_wipe(block, sizeof block);
}
