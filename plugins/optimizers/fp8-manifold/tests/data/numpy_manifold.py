"""Makes numpy_manifold.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_manifold.py > numpy_manifold.txt`. The update is that of docs/numerics.md,
section 9.4.
"""

import numpy as np

from recording import record

TITLE = """
FP8Manifold on E4M3 at the scale 2048, by its definition. Made by numpy_manifold.py.
betas 0.9 0.95, eps 1e-16, decay 0.1, ulp_per_lr 100. `exp` and `linear` are the retractions on the format's codes, `asinh` the
exponential one on that chart. One weight begins beyond an end of the grid; at the ends steps are clamped and momentum is dropped.
"""
BETA1, BETA2, EPS, DECAY, ULP_PER_LR, SCALE = 0.9, 0.95, 1e-16, 0.1, 100.0, 2048.0
EMIN, M, LARGEST = -6, 3, 448.0
BASE = 2.0**EMIN / np.log(2)


def exponents(x):
    size = np.abs(x)
    return np.maximum(np.floor(np.log2(np.where(size > 0, size, 2.0**EMIN))), EMIN)


def spacing(x, asinh):
    if asinh:
        return np.log(2) / 2**M * np.sqrt(x**2 + BASE**2)
    return 2.0 ** (exponents(x) - M)


def phi(x, asinh):
    if asinh:
        return 2**M / np.log(2) * np.arcsinh(x / BASE)
    size, e = np.abs(x), exponents(x)
    subnormal = size / 2.0 ** (EMIN - M)
    return np.sign(x) * np.where(size < 2.0**EMIN, subnormal, 2**M * (e - EMIN + size / 2.0**e))


def inverse(u, asinh):
    if asinh:
        return BASE * np.sinh(u * np.log(2) / 2**M)
    size = np.abs(u)
    whole = np.maximum(np.floor(size / 2**M), 1)
    normal = 2.0 ** (EMIN + whole - 1) * (size / 2**M - whole + 1)
    return np.sign(u) * np.where(size < 2**M, size * 2.0 ** (EMIN - M), normal)


def update(name, w, g, state, lr, t):
    asinh = name == "asinh"
    h = spacing(SCALE * w, asinh) / SCALE * g
    state["m"] = BETA1 * state.get("m", 0.0) + (1 - BETA1) * h
    state["v"] = BETA2 * state.get("v", 0.0) + (1 - BETA2) * h**2
    root = np.sqrt(state["v"] / (1 - BETA2**t)) + EPS
    d = -lr * ULP_PER_LR * state["m"] / (1 - BETA1**t) / root
    kept = (1 - lr * DECAY) * w
    s = SCALE * kept
    to = s + d * spacing(s, asinh) if name == "linear" else inverse(phi(s, asinh) + d, asinh)
    to = np.clip(to, -LARGEST, LARGEST)
    outward = np.abs(to) >= LARGEST
    state["m"] = np.where(outward & (np.sign(to) == np.sign(d)), 0.0, state["m"])
    state["dropped"] = state.get("dropped", 0) + int(np.sum(outward & (np.sign(to) == np.sign(d))))
    return kept + (to - s) / SCALE


record(TITLE, 0.01, {name: (3, 4) for name in ("exp", "linear", "asinh")}, update)
