"""What the scripts share that record trajectories of reference implementations in float64 for the optimizers' tests. Needs NumPy.

A script defines an update and calls `record`; run it with this folder in PYTHONPATH. The format of a recording is that of
`src/testing/recorded.rs`.
"""

import struct

import numpy as np

STEPS, RECORDED = 100, (1, 2, 10, 50, 100)


def words(array):
    return " ".join(struct.pack(">f", x).hex() for x in np.asarray(array, np.float32).flatten())


def rate(peak, t):
    """Rises over ten steps to the peak; halved from step 50 on."""
    return peak * min(1.0, t / 10) * (1.0 if t < 50 else 0.5)


def gradient(t, count, generator, decades):
    """Normal numbers of sizes that differ by up to so many decades, as f32; the first three are zero in the first step."""
    grad = generator.standard_normal(count) * 10.0 ** generator.integers(-decades, 1, count)
    if t == 1:
        grad[:3] = 0
    return grad.astype(np.float32)


def record(title, peak, shapes, update, decades=4):
    """Prints a run of `update(name, w, g, state, lr, t) -> w`, all arrays float64; `state` is a dict of the parameter."""
    generator = np.random.default_rng(1)
    count = int(np.prod(next(iter(shapes.values()))))
    params = {
        name: (0.1 * generator.standard_normal(shape)).astype(np.float32).astype(np.float64)
        for name, shape in shapes.items()
    }
    states = {name: {} for name in shapes}
    for line in title.strip().splitlines():
        print("#", line)
    print(f"# NumPy {np.__version__}, float64. All parameters get the same gradient. Learning rate of step t: {peak} * min(1, t / 10), halved from")
    print("# t = 50 on. Words are f32 bits in hexadecimal. start: before step 1; grad T: gradient of step T; after T: parameters then.")
    for name, param in params.items():
        print("start", name, words(param))
    for t in range(1, STEPS + 1):
        grad = gradient(t, count, generator, decades)
        for name, param in params.items():
            g = grad.astype(np.float64).reshape(param.shape)
            params[name] = update(name, param, g, states[name], rate(peak, t), t)
        print("grad", t, words(grad))
        if t in RECORDED:
            for name, param in params.items():
                print("after", t, name, words(param))
