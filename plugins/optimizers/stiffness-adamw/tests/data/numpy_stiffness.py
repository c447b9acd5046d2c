"""Makes numpy_stiffness.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_stiffness.py > numpy_stiffness.txt`. The update is that of docs/numerics.md,
section 9.3.
"""

import numpy as np

from recording import record

TITLE = """
StiffnessAdamW on E4M3 at the scale 2048, by its definition. Made by numpy_stiffness.py.
betas 0.9 0.95, eps 1e-8, decay 0.1, ulp_per_lr 100. Each parameter has a placement of its own: `post` with a cosine schedule
over 100 updates to 0.1, `power` with p = 0.5, `pre` with eps 1e-16.
"""
BETA1, BETA2, EPS, PRE_EPS, DECAY, ULP_PER_LR, SCALE = 0.9, 0.95, 1e-8, 1e-16, 0.1, 100.0, 2048.0
EMIN, M = -6, 3


def spacing(w):
    """Of E4M3, in weight units."""
    stored = np.abs(w * SCALE)
    exponent = np.where(stored > 0, np.floor(np.log2(np.where(stored > 0, stored, 1.0))), EMIN)
    return 2.0 ** (np.maximum(exponent, EMIN) - M) / SCALE


def adam(g, state, lr, t, eps=EPS):
    state["m"] = BETA1 * state.get("m", 0.0) + (1 - BETA1) * g
    state["v"] = BETA2 * state.get("v", 0.0) + (1 - BETA2) * g**2
    return lr * state["m"] / (1 - BETA1**t) / (np.sqrt(state["v"] / (1 - BETA2**t)) + eps)


def update(name, w, g, state, lr, t):
    s, keep = spacing(w), 1 - lr * DECAY
    if name == "post":
        done = (1 - np.cos(np.pi * min((t - 1) / 100, 1.0))) / 2
        factor = 1 + done * (0.1 - 1)
        return keep * w - factor * s * adam(g, state, lr * ULP_PER_LR, t)
    if name == "power":
        mean = np.exp(np.mean(np.log(s)))
        return keep * w - (s / mean) ** 0.5 * adam(g, state, lr, t)
    return keep * w - adam(s * g, state, lr, t, PRE_EPS)


record(TITLE, 0.01, {name: (3, 4) for name in ("post", "power", "pre")}, update)
