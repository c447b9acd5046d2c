/*
 * Formats with the significand of E4M3 and a range of their own, for plan B: RATIO is largest / smallest value.
 *
 * In units of the smallest value the magnitudes are those of E4M3 up to RATIO: 0, 1, .. 16, 18, .. 32, 36, .. Codes beyond mean NaN.
 *
 *     cc -std=c11 -O2 -Wall -Wextra -shared -fPIC -I plugin-api/include -o FOLDER/onset.so results/onset/formats.c -lm
 */
#include <math.h>

#include "altgrad_plugin.h"

/* Rounds to the value of the nearest code, or toward zero: multiples of 2^(exponent - 3), and integers below 8. */
static int32_t rounded(const float *src, float *dst, uint64_t count, uint32_t rounding, uint32_t ratio, altgrad_error *error) {
    if (rounding != ALTGRAD_NEAREST_EVEN && rounding != ALTGRAD_TOWARD_ZERO)
        return altgrad_fail(error, ALTGRAD_UNSUPPORTED, "these formats round to nearest-even and toward zero only");
    for (uint64_t i = 0; i < count; i++) {
        float x = src[i], limit = copysignf((float)ratio, x);
        int exponent = fabsf(x) < 8.0f ? 3 : fabsf(x) < (float)ratio ? ilogbf(x) : 3;
        float spacing = (float)(1u << (exponent - 3)), steps = x / spacing;
        float y = (rounding == ALTGRAD_NEAREST_EVEN ? rintf(steps) : truncf(steps)) * spacing;
        dst[i] = fabsf(y) > (float)ratio ? limit : y;
    }
    return ALTGRAD_OK;
}

static int32_t decoded(const uint16_t *codes, float *dst, uint64_t count, uint32_t ratio, altgrad_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        if (codes[i] > 0xff) return altgrad_fail(error, ALTGRAD_VALUE, "a code is beyond 255");
        uint32_t magnitude = codes[i] & 0x7f, exponent = magnitude >> 3, significand = magnitude & 7;
        uint32_t value = exponent ? (8 + significand) << (exponent - 1) : significand;
        dst[i] = value > ratio ? NAN : codes[i] & 0x80 ? -(float)value : (float)value;
    }
    return ALTGRAD_OK;
}

#define FORMAT(RATIO)                                                                                                                  \
    static int32_t round_##RATIO(const float *src, float *dst, uint64_t count, uint32_t rounding, const altgrad_random_key *key,      \
                                 altgrad_error *error) {                                                                               \
        (void)key;                                                                                                                     \
        return rounded(src, dst, count, rounding, RATIO, error);                                                                       \
    }                                                                                                                                  \
    static int32_t decode_##RATIO(const uint16_t *codes, float *dst, uint64_t count, altgrad_error *error) {                          \
        return decoded(codes, dst, count, RATIO, error);                                                                               \
    }                                                                                                                                  \
    static const altgrad_format_v1 ratio_##RATIO = {                                                                                   \
        .struct_size = sizeof(altgrad_format_v1),                                                                                      \
        .spec = ALTGRAD_SPEC_TABLE,                                                                                                    \
        .id = "R" #RATIO,                                                                                                              \
        .version = "1.0.0",                                                                                                            \
        .summary = "E4M3's significand, largest / smallest value " #RATIO,                                                             \
        .bits = 8,                                                                                                                     \
        .round = round_##RATIO,                                                                                                        \
        .decode = decode_##RATIO,                                                                                                      \
    };

FORMAT(64)
FORMAT(128)
FORMAT(192)
FORMAT(256)
FORMAT(384)
FORMAT(640)
FORMAT(1280)
FORMAT(2560)
ALTGRAD_EXPORT_FORMATS(&ratio_64, &ratio_128, &ratio_192, &ratio_256, &ratio_384, &ratio_640, &ratio_1280, &ratio_2560);
