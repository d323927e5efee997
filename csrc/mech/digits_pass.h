/* digits_pass.h: passes of alias digits, shared by the files digits*.c. The words of a pass
 * (docs/proofs/discrete_laplace.md, section 4) are: those of 128 ranks, 16 together; then the
 * trials in blocks of 64; then one low word for each trial. A pass begins where the last one ended.
 * All but truncated laws need one pass for each chunk. Lanes are drawn and stored a piece at a
 * time, so that the data of a piece stay in the nearest cache. */
#ifndef FDP_MECH_DIGITS_PASS_H
#define FDP_MECH_DIGITS_PASS_H

#include "../base/config.h"
#include "../base/mul128.h"
#include "../rng/stream.h"
#include "../sampler/digit_kernels.h"
#include "target.h"

#define FDP_PASS 8192 /* trials of a pass, and outputs of a chunk without rejection */
#define FDP_PIECE 2048 /* lanes drawn at once; a whole number of pages of every stream */
#define FDP_FEW_LANES 8 /* smallest number of ranks of a kernel, and outputs of the smallest
                         * calls */
#define FDP_SIZES 5 /* sizes of calls: up to 8, 64, 256, 1024 outputs, and more */
#define FDP_PAGE 1024 /* bytes: offsets in the main stream are multiples of this */

typedef struct {
    size_t lane; /* within the piece */
    fdp_datum_t x;
    fdp_i128_t value;
} fdp_open_t;

typedef struct {
    const fdp_call_t *call;
    const fdp_sampler_t *sampler;
    const fdp_digits_t *law;
    const fdp_digit_kernels_t *kernels;
    fdp_chunk_t chunk;
    uint64_t number; /* of the chunk */
    uint32_t pass;   /* of the chunk */
    size_t slots[2]; /* ranks that are used, by digit */
    size_t sure[2];  /* ranks before the first open one, by digit */
    size_t total[2]; /* special lanes so far, by digit */
    size_t before[2]; /* those before the piece */
    size_t at;        /* where the piece begins in the pass */
    uint8_t *area, *word, *low, *second; /* the last three hold one piece */
    int16_t *first;
    int64_t *noise;
    uint64_t *mask[2];
    fdp_list_t list[2];
    uint8_t open[2][FDP_RANKS];
    struct fdp_tries *tries; /* for tilted digits */
    fdp_open_t *late; /* lanes whose value the resolver gave */
    size_t late_count;
    fdp_status_t status;
} fdp_pass_t;

/* Bytes of the words of `ranks` ranks; and of a block of trials. */
static inline size_t fdp_area_bytes(const fdp_digits_t *law, size_t ranks)
{
    const size_t whole = (ranks + FDP_RANK_GROUP - 1) / FDP_RANK_GROUP * FDP_RANK_GROUP;
    return whole * fdp_rank_words(law) * sizeof(uint64_t);
}

static inline size_t fdp_block_bytes(const fdp_digits_t *law)
{
    return law->shift == 0 ? 128 : 256;
}

/* The number of ranks, or tries, for which a pass has words. */
static inline size_t fdp_pass_ranks(const fdp_digits_t *law)
{
    return law->tilt.slope != 0 ? FDP_TRIES : FDP_RANKS;
}

/* The size of a call of `lanes` outputs: small ones use fewer ranks, and make fewer tries. */
static inline size_t fdp_pass_size(size_t lanes)
{
    return (size_t)((lanes > FDP_FEW_LANES) + (lanes > 64) + (lanes > 256) + (lanes > 1024));
}

static inline uint64_t fdp_pass_start(const fdp_pass_t *p)
{
    const uint64_t blocks = FDP_PASS / FDP_BLOCK_LANES;
    return (uint64_t)p->pass *
           (fdp_area_bytes(p->law, fdp_pass_ranks(p->law)) + blocks * fdp_block_bytes(p->law) +
            (uint64_t)FDP_PASS * fdp_low_bytes(p->law));
}

/* Offsets of the piece's trials and of its low words. The low words follow all trials that the pass
 * could have. */
static inline uint64_t fdp_word_start(const fdp_pass_t *p)
{
    return fdp_pass_start(p) + fdp_area_bytes(p->law, fdp_pass_ranks(p->law)) +
           p->at / FDP_BLOCK_LANES * fdp_block_bytes(p->law);
}

static inline uint64_t fdp_low_start(const fdp_pass_t *p)
{
    return fdp_pass_start(p) + fdp_area_bytes(p->law, fdp_pass_ranks(p->law)) +
           FDP_PASS / FDP_BLOCK_LANES * fdp_block_bytes(p->law) +
           p->at * fdp_low_bytes(p->law);
}

/* Reads the main stream in pieces of a size that every level can produce at once. */
static inline void fdp_pass_fill(const fdp_pass_t *p, uint64_t offset, uint8_t *to,
                                 size_t bytes)
{
    fdp_chunk_main(&p->chunk, offset, to, (bytes + 63) & ~(size_t)63);
}

/* The number of ranks used in passes of `lanes` outputs, by digit. */
FDP_INTERNAL void fdp_pass_slots(const fdp_digits_t *law, size_t lanes, size_t slots[2]);
/* Tilted digits (tilt.c): the start of a pass, a piece, and the end of the pass. */
FDP_INTERNAL void fdp_tilt_open(fdp_pass_t *p, size_t need);
FDP_INTERNAL void fdp_tilt_draw(fdp_pass_t *p, size_t need);
FDP_INTERNAL void fdp_tilt_close(fdp_pass_t *p);
FDP_INTERNAL size_t fdp_tilt_bytes(void); /* bytes of `tries` */
/* Draws the piece's first digits; lanes from `need` on are not special. */
FDP_INTERNAL void fdp_pass_first(fdp_pass_t *p, size_t need);
/* The number of lanes in a piece. */
FDP_INTERNAL size_t fdp_pass_piece(const fdp_digits_t *law,
                                   const fdp_digit_kernels_t *kernels);
/* Begins a pass whose first `need` lanes are used, need <= FDP_PASS. */
FDP_INTERNAL void fdp_pass_open(fdp_pass_t *p, size_t need);
/* Draws the piece from lane `at` on, of which `need` lanes are used. Open lanes are in `late` until
 * fdp_pass_drop. */
FDP_INTERNAL void fdp_pass_draw(fdp_pass_t *p, size_t at, size_t need);
FDP_INTERNAL void fdp_pass_close(fdp_pass_t *p);
/* Gives the open lanes to the resolver (digits_settle.c). */
FDP_INTERNAL void fdp_pass_settle(fdp_pass_t *p, size_t need);
/* Settles a trial in integers, from its words. Returns 1 and sets the value, 0 (rejected) or -1
 * with p->status set. */
FDP_INTERNAL int fdp_pass_resolve(fdp_pass_t *p, uint32_t trial, const uint64_t *words,
                                  fdp_i128_t *value);
/* Allocates `late` for all special lanes of the piece. Returns false if there is no memory. */
FDP_INTERNAL bool fdp_pass_keep(fdp_pass_t *p);
FDP_INTERNAL void fdp_pass_drop(fdp_pass_t *p);

#endif
