"""Makes numpy_madam.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_madam.py > numpy_madam.txt`.
"""

import numpy as np

from recording import record

TITLE = """
Madam (Bernstein et al., arXiv:2006.14560, algorithm 1) and LNS-Madam (Zhao et al., arXiv:2106.13914). Made by numpy_madam.py.
beta 0.999, gradients bound to 10. `natural` base e, weights bound to 3 root mean squares of the first; `binary` base 2, the same bound;
`vector` additive steps.
"""
BETA = 0.999


def update(name, w, g, state, lr, t):
    if t == 1:
        state["v"] = np.zeros_like(w)
        state["bound"] = 3 * np.sqrt(np.mean(w * w))
    state["v"] = BETA * state["v"] + (1 - BETA) * g * g
    root = np.sqrt(state["v"] / (1 - BETA**t))
    r = np.clip(np.divide(g, root, out=np.zeros_like(g), where=root > 0), -10, 10)
    if name == "vector":
        return w - lr * r
    base = np.e if name == "natural" else 2.0
    return np.clip(w * base ** (-lr * np.sign(w) * r), -state["bound"], state["bound"])


record(TITLE, 0.01, {"natural": (3, 4), "binary": (3, 4), "vector": (12,)}, update)
