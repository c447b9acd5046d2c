/*
 * A number format with options in plain C: integers of 2 to 8 bits with a zero point for each block. The same as examples/format-intz
 * in Rust, bit for bit. A run file sets the options in the name: `INTZ-C:bits=5,zero_point=false`.
 *
 * The tables of the widths are made once, when an option asks for them, and belong to the library for the life of the process.
 */
#include <stdlib.h>

#include "altgrad_plugin.h"

static const altgrad_option options[] = {
    {"bits", "Bits of a code", NULL, 4.0, 2.0, 8.0, ALTGRAD_OPTION_INTEGER},
    {"zero_point", "Each block has a zero point; false: that of two's complement", NULL, 1.0, 0.0, 0.0, ALTGRAD_OPTION_BOOL},
};

/* The values of the zero point in the middle, then those of all others. */
static float *tables[9];

static int32_t describe(const altgrad_value *values, altgrad_format_v1 *format, altgrad_error *error) {
    if (!(values[0].number >= 2.0 && values[0].number <= 8.0)) return altgrad_fail(error, ALTGRAD_CONFIG, "bits must be between 2 and 8");
    uint32_t bits = (uint32_t)values[0].number, codes = 1u << bits;
    int middle = (int)codes / 2;
    if (!tables[bits]) {
        float *next = tables[bits] = malloc((size_t)codes * codes * sizeof(float));
        if (!next) return altgrad_fail(error, ALTGRAD_OTHER, "no memory for the tables");
        for (int code = 0; code < (int)codes; code++) *next++ = (float)(code - middle);
        for (int zero = 0; zero < (int)codes; zero++) {
            for (int code = 0; zero != middle && code < (int)codes; code++) *next++ = (float)(code - zero);
        }
    }
    format->bits = bits;
    format->values = tables[bits];
    format->value_count = codes;
    if (values[1].number != 0.0) {
        format->codebooks = tables[bits] + codes;
        format->codebook_count = codes - 1;
        format->codebook_choice = ALTGRAD_LARGEST_SCALE;
    }
    return ALTGRAD_OK;
}

/* What it is without options, for those who only look at the table. */
static const float int4[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

static const altgrad_format_v1 intz = {
    .struct_size = sizeof(altgrad_format_v1),
    .spec = ALTGRAD_SPEC_TABLE,
    .id = "INTZ-C",
    .version = "1.0.0",
    .summary = "Integers of 2 to 8 bits, with a zero point for each block, in C",
    .bits = 4,
    ALTGRAD_VALUES(int4),
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .describe = describe,
};

ALTGRAD_EXPORT_FORMATS(&intz);
