/* digits_tilt.inc.h: tilted digits in loops that compilers vectorize, for levels that define `put`,
 * which inserts the list. */

/* D is reflected in the half of the block that is farther from zero, if the byte V is below t = (2
 * size + 1) |2 D + 1 - 256| slope / 2^16. D has as many bits as the law gives it. */
FDP_ALWAYS_INLINE void FDP_K(tilt_by)(const fdp_digits_t *law,
                                      const uint8_t *restrict word, size_t stride,
                                      const fdp_whole_t *list, size_t rank,
                                      const uint64_t *mask, int16_t *restrict value,
                                      void *low, uint32_t bytes, size_t blocks)
{
    const uint32_t spare = law->shift < 8 ? 8 - law->shift : 0;
    const uint16_t step = (uint16_t)(1u << spare), kept = (uint16_t)(256u - step);
    const uint16_t slope = (uint16_t)law->tilt.slope;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *restrict w = word + b * stride;
        int16_t *restrict to = value + b * FDP_BLOCK_LANES;
        for (size_t i = 0; i < FDP_BLOCK_LANES; i++) {
            const uint16_t v = (uint16_t)to[i];
            const uint16_t sign = (uint16_t)(to[i] >> 15);
            const uint16_t size = v ^ sign;
            const uint16_t d = w[i], tilt = w[64 + i];
            const int16_t away = (int16_t)(2 * (d & kept) + step - 256);
            const uint16_t far = (uint16_t)(away < 0 ? -away : away);
            const uint16_t odd = (uint16_t)((2 * size + 1) * far);
            const uint16_t t = (uint16_t)(((uint32_t)odd * slope) >> 16);
            const uint16_t flip = (uint16_t)((away > 0 ? 0xff : 0) & (tilt < t ? 0xff : 0));
            const uint16_t m = (uint16_t)(size << 8 | (d ^ flip));
            to[i] = (int16_t)((int16_t)(m ^ sign) >> spare);
        }
    }
    put(list, rank, mask, value, low, bytes, blocks);
}
