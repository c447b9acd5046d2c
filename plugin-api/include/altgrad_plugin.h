/*
 * altgrad_plugin.h: number formats, optimizers and sinks for altgrad-host in plain C.
 *
 * A format is a constant table. It says what its codes mean, as a minifloat or as a list of values, and from that alone the host
 * can round to it, encode and decode. What should be faster, or rounds in its own way, is a function; what runs on GPUs is kernel
 * text. examples/format-c is complete. In short:
 *
 *     #include "altgrad_plugin.h"
 *
 *     static const float values[4] = {0.0f, 1.0f, -2.0f, -1.0f};
 *     static const altgrad_format_v1 int2 = {
 *         .struct_size = sizeof(altgrad_format_v1), .spec = ALTGRAD_SPEC_TABLE,
 *         .id = "INT2", .version = "1.0.0", .summary = "-2, -1, 0, 1",
 *         .bits = 2, ALTGRAD_VALUES(values),
 *     };
 *     ALTGRAD_DESCRIBE_FORMAT("INT2", "1.0.0", "-2, -1, 0, 1");
 *     ALTGRAD_EXPORT_FORMATS(&int2);
 *
 *     cc -std=c11 -O2 -shared -fPIC -I plugin-api/include -o int2.so int2.c
 *     altgrad-host plugins check int2.so
 *
 * An optimizer and a sink are tables of functions: examples/optimizer-c and examples/sink-c are complete.
 *
 * Compiles as C11 and as C++17. Optimizers with services, kernels or states of other shapes than the parameter's are written in Rust:
 * see plugin-api.
 *
 * WHAT C DOES NOT HAVE. Plugins in Rust are guarded: a panic becomes an error. Here there is no guard and nothing unwinds. A function
 * says that it failed by what it returns. A signal, abort, exit, longjmp out of a function or a C++ exception that leaves one ends the
 * host, and with it the run; a write beyond `count` elements destroys the host's memory. `altgrad-host plugins check` looks for all of
 * these in processes of their own.
 *
 * OWNERSHIP. Everything in the tables belongs to the library and stays as it is for the life of the process: libraries are never
 * unloaded. What a function is given belongs to the host and is borrowed for the call. Nobody frees anything.
 *
 * THREADS. The host reads the tables on one thread. Functions of formats and optimizers are called on any thread, several at once on
 * disjoint memory, so they keep no state; those of a sink one at a time, on any thread. They must not change the floating-point
 * environment or the locale, nor write to standard output.
 *
 * GROWTH. A breaking change raises the minor version until 1.0, and the major version from then on: a library built with another 0.x is
 * refused by name, and from 1.0 on one of another major version. `struct_size` says how much of a table its author knew. Fields are
 * only ever added at the end between breaking changes; a host takes what is beyond the size given as zero, which means "none" or, in a
 * table that ends before the field, "not known". A table may therefore be older or newer than the host. Structures without a
 * `struct_size` never change between breaking changes.
 */
#ifndef ALTGRAD_PLUGIN_H
#define ALTGRAD_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "altgradC", so that a table is not taken for one by accident. */
#define ALTGRAD_MAGIC UINT64_C(0x436461726774616c)
/* See GROWTH. */
#define ALTGRAD_C_MAJOR 0u
#define ALTGRAD_C_MINOR 1u
#define ALTGRAD_C_VERSION "0.1"

/* What a function returns. Any other number is taken for ALTGRAD_OTHER. */
#define ALTGRAD_OK 0
#define ALTGRAD_CONFIG 1       /* an option has a value that it may not have */
#define ALTGRAD_OTHER 100      /* anything else went wrong */
#define ALTGRAD_UNSUPPORTED 6  /* it lacks this rounding mode */
#define ALTGRAD_VALUE 8        /* a value has no code (NaN where there is none), or a code no value */

/* How a value between two of the format's is rounded. A mode a function does not know is to be refused. */
#define ALTGRAD_NEAREST_EVEN 0u /* to the nearest by the format's thresholds, ties to the even code; every format has it */
#define ALTGRAD_NEAREST_AWAY 1u /* to the nearest by the format's thresholds, ties away from zero */
#define ALTGRAD_TOWARD_ZERO 2u
#define ALTGRAD_STOCHASTIC 3u   /* up with probability (x - a) / (b - a), by random bits keyed by altgrad_random_key */

/* What an error says. Owner: the host, for the call. */
typedef struct altgrad_error {
    char *message; /* where to write a sentence, UTF-8, closed by a zero */
    uint64_t size; /* bytes there, at least 1 */
} altgrad_error;

/* Writes the sentence, as much of it as fits, and returns the code: `return altgrad_fail(error, ALTGRAD_VALUE, "no NaN");` */
static inline int32_t altgrad_fail(altgrad_error *error, int32_t code, const char *message) {
    uint64_t i = 0;
    for (; i + 1 < error->size && message[i] != '\0'; i++) error->message[i] = message[i];
    error->message[i] = '\0';
    return code;
}

/*
 * Names the random bits of one call: element i of it has index offset + i of tensor `tensor` at step `step`. The same names give the
 * same bits always, so that runs can be resumed and split among threads. The project's own formats take word (index % 4) of
 * Philox4x32-10 with counter {index / 4 low, index / 4 high, step, tensor} and key {seed low, seed high}.
 */
typedef struct altgrad_random_key {
    uint64_t seed;
    uint64_t step;
    uint64_t tensor;
    uint64_t offset;
} altgrad_random_key;

/* Functions of a format. All are [any-thread]; return ALTGRAD_OK, or a code with a sentence in `error`. `count` may be 0. */

/*
 * dst[i] = round(src[i]): from any f32 to a value of the format. `src` is already scaled; the host scales back and counts.
 * NaN stays NaN; infinities and what is beyond the largest value become the largest; a zero keeps the sign of what became it.
 * `src` and `dst` do not overlap.
 */
typedef int32_t (*altgrad_round_fn)(const float *src, float *dst, uint64_t count, uint32_t rounding, const altgrad_random_key *key,
                                    altgrad_error *error);

/* codes[i] = code(round(src[i])). NaN is ALTGRAD_VALUE in a format without NaN. */
typedef int32_t (*altgrad_encode_fn)(const float *src, uint16_t *codes, uint64_t count, uint32_t rounding,
                                     const altgrad_random_key *key, altgrad_error *error);

/* dst[i] = value(codes[i]), unscaled. A code beyond the last is ALTGRAD_VALUE. */
typedef int32_t (*altgrad_decode_fn)(const uint16_t *codes, float *dst, uint64_t count, altgrad_error *error);

/* What a minifloat does with its top exponent. */
#define ALTGRAD_DOMAIN_IEEE 0u /* infinities and NaN, as in IEEE 754 */
#define ALTGRAD_DOMAIN_FN 1u   /* numbers; the all-ones code is NaN (OCP OFP8 E4M3) */
#define ALTGRAD_DOMAIN_FIN 2u  /* numbers; every code is finite */

/* A sign-magnitude binary float with gradual underflow: 1 + exponent_bits + significand_bits bits. */
typedef struct altgrad_minifloat {
    uint32_t exponent_bits;    /* 0 to 8 */
    uint32_t significand_bits; /* stored ones, 0 to 10; with the exponent's at most 15 */
    int32_t bias;              /* usually 2^(exponent_bits - 1) - 1, and 0 below two exponent bits */
    uint32_t domain;
} altgrad_minifloat;

/*
 * Kernel text: compiled on the host's device and launched there. plugin-api/src/kernel.rs has the calling convention and which buffers
 * and scalars each operation is given; the numbers below are the same.
 */
#define ALTGRAD_OP_FAKE_QUANT 1u
/* There is a text for each rounding mode. */
#define ALTGRAD_OP_ROUNDING(op, rounding) ((op) | (rounding) << 8)

#define ALTGRAD_CUDA 1u /* CUDA C++, for NVRTC */
#define ALTGRAD_WGSL 2u /* WebGPU shading language */

/* What a buffer holds. Statistics and the step are u32, everything else f32. */
#define ALTGRAD_SOURCE 1u
#define ALTGRAD_DESTINATION 2u
#define ALTGRAD_STATISTICS 3u
#define ALTGRAD_SCALES 4u
#define ALTGRAD_PARTIAL_SUMS 5u
#define ALTGRAD_STEP 10u /* of the random key, one word: stochastic kernels that read it can be recorded and replayed */

#define ALTGRAD_READS 1u
#define ALTGRAD_WRITES 2u

typedef struct altgrad_buffer {
    uint32_t role;
    uint32_t access; /* ALTGRAD_READS, ALTGRAD_WRITES or both */
} altgrad_buffer;

/* A value of the info block, which kernels get last. */
#define ALTGRAD_INFO_SCALAR 2u     /* scalars[index] as u32: 0..5 the random key, 6 elements that share a scale */
#define ALTGRAD_INFO_BUFFER_LEN 3u /* elements of buffers[index] / divisor as u32 */
#define ALTGRAD_INFO_CONSTANT 4u   /* index itself as u32 */

typedef struct altgrad_info {
    uint32_t offset; /* in bytes, a multiple of 4 */
    uint32_t kind;
    uint32_t index;
    uint32_t divisor; /* of buffer lengths; else 1 */
} altgrad_info;

#define ALTGRAD_MERGE_ADD 1u
#define ALTGRAD_MERGE_MAX 2u

/* One u32 of the statistics buffer: amax (MAX), overflow, underflow, nan, nonzero (ADD). */
typedef struct altgrad_statistic {
    const char *name;
    uint64_t merge;
} altgrad_statistic;

/* One f32 of each cube's slot of the partial sums: it adds word * 2^exponent to sum_x2, sum_err2 or sum_x_xhat. */
typedef struct altgrad_partial_sum {
    const char *name;
    int64_t exponent;
} altgrad_partial_sum;

typedef struct altgrad_kernel_v1 {
    uint32_t struct_size;  /* sizeof(altgrad_kernel_v1) */
    uint32_t op;           /* what it computes */
    uint32_t language;
    uint32_t architecture; /* CUDA: the least compute capability times ten that it compiles for; else 0 */
    uint32_t vector;       /* elements a unit takes at once; every operation needs a text of 1 */
    uint32_t units;        /* units a cube (threads a block) */
    uint32_t shared_bytes; /* shared memory a cube */
    uint32_t info_words;   /* size of the info block in u64 words */
    uint32_t buffer_count;
    uint32_t info_count;
    uint32_t statistic_count;
    uint32_t partial_sum_count;
    const char *entry;  /* name of the entry function */
    const char *source; /* the text, UTF-8 */
    const altgrad_buffer *buffers; /* in the order of the kernel's parameters */
    const altgrad_info *info;
    const altgrad_statistic *statistics;
    const altgrad_partial_sum *partial_sums;
} altgrad_kernel_v1;

#define ALTGRAD_OPTION_NUMBER 1u
#define ALTGRAD_OPTION_INTEGER 2u
#define ALTGRAD_OPTION_BOOL 3u /* 0 or 1 */
#define ALTGRAD_OPTION_TEXT 4u

/* An option that a run file may set: in `[optimizer]`, in `[[sink]]`, or in the name of a format, `NAME:KEY=VALUE,KEY=VALUE`. */
typedef struct altgrad_option {
    const char *name;
    const char *help;
    const char *text;         /* ALTGRAD_OPTION_TEXT: the default; else NULL */
    double number;            /* the default of the others */
    double least, most;       /* the range of numbers; equal: none */
    uint64_t type;
} altgrad_option;

/* The value of an option, checked. Owner: the host, for the call. */
typedef struct altgrad_value {
    double number;
    const char *text; /* ALTGRAD_OPTION_TEXT, closed by a zero; else NULL */
} altgrad_value;

#define ALTGRAD_LEAST_ERROR 0u   /* the table with the least sum of squared errors, elements being rounded to nearest */
#define ALTGRAD_LARGEST_SCALE 1u /* that with the largest scale that takes no element beyond it: a zero point, if tables are shifted */

/*
 * The magnitude of a block that its scale maps to the target, in place of the largest: finite, at least 0, and above 0 if an element is
 * finite and not 0. NaN and infinities among the elements count for nothing. `count` is above 0. [any-thread]
 */
typedef int32_t (*altgrad_magnitude_fn)(const float *block, uint64_t count, float *magnitude, altgrad_error *error);

struct altgrad_format_v1;
/*
 * Changes a copy of the format's table by the values of its options, in their order; name, version and summary stay. The copy's
 * `struct_size` is the host's: fields beyond it, of a later header, are not there. What the table then points to belongs to the library
 * for the life of the process. [main-thread]
 */
typedef int32_t (*altgrad_describe_fn)(const altgrad_value *values, struct altgrad_format_v1 *format, altgrad_error *error);

#define ALTGRAD_SPEC_MINIFLOAT 1u
#define ALTGRAD_SPEC_TABLE 2u

typedef struct altgrad_format_v1 {
    uint32_t struct_size; /* sizeof(altgrad_format_v1) */
    uint32_t spec;        /* ALTGRAD_SPEC_MINIFLOAT or ALTGRAD_SPEC_TABLE */
    const char *id;       /* the name a run file uses: letters, digits, '-', '_' and '.' */
    const char *version;  /* the format's own */
    const char *summary;  /* one line */
    altgrad_minifloat minifloat; /* ALTGRAD_SPEC_MINIFLOAT: which */
    uint32_t bits;               /* ALTGRAD_SPEC_TABLE: bits a code, 1 to 16 */
    uint32_t kernel_count;
    /* ALTGRAD_SPEC_TABLE: 2^bits of them, by code, at least two finite, one of them above 0; NULL: `decode` is asked once for every code */
    const float *values;
    altgrad_round_fn round;   /* NULL: the host searches among the values, in every mode */
    altgrad_encode_fn encode; /* NULL: rounded, then looked up among the values */
    altgrad_decode_fn decode; /* NULL: looked up among the values */
    const altgrad_kernel_v1 *const *kernels; /* `kernel_count` of them; NULL: on GPUs tensors go through main memory */
    /*
     * The magnitude that the largest magnitude of a tensor is scaled to, from 2^-90 to 2^90; 0: the largest value. A format whose values are
     * densest elsewhere, such as a posit, says where.
     */
    float amax_target;
    uint32_t threshold_count;
    /*
     * Where rounding to nearest goes from a finite value to the next, one threshold between any two neighbours in ascending order; both may
     * be one of the neighbours, and at the threshold itself the rule for ties decides. NULL: the middle. `round` and `encode` follow them.
     */
    const float *thresholds;
    /* How many `values` there are: 2^bits, or the library is refused. In tables without this field, 2^bits are read, unchecked. */
    uint32_t value_count;
    uint32_t option_count;
    const altgrad_option *options;
    /*
     * Tables beside `values`, `codebook_count` of them one after the other, each with a value for each code. A block of a tensor has the
     * values of one of them, or those of the format, by `codebook_choice`; the host scales and rounds. NULL: all blocks have the same.
     */
    const float *codebooks;
    uint32_t codebook_count;
    uint32_t codebook_choice;
    altgrad_magnitude_fn magnitude; /* NULL: the largest magnitude of a block is scaled to the target */
    altgrad_describe_fn describe;   /* NULL: options change nothing */
} altgrad_format_v1;

/* `values` and `value_count` of an array: `ALTGRAD_VALUES(values)`. */
#define ALTGRAD_VALUES(array) .values = (array), .value_count = (uint32_t)(sizeof(array) / sizeof *(array))

/*
 * Makes an instance from the values of all options, in their order, and stores it in `instance`, which may stay NULL. A sink opens no
 * file yet. [main-thread]
 */
typedef int32_t (*altgrad_create_fn)(const altgrad_value *values, void **instance, altgrad_error *error);
/* Frees an instance. */
typedef void (*altgrad_destroy_fn)(void *instance);

/* A parameter of a model. Owner: the host, for the call. */
typedef struct altgrad_param {
    const char *name;      /* `h.0.attn.c_attn.weight` */
    const uint64_t *shape; /* `rank` extents; those of 2 and more are usually decayed */
    uint64_t rank;
} altgrad_param;

typedef struct altgrad_step_scalars {
    double lr;       /* learning rate of this step */
    uint64_t update; /* number of this update, from 1 */
    uint64_t updates; /* updates of the whole run */
    altgrad_random_key key;
} altgrad_step_scalars;

/*
 * Updates `count` consecutive elements of a parameter and of its states in place: all of them, or any part if the table says
 * `elementwise`. States are f32, zero before the first update, and the host's: checkpoints have them. [any-thread]
 */
typedef int32_t (*altgrad_step_fn)(void *instance, const altgrad_param *param, float *values, const float *grad,
                                   float *const *states, uint64_t count, const altgrad_step_scalars *scalars,
                                   altgrad_error *error);

typedef struct altgrad_optimizer_v1 {
    uint32_t struct_size; /* sizeof(altgrad_optimizer_v1) */
    uint32_t elementwise; /* 1: an element's update depends on its own numbers only; 0: the whole parameter is passed */
    const char *id;       /* the name a run file uses */
    const char *version;
    const char *summary;
    const altgrad_option *options;
    uint32_t option_count;
    uint32_t state_count;
    const char *const *states; /* `state_count` names of states, each with a number per element */
    altgrad_create_fn create;   /* NULL: there is no instance, and no option */
    altgrad_destroy_fn destroy; /* NULL: nothing to free */
    altgrad_step_fn step;
} altgrad_optimizer_v1;

/* The run a sink is opened for. Owner: the host, for the call. */
typedef struct altgrad_run {
    const char *name;
    const char *folder;      /* the run folder: a sink writes inside it only */
    const char *config_toml; /* the resolved run file */
    /* A resumed run continues at this step: rows from it on come again, and the sink must delete its own. Of a new run: 0. */
    uint64_t resume_step;
    uint64_t resumes; /* 1 if the run is resumed */
} altgrad_run;

/* One value of a row. NaN means that its computation gave NaN. */
typedef struct altgrad_metric {
    const char *name; /* `train/loss`; any UTF-8 without a zero */
    double value;
    uint64_t timing; /* 1 if it measures this machine */
} altgrad_metric;

#define ALTGRAD_COMPLETED 1u
#define ALTGRAD_INTERRUPTED 2u
#define ALTGRAD_FAILED 3u

/* Begins a run. */
typedef int32_t (*altgrad_open_fn)(void *instance, const altgrad_run *run, altgrad_error *error);
/* Writes one row. It must survive a crash of the process right after the call returns. */
typedef int32_t (*altgrad_log_fn)(void *instance, uint64_t step, const altgrad_metric *metrics, uint64_t count, altgrad_error *error);
/* Writes the closing values. */
typedef int32_t (*altgrad_summary_fn)(void *instance, const altgrad_metric *metrics, uint64_t count, altgrad_error *error);
/* Ends the run: flush and close. */
typedef int32_t (*altgrad_finish_fn)(void *instance, uint32_t outcome, altgrad_error *error);

typedef struct altgrad_sink_v1 {
    uint32_t struct_size; /* sizeof(altgrad_sink_v1) */
    uint32_t option_count;
    const char *id;
    const char *version;
    const char *summary;
    const altgrad_option *options;
    altgrad_create_fn create;
    altgrad_destroy_fn destroy; /* NULL: nothing to free */
    altgrad_open_fn open;
    altgrad_log_fn log;
    altgrad_summary_fn summarize; /* NULL: closing values are not written */
    altgrad_finish_fn finish;
} altgrad_sink_v1;

/* What a library exports as `altgrad_plugin_entry_v1`. Read, not called: nothing of the library runs before it was checked. */
typedef struct altgrad_library_v1 {
    uint64_t magic;       /* ALTGRAD_MAGIC */
    uint32_t struct_size; /* sizeof(altgrad_library_v1) */
    uint32_t abi_major;   /* ALTGRAD_C_MAJOR */
    uint32_t abi_minor;   /* ALTGRAD_C_MINOR */
    uint32_t format_count;
    const char *compiler;     /* recorded with every run */
    const char *cpu_features; /* comma separated; a machine that lacks one refuses the library, names unknown to the host are ignored */
    const altgrad_format_v1 *const *formats;
    const altgrad_optimizer_v1 *const *optimizers;
    const altgrad_sink_v1 *const *sinks;
    uint32_t optimizer_count;
    uint32_t sink_count;
} altgrad_library_v1;

#if defined(_WIN32)
#define ALTGRAD_PUBLIC __declspec(dllexport)
#else
#define ALTGRAD_PUBLIC __attribute__((visibility("default")))
#endif

extern ALTGRAD_PUBLIC const altgrad_library_v1 altgrad_plugin_entry_v1;

#if defined(__clang__)
#define ALTGRAD_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define ALTGRAD_COMPILER "gcc " __VERSION__
#else
#define ALTGRAD_COMPILER "unknown C compiler"
#endif

/*
 * The features of the CPU that the compiler was allowed to assume (-march), separated by commas: those that the host can detect. The
 * compiler defines the macro of such a feature as 1; ALTGRAD_DEFINED_1_ then inserts an argument, so that the name becomes the second
 * one.
 */
#define ALTGRAD_DEFINED_1_ 0,
#define ALTGRAD_SECOND_(first, second, ...) second
#define ALTGRAD_CPU_(macro, name) ALTGRAD_CPU_IF_(macro, name)
#define ALTGRAD_CPU_IF_(value, name) ALTGRAD_CPU_OF_(ALTGRAD_DEFINED_##value##_, name)
#define ALTGRAD_CPU_OF_(argument, name) ALTGRAD_SECOND_(argument name ",", "", 0)
#define ALTGRAD_CPU_FEATURES \
    ALTGRAD_CPU_(__SSE3__, "sse3") ALTGRAD_CPU_(__SSSE3__, "ssse3") ALTGRAD_CPU_(__SSE4_1__, "sse4.1") \
    ALTGRAD_CPU_(__SSE4_2__, "sse4.2") ALTGRAD_CPU_(__SSE4A__, "sse4a") ALTGRAD_CPU_(__POPCNT__, "popcnt") \
    ALTGRAD_CPU_(__AVX__, "avx") ALTGRAD_CPU_(__AVX2__, "avx2") ALTGRAD_CPU_(__FMA__, "fma") \
    ALTGRAD_CPU_(__F16C__, "f16c") ALTGRAD_CPU_(__BMI__, "bmi1") ALTGRAD_CPU_(__BMI2__, "bmi2") \
    ALTGRAD_CPU_(__LZCNT__, "lzcnt") ALTGRAD_CPU_(__MOVBE__, "movbe") ALTGRAD_CPU_(__ADX__, "adx") \
    ALTGRAD_CPU_(__AES__, "aes") ALTGRAD_CPU_(__PCLMUL__, "pclmulqdq") ALTGRAD_CPU_(__VAES__, "vaes") \
    ALTGRAD_CPU_(__VPCLMULQDQ__, "vpclmulqdq") ALTGRAD_CPU_(__GFNI__, "gfni") ALTGRAD_CPU_(__SHA__, "sha") \
    ALTGRAD_CPU_(__SHA512__, "sha512") ALTGRAD_CPU_(__SM3__, "sm3") ALTGRAD_CPU_(__SM4__, "sm4") \
    ALTGRAD_CPU_(__AVXVNNI__, "avxvnni") ALTGRAD_CPU_(__AVXVNNIINT8__, "avxvnniint8") \
    ALTGRAD_CPU_(__AVXVNNIINT16__, "avxvnniint16") ALTGRAD_CPU_(__AVXIFMA__, "avxifma") \
    ALTGRAD_CPU_(__AVXNECONVERT__, "avxneconvert") ALTGRAD_CPU_(__AVX512F__, "avx512f") ALTGRAD_CPU_(__AVX512BW__, "avx512bw") \
    ALTGRAD_CPU_(__AVX512CD__, "avx512cd") ALTGRAD_CPU_(__AVX512DQ__, "avx512dq") \
    ALTGRAD_CPU_(__AVX512VL__, "avx512vl") ALTGRAD_CPU_(__AVX512IFMA__, "avx512ifma") \
    ALTGRAD_CPU_(__AVX512VBMI__, "avx512vbmi") ALTGRAD_CPU_(__AVX512VBMI2__, "avx512vbmi2") \
    ALTGRAD_CPU_(__AVX512VNNI__, "avx512vnni") ALTGRAD_CPU_(__AVX512BITALG__, "avx512bitalg") \
    ALTGRAD_CPU_(__AVX512VPOPCNTDQ__, "avx512vpopcntdq") ALTGRAD_CPU_(__AVX512BF16__, "avx512bf16") \
    ALTGRAD_CPU_(__AVX512FP16__, "avx512fp16")

/*
 * An ELF note in the section .note.altgrad: what the library says about itself, readable without loading it. plugin-api/src/note.rs
 * has the format. `text` is a string literal; the zeros behind it do not count.
 */
#define ALTGRAD_JOIN_(a, b) a##b
#define ALTGRAD_NOTE_NAMED_(line, note_type, text) ALTGRAD_NOTE_AS_(ALTGRAD_JOIN_(altgrad_note_, line), note_type, text)
#define ALTGRAD_NOTE_AS_(name, note_type, text)                                                 \
    static const struct {                                                                       \
        uint32_t name_size, text_size, type;                                                    \
        char owner[8], json[(sizeof(text) + 3) / 4 * 4];                                        \
    } name __attribute__((section(".note.altgrad"), used, aligned(4))) = {                      \
        8, (uint32_t)((sizeof(text) + 3) / 4 * 4), note_type, "altgrad", text,                  \
    }
#define ALTGRAD_NOTE_(note_type, text) ALTGRAD_NOTE_NAMED_(__LINE__, note_type, text)

/*
 * Describes a format in a note: name, version and summary as in its table, as string literals. They must not contain quotation marks,
 * backslashes or control characters. One for each format of a library, on lines of their own, or for none: formats without notes are
 * listed by loading the library. Formats with options have none.
 */
#define ALTGRAD_DESCRIBE_FORMAT(id, version, summary) \
    ALTGRAD_NOTE_(1, "{\"kind\":1,\"id\":\"" id "\",\"version\":\"" version "\",\"summary\":\"" summary "\"}")

/*
 * Exports plugins, given as pointers to their tables: the one line of a library, in one of its files. What built it also stands in a
 * note. ALTGRAD_EXPORT is for a library with several kinds; each argument is a list of pointers in parentheses, NULL for none:
 * `ALTGRAD_EXPORT((&int2), (&sgd, &lion), (NULL))`. A list of NULL alone is none.
 */
#define ALTGRAD_EXPORT_FORMATS(...) ALTGRAD_EXPORT((__VA_ARGS__), (NULL), (NULL))
#define ALTGRAD_EXPORT_OPTIMIZERS(...) ALTGRAD_EXPORT((NULL), (__VA_ARGS__), (NULL))
#define ALTGRAD_EXPORT_SINKS(...) ALTGRAD_EXPORT((NULL), (NULL), (__VA_ARGS__))

#define ALTGRAD_UNWRAP_(...) __VA_ARGS__
#define ALTGRAD_EXPORT(formats, optimizers, sinks)                                                                            \
    ALTGRAD_NOTE_AS_(altgrad_note_build_, 2,                                                                                  \
                     "{\"api_version\":\"C " ALTGRAD_C_VERSION "\",\"rustc\":\"" ALTGRAD_COMPILER                            \
                     "\",\"target\":\"\",\"cpu_features\":\"" ALTGRAD_CPU_FEATURES "\"}");                                    \
    static const altgrad_format_v1 *const altgrad_formats_[] = {ALTGRAD_UNWRAP_ formats};                                     \
    static const altgrad_optimizer_v1 *const altgrad_optimizers_[] = {ALTGRAD_UNWRAP_ optimizers};                            \
    static const altgrad_sink_v1 *const altgrad_sinks_[] = {ALTGRAD_UNWRAP_ sinks};                                           \
    const altgrad_library_v1 altgrad_plugin_entry_v1 = {                                                                      \
        ALTGRAD_MAGIC,                                                                                                        \
        (uint32_t)sizeof(altgrad_library_v1),                                                                                 \
        ALTGRAD_C_MAJOR,                                                                                                      \
        ALTGRAD_C_MINOR,                                                                                                      \
        (uint32_t)(sizeof altgrad_formats_ / sizeof *altgrad_formats_),                                                       \
        ALTGRAD_COMPILER,                                                                                                     \
        ALTGRAD_CPU_FEATURES,                                                                                                 \
        altgrad_formats_,                                                                                                     \
        altgrad_optimizers_,                                                                                                  \
        altgrad_sinks_,                                                                                                       \
        (uint32_t)(sizeof altgrad_optimizers_ / sizeof *altgrad_optimizers_),                                                 \
        (uint32_t)(sizeof altgrad_sinks_ / sizeof *altgrad_sinks_),                                                           \
    }

#ifdef __cplusplus
}
#endif

#endif
