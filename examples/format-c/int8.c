/*
 * A number format in plain C: symmetric INT8, the grid -127, -126, .. 127. The same as examples/format-int8 in Rust, bit for bit.
 *
 * Codes are two's complement; 0x80 would be -128 and make the grid lopsided, so here it is NaN. INT8 has no -0: encoding loses that
 * sign. The three functions are what makes it fast: without `round` and `encode` the host would search among the values. Without
 * the kernel texts a run on a GPU would move every tensor through main memory.
 *
 * Keep this file free of -ffast-math and of contraction to fma; -std=c11 does the latter.
 */
#include <math.h>

#include "altgrad_plugin.h"

#define ID "INT8-C"
#define VERSION "1.0.0"
#define SUMMARY "Symmetric 8-bit integers, -127 to 127, in C"

#define MAX 127.0f
#define NAN_CODE 0x80

/* A tie to the even integer is a tie to the even code. NaN passes through. */
static float rounded(float x, uint32_t rounding) {
    float y = rounding == ALTGRAD_NEAREST_EVEN ? rintf(x) : truncf(x);
    return y > MAX ? MAX : y < -MAX ? -MAX : y;
}

/* Both functions that round refuse the other modes. */
static int32_t check(uint32_t rounding, altgrad_error *error) {
    if (rounding == ALTGRAD_NEAREST_EVEN || rounding == ALTGRAD_TOWARD_ZERO) return ALTGRAD_OK;
    return altgrad_fail(error, ALTGRAD_UNSUPPORTED, "INT8-C rounds to nearest-even and toward zero only");
}

static int32_t int8_round(const float *src, float *dst, uint64_t count, uint32_t rounding, const altgrad_random_key *key,
                          altgrad_error *error) {
    (void)key;
    int32_t refused = check(rounding, error);
    if (refused) return refused;
    for (uint64_t i = 0; i < count; i++) dst[i] = rounded(src[i], rounding);
    return ALTGRAD_OK;
}

static int32_t int8_encode(const float *src, uint16_t *codes, uint64_t count, uint32_t rounding, const altgrad_random_key *key,
                           altgrad_error *error) {
    (void)key;
    int32_t refused = check(rounding, error);
    if (refused) return refused;
    for (uint64_t i = 0; i < count; i++) {
        float y = rounded(src[i], rounding);
        codes[i] = isnan(y) ? NAN_CODE : (uint16_t)((int32_t)y & 0xff);
    }
    return ALTGRAD_OK;
}

static int32_t int8_decode(const uint16_t *codes, float *dst, uint64_t count, altgrad_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        if (codes[i] > 0xff) return altgrad_fail(error, ALTGRAD_VALUE, "a code is beyond 255");
        dst[i] = codes[i] == NAN_CODE ? NAN : codes[i] < 0x80 ? (float)codes[i] : (float)(codes[i] - 256);
    }
    return ALTGRAD_OK;
}

/* The kernel texts: what is the same in all of them, and what a text of its own is made of. */
#include "kernels.h"

static const altgrad_format_v1 int8_format = {
    .struct_size = sizeof(altgrad_format_v1),
    .spec = ALTGRAD_SPEC_TABLE,
    .id = ID,
    .version = VERSION,
    .summary = SUMMARY,
    .bits = 8,
    .round = int8_round,
    .encode = int8_encode,
    .decode = int8_decode,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .kernels = kernels,
};

ALTGRAD_DESCRIBE_FORMAT(ID, VERSION, SUMMARY);
ALTGRAD_EXPORT_FORMATS(&int8_format);
