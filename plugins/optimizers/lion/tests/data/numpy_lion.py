"""Makes numpy_lion.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_lion.py > numpy_lion.txt`.
"""

import numpy as np

from recording import record

TITLE = """
Lion (Chen et al., arXiv:2302.06675, algorithm 2). Made by numpy_lion.py.
betas 0.9 0.99; `matrix` [3, 4] has weight decay 0.1, `vector` [12] none.
"""
BETA1, BETA2 = 0.9, 0.99


def update(name, w, g, state, lr, t):
    m = state.get("m", np.zeros_like(w))
    decay = 0.1 if name == "matrix" else 0.0
    step = np.sign(BETA1 * m + (1 - BETA1) * g) + decay * w
    state["m"] = BETA2 * m + (1 - BETA2) * g
    return w - lr * step


record(TITLE, 1e-3, {"matrix": (3, 4), "vector": (12,)}, update)
