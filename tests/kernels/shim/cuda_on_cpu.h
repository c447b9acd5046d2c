// Runs CUDA C++ kernel text on the CPU: one cube after the other, its units as fibers that hand over at barriers.
// Knows what the project's kernels use and nothing else: one-dimensional cubes, static shared memory, u32 atomics.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct shim_dim3 {
    unsigned x, y, z;
};
static shim_dim3 threadIdx, blockIdx, blockDim, gridDim;

template <class T> static inline T max(T a, T b) { return a > b ? a : b; }
template <class T> static inline T min(T a, T b) { return a < b ? a : b; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }

// The text's atomics are inline PTX; the test replaces each by one of these. Units never run at the same time.
static inline unsigned shim_atomic_add(const unsigned *place, unsigned value) {
    unsigned old = *place;
    *const_cast<unsigned *>(place) = old + value;
    return old;
}
static inline unsigned shim_atomic_max(const unsigned *place, unsigned value) {
    unsigned old = *place;
    if (old < value) *const_cast<unsigned *>(place) = value;
    return old;
}
static inline unsigned atomicAdd(unsigned *place, unsigned value) { return shim_atomic_add(place, value); }
static inline unsigned atomicMax(unsigned *place, unsigned value) { return shim_atomic_max(place, value); }
static inline unsigned atomicExch(unsigned *place, unsigned value) { return std::exchange(*place, value); }

namespace shim {
constexpr size_t STACK = 64 << 10;

struct Unit {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
};
static std::vector<Unit> units;
static ucontext_t scheduler;
static unsigned current;
static const std::function<void()> *body;

static void unit_main() {
    (*body)();
    units[current].done = true;
    swapcontext(&units[current].context, &scheduler);
}

// Every unit runs to its next barrier or its end, in order, until all have ended.
static void run_cube(unsigned size, const std::function<void()> &f) {
    body = &f;
    units.resize(size);
    for (auto &unit : units) {
        unit.stack.resize(STACK);
        unit.done = false;
        getcontext(&unit.context);
        unit.context.uc_stack.ss_sp = unit.stack.data();
        unit.context.uc_stack.ss_size = STACK;
        unit.context.uc_link = nullptr;
        makecontext(&unit.context, unit_main, 0);
    }
    for (unsigned running = size; running;) {
        running = 0;
        for (current = 0; current < size; current++) {
            if (units[current].done) continue;
            threadIdx = {current, 0, 0};
            swapcontext(&scheduler, &units[current].context);
            running += !units[current].done;
        }
        // A barrier that only some units reach never ends on a GPU.
        if (running && running != size) {
            fprintf(stderr, "%u of %u units are at a barrier\n", running, size);
            exit(3);
        }
    }
}

static void barrier() { swapcontext(&units[current].context, &scheduler); }

struct Job {
    unsigned cubes, units;
    std::vector<std::vector<unsigned>> buffers;
    std::vector<unsigned> info;
};

template <class... A, size_t... I>
static void launch(void (*kernel)(A...), Job &job, std::index_sequence<I...>) {
    std::tuple<A...> arguments;
    auto &info = std::get<sizeof...(I)>(arguments);
    if (sizeof info != 4 * job.info.size() || sizeof...(I) != job.buffers.size()) {
        fprintf(stderr, "the text takes %zu buffers and %zu bytes of info\n", sizeof...(I), sizeof info);
        exit(4);
    }
    memcpy((void *)&info, job.info.data(), sizeof info);
    ((std::get<I>(arguments) = (std::tuple_element_t<I, std::tuple<A...>>)(void *)job.buffers[I].data()), ...);
    gridDim = {job.cubes, 1, 1};
    blockDim = {job.units, 1, 1};
    for (unsigned cube = 0; cube < job.cubes; cube++) {
        blockIdx = {cube, 0, 0};
        run_cube(job.units, [&] { std::apply(kernel, arguments); });
    }
}

// A kernel's parameters are its buffers and, last, the info block.
template <class... A> static void launch(void (*kernel)(A...), Job &job) {
    launch(kernel, job, std::make_index_sequence<sizeof...(A) - 1>());
}

static void get(void *to, size_t bytes) {
    if (fread(to, 1, bytes, stdin) != bytes) exit(5);
}

static std::vector<unsigned> get_words() {
    unsigned count;
    get(&count, 4);
    std::vector<unsigned> words(count);
    get(words.data(), 4 * (size_t)count);
    return words;
}

// stdin: which kernel, cubes, units, number of buffers, then info and buffers as (count, words). stdout: the buffers.
static int serve(const std::vector<std::function<void(Job &)>> &kernels) {
    unsigned head[4];
    get(head, sizeof head);
    Job job{head[1], head[2], {}, get_words()};
    for (unsigned i = 0; i < head[3]; i++) job.buffers.push_back(get_words());
    kernels.at(head[0])(job);
    for (auto &buffer : job.buffers) fwrite(buffer.data(), 4, buffer.size(), stdout);
    return 0;
}
}  // namespace shim

static inline void __syncthreads() { shim::barrier(); }
