/* bytes.h - little-endian loads and stores at any alignment.
 *
 * The machine is little-endian (config.h), so these are plain copies; the names
 * say what the format is.
 */
#ifndef FDP_BASE_BYTES_H
#define FDP_BASE_BYTES_H

#include <string.h>

#include "config.h"

FDP_ALWAYS_INLINE uint32_t fdp_load_le32(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

FDP_ALWAYS_INLINE uint64_t fdp_load_le64(const void *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

FDP_ALWAYS_INLINE void fdp_store_le32(void *p, uint32_t x) { memcpy(p, &x, sizeof x); }

FDP_ALWAYS_INLINE void fdp_store_le64(void *p, uint64_t x) { memcpy(p, &x, sizeof x); }

#endif
