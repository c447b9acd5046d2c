/*
 * An optimizer in plain C: gradient descent with momentum, as examples/optimizer-sgd in Rust.
 *
 * The host owns the momentum buffer, checkpoints it and clips gradients before the call. Elements are updated alone, so the host passes
 * parts of a parameter on all threads.
 */
#include <stdlib.h>

#include "altgrad_plugin.h"

typedef struct sgd {
    float momentum;
} sgd;

static const altgrad_option options[] = {
    {
        .name = "momentum",
        .help = "Share of the last step that the next one keeps",
        .type = ALTGRAD_OPTION_NUMBER,
        .number = 0.9,
        .least = 0.0,
        .most = 1.0,
    },
};

static const char *const states[] = {"momentum"};

static int32_t create(const altgrad_value *values, void **instance, altgrad_error *error) {
    sgd *made = malloc(sizeof *made);
    if (!made) return altgrad_fail(error, ALTGRAD_OTHER, "there is no memory");
    made->momentum = (float)values[0].number;
    *instance = made;
    return ALTGRAD_OK;
}

static int32_t step(void *instance, const altgrad_param *param, float *values, const float *grad, float *const *buffers,
                    uint64_t count, const altgrad_step_scalars *scalars, altgrad_error *error) {
    const sgd *self = instance;
    const float lr = (float)scalars->lr;
    float *velocity = buffers[0];
    (void)param;
    (void)error;
    for (uint64_t i = 0; i < count; i++) {
        velocity[i] = self->momentum * velocity[i] + grad[i];
        values[i] -= lr * velocity[i];
    }
    return ALTGRAD_OK;
}

static const altgrad_optimizer_v1 table = {
    .struct_size = sizeof(altgrad_optimizer_v1),
    .elementwise = 1,
    .id = "sgd-c",
    .version = "1.0.0",
    .summary = "Gradient descent with momentum, in C",
    .options = options,
    .option_count = 1,
    .state_count = 1,
    .states = states,
    .create = create,
    .destroy = free,
    .step = step,
};

ALTGRAD_EXPORT_OPTIMIZERS(&table);
