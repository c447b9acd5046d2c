"""Makes numpy_muon.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_muon.py > numpy_muon.txt`.
"""

import numpy as np

from recording import record

TITLE = """
Muon (Jordan et al., kellerjordan.github.io/posts/muon), and AdamW for `wte.weight`. Made by numpy_muon.py.
momentum 0.95, five Newton-Schulz steps, weight decay 0.1. `wide` [3, 4] and `tall` [4, 3] have Nesterov's momentum and steps times
0.2 sqrt(max(rows, columns)); `heavy` [4, 3] neither, and steps times sqrt(max(1, rows / columns)). AdamW: betas 0.9 0.95, eps 1e-8.
"""


def newton_schulz(g):
    """Turns tall matrices round, as the blog post's code."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / (np.linalg.norm(g) + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def adamw(w, g, state, lr, t):
    m = 0.9 * state.get("m", 0.0) + 0.1 * g
    v = 0.95 * state.get("v", 0.0) + 0.05 * g * g
    state.update(m=m, v=v)
    return w - lr * 0.1 * w - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-8)


def update(name, w, g, state, lr, t):
    if name == "wte.weight":
        return adamw(w, g, state, lr, t)
    m = state["m"] = 0.95 * state.get("m", 0.0) + 0.05 * g
    rows, columns = w.shape
    if name == "heavy":
        step = np.sqrt(max(1, rows / columns)) * newton_schulz(m)
    else:
        step = 0.2 * np.sqrt(max(rows, columns)) * newton_schulz(0.05 * g + 0.95 * m)
    return (1 - lr * 0.1) * w - lr * step


record(TITLE, 1e-3, {"wide": (3, 4), "tall": (4, 3), "heavy": (4, 3), "wte.weight": (4, 3)}, update)
