/*
 * INT8's kernel texts in CUDA C++, for int8.c. plugin-api/src/kernel.rs says what a text is given and must do.
 *
 * Fake quantization counts and sums what it sees in the same pass. Counts go to one word each by atomics. Sums are made in double by
 * every unit, then by every block in shared memory; a block's slot has f32 words, and because squares of f32 leave that range each sum
 * has three words, for small, ordinary and huge totals, of which one is used.
 */

/* What the texts share; each is compiled alone. The numbers in `put` are 2^-10, 2^100, 2^130 and 2^-160. */
#define INFO                                                                                           \
    "struct info_st { unsigned length, group; };\n"                                                    \
    "static __device__ float round_to_grid(float x) {\n"                                               \
    "    float y = ROUND(x);\n"                                                                        \
    "    return y > 127.0f ? 127.0f : y < -127.0f ? -127.0f : y;\n"                                    \
    "}\n"                                                                                              \
    "static __device__ unsigned bits_of(float x) { union { float f; unsigned u; } v; v.f = x; return v.u; }\n" \
    "static __device__ float float_of(unsigned u) { union { float f; unsigned u; } v; v.u = u; return v.f; }\n"

#define FAKE_QUANT                                                                                     \
    "static __device__ void put(float *slot, double sum) {\n"                                          \
    "    double huge = sum >= 0 ? sum : -sum;\n"                                                       \
    "    slot[0] = huge < 0.0009765625 ? (float)(sum * 1.361129467683754e+39) : 0.0f;\n"               \
    "    slot[1] = huge >= 0.0009765625 && huge < 1.2676506002282294e+30 ? (float)sum : 0.0f;\n"       \
    "    slot[2] = huge >= 1.2676506002282294e+30 ? (float)(sum * 6.842277657836021e-49) : 0.0f;\n"    \
    "}\n"                                                                                              \
    "extern \"C\" __global__ void int8_fake_quant(const float *src, float *dst, const float *parameters,\n" \
    "        unsigned *words, float *sums, const __grid_constant__ info_st info) {\n"                  \
    "    __shared__ double shared[3][256];\n"                                                          \
    "    double x2 = 0, err2 = 0, x_xhat = 0;\n"                                                       \
    "    unsigned amax = 0, overflow = 0, underflow = 0, nan = 0, nonzero = 0;\n"                      \
    "    unsigned stride = gridDim.x * blockDim.x;\n"                                                  \
    "    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < info.length; i += stride) {\n"   \
    "        float x = src[i], scale = parameters[i / info.group * 2];\n"                              \
    "        float scaled = x * scale;\n"                                                              \
    "        float y = round_to_grid(scaled) * parameters[i / info.group * 2 + 1];\n"                  \
    "        unsigned bits = bits_of(x), magnitude = bits & 0x7fffffffu;\n"                            \
    "        int is_nan = magnitude > 0x7f800000u;\n"                                                  \
    "        dst[i] = is_nan ? float_of(bits | 0x00400000u) : y;\n"                                    \
    "        nan += is_nan;\n"                                                                         \
    "        nonzero += magnitude != 0;\n"                                                             \
    "        overflow += (bits_of(scaled) & 0x7fffffffu) > 0x42fe0002u && !is_nan;\n"                  \
    "        underflow += magnitude != 0 && y == 0.0f;\n"                                              \
    "        if (magnitude < 0x7f800000u) {\n"                                                         \
    "            double wide = x, hat = y;\n"                                                          \
    "            amax = magnitude > amax ? magnitude : amax;\n"                                        \
    "            x2 += wide * wide;\n"                                                                 \
    "            err2 += (hat - wide) * (hat - wide);\n"                                               \
    "            x_xhat += wide * hat;\n"                                                              \
    "        }\n"                                                                                      \
    "    }\n"                                                                                          \
    "    atomicMax(words + 0, amax);\n"                                                                \
    "    atomicAdd(words + 1, overflow);\n"                                                            \
    "    atomicAdd(words + 2, underflow);\n"                                                           \
    "    atomicAdd(words + 3, nan);\n"                                                                 \
    "    atomicAdd(words + 4, nonzero);\n"                                                             \
    "    shared[0][threadIdx.x] = x2;\n"                                                               \
    "    shared[1][threadIdx.x] = err2;\n"                                                             \
    "    shared[2][threadIdx.x] = x_xhat;\n"                                                           \
    "    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {\n"                                \
    "        __syncthreads();\n"                                                                       \
    "        if (threadIdx.x < half)\n"                                                                \
    "            for (int k = 0; k < 3; k++) shared[k][threadIdx.x] += shared[k][threadIdx.x + half];\n" \
    "    }\n"                                                                                          \
    "    if (threadIdx.x == 0)\n"                                                                      \
    "        for (int k = 0; k < 3; k++) put(sums + blockIdx.x * 9 + 3 * k, shared[k][0]);\n"          \
    "}\n"

#define EVEN "#define ROUND rintf\n"
#define ZERO "#define ROUND truncf\n"
#define DONE "#undef ROUND\n"

static const altgrad_buffer fake_quant_buffers[] = {
    {ALTGRAD_SOURCE, ALTGRAD_READS},      {ALTGRAD_DESTINATION, ALTGRAD_WRITES},
    {ALTGRAD_SCALES, ALTGRAD_READS},  {ALTGRAD_STATISTICS, ALTGRAD_READS | ALTGRAD_WRITES},
    {ALTGRAD_PARTIAL_SUMS, ALTGRAD_WRITES},
};
/* info_st: elements of buffer 0, and those that share a scale. */
static const altgrad_info info[] = {
    {0, ALTGRAD_INFO_BUFFER_LEN, 0, 1},
    {4, ALTGRAD_INFO_SCALAR, 6, 1},
};
static const altgrad_statistic statistics[] = {
    {"amax", ALTGRAD_MERGE_MAX}, {"overflow", ALTGRAD_MERGE_ADD}, {"underflow", ALTGRAD_MERGE_ADD},
    {"nan", ALTGRAD_MERGE_ADD},  {"nonzero", ALTGRAD_MERGE_ADD},
};
/* As `put` splits them. */
static const altgrad_partial_sum partial_sums[] = {
    {"sum_x2", -130},   {"sum_x2", 0},   {"sum_x2", 160},     {"sum_err2", -130},   {"sum_err2", 0},
    {"sum_err2", 160},  {"sum_x_xhat", -130}, {"sum_x_xhat", 0}, {"sum_x_xhat", 160},
};

#define FAKE_QUANT_KERNEL(rounding, text)                                                              \
    {                                                                                                  \
        .struct_size = sizeof(altgrad_kernel_v1), .op = ALTGRAD_OP_ROUNDING(ALTGRAD_OP_FAKE_QUANT, rounding), \
        .language = ALTGRAD_CUDA, .architecture = 75, .vector = 1, .units = 256,                       \
        .shared_bytes = 3 * 256 * sizeof(double), .info_words = 1, .buffer_count = 5, .info_count = 2, \
        .statistic_count = 5, .partial_sum_count = 9, .entry = "int8_fake_quant", .source = text,      \
        .buffers = fake_quant_buffers, .info = info, .statistics = statistics, .partial_sums = partial_sums, \
    }

static const altgrad_kernel_v1 fake_quant_even = FAKE_QUANT_KERNEL(ALTGRAD_NEAREST_EVEN, EVEN INFO FAKE_QUANT DONE);
static const altgrad_kernel_v1 fake_quant_zero = FAKE_QUANT_KERNEL(ALTGRAD_TOWARD_ZERO, ZERO INFO FAKE_QUANT DONE);

static const altgrad_kernel_v1 *const kernels[] = {&fake_quant_even, &fake_quant_zero};
