"""Makes numpy_soap.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_soap.py > numpy_soap.txt`.
"""

import numpy as np

from recording import record

TITLE = """
SOAP (Vyas et al., arXiv:2409.11321, algorithms 3 and 4), with numpy.linalg.eigh and qr. Made by numpy_soap.py.
betas 0.9 0.95, both also the factors' (0.95), eps 1e-4, bases every 10 updates, decay 0.1. The first update decomposes its own factors
and steps. Before a QR step the columns of a basis, and the second moment with them, are sorted by their share of the factor, as in the
authors' code (get_orthogonal_matrix_QR): the order changes in 22 of the 30 QR steps. `both` [4, 3] has two factors, `columns` [4, 3]
that of its columns only.
Gradients are all of one size: factors in f32 do not hold eigenvalues that are 1e-8 of the largest.
"""
BETA1, BETA2, SHAMPOO, EPS, INTERVAL = 0.9, 0.95, 0.95, 1e-4, 10


def update(name, w, g, state, lr, t):
    axes = ("L", "R") if name == "both" else ("R",)
    used, order = {}, {"L": np.arange(w.shape[0]), "R": np.arange(w.shape[1])}
    for axis in axes:
        product = g @ g.T if axis == "L" else g.T @ g
        factor = SHAMPOO * state.get(axis, 0.0) + (1 - SHAMPOO) * product
        state[axis] = factor
        if t == 1:
            state["Q" + axis] = np.linalg.eigh(factor)[1][:, ::-1]  # The largest eigenvalue first.
        used[axis] = state["Q" + axis]
        if t > 1 and t % INTERVAL == 0:
            turned = factor @ used[axis]
            order[axis] = np.argsort(-np.sum(used[axis] * turned, axis=0))
            state["Q" + axis] = np.linalg.qr(turned[:, order[axis]])[0]
    left = used.get("L", np.eye(w.shape[0]))
    right = used["R"]
    state["m"] = BETA1 * state.get("m", 0.0) + (1 - BETA1) * g
    v = BETA2 * state.get("v", 0.0) + (1 - BETA2) * (left.T @ g @ right) ** 2
    state["v"] = v[order["L"]][:, order["R"]]
    m = left.T @ state["m"] @ right / (1 - BETA1**t)
    direction = m / (np.sqrt(v / (1 - BETA2**t)) + EPS)
    return (1 - lr * 0.1) * w - lr * left @ direction @ right.T


record(TITLE, 1e-3, {"both": (4, 3), "columns": (4, 3)}, update, decades=0)
