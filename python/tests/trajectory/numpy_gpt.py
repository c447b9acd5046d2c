"""A GPT of nanoGPT's architecture in NumPy, with its backward pass and AdamW, whose linear layers use casts of altgrad.

Written from the definitions, without PyTorch: docs/numerics.md, section 5.2, for the casts. Everything but the casts is float64.
"""

import math

import numpy as np

from . import BETAS, BLOCK, CLIP, DECAY, EMBEDDING, HEADS, LAYERS, LEARNING_RATE

_erf = np.vectorize(math.erf)


def linear(x, w, casts):
    """`x W^T` of rounded operands, and the function of its backward pass; second uses reuse the values of the first."""

    def cast(use, matrix):
        return casts[use].apply(matrix.astype(np.float32)).values.astype(np.float64)

    rows = x.reshape(-1, x.shape[-1])
    x_values, w_values = cast("activation", rows), cast("weight", w)

    def back(dy):
        g = cast("grad", dy.reshape(-1, dy.shape[-1]))
        return (g @ w_values).reshape(x.shape), g.T @ x_values

    return (x_values @ w_values.T).reshape(*x.shape[:-1], -1), back


def norm(x, gain):
    """Layer norm without bias, and its backward pass."""
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    normal = (x - x.mean(-1, keepdims=True)) * scale

    def back(dy):
        d = dy * gain
        dx = d - d.mean(-1, keepdims=True) - normal * (d * normal).mean(-1, keepdims=True)
        return dx * scale, (dy * normal).sum((0, 1))

    return normal * gain, back


def gelu(x):
    """`x Phi(x)`, and its backward pass."""
    phi = 0.5 * (1 + _erf(x / math.sqrt(2)))
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * phi, lambda dy: dy * (phi + x * density)


def attention(fused):
    """Causal attention of queries, keys and values side by side, and its backward pass."""
    batch, width = fused.shape[0], EMBEDDING // HEADS
    q, k, v = fused.reshape(batch, BLOCK, 3, HEADS, width).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(width)
    scores[..., np.triu(np.ones((BLOCK, BLOCK), dtype=bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)

    def back(dy):
        dy = dy.reshape(batch, BLOCK, HEADS, width).transpose(0, 2, 1, 3)
        dp = dy @ v.swapaxes(-1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / math.sqrt(width)
        parts = np.stack([ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dy])
        return parts.transpose(1, 3, 0, 2, 4).reshape(fused.shape)

    return (p @ v).transpose(0, 2, 1, 3).reshape(batch, BLOCK, EMBEDDING), back


def loss_and_gradients(w, casts, x, y):
    """The mean cross-entropy, and its gradient by parameter."""
    gradients = {name: np.zeros_like(value) for name, value in w.items()}
    tape = []

    def layer(operation, name, value, *more):
        """Applies an operation with a parameter; its backward pass adds to that parameter's gradient."""
        result, back = operation(value, w[name], *more)

        def to_input(d):
            d, own = back(d)
            gradients[name] += own
            return d

        return result, to_input

    def branch(hidden, *steps):
        """The residual stream after a branch."""
        value, backs = hidden, []
        for step in steps:
            value, back = step(value)
            backs.append(back)

        def to_input(d):
            own = d
            for back in reversed(backs):
                own = back(own)
            return d + own

        tape.append(to_input)
        return hidden + value

    def product(name, layer_name=None):
        return lambda value: layer(linear, name, value, casts(layer_name or name))

    hidden = w["wte.weight"][x] + w["wpe.weight"]
    for n in range(LAYERS):
        h = f"h.{n}."
        ln_1, ln_2 = ((lambda value, name=h + ln: layer(norm, name, value)) for ln in ("ln_1.weight", "ln_2.weight"))
        hidden = branch(hidden, ln_1, product(h + "attn.c_attn.weight"), attention, product(h + "attn.c_proj.weight"))
        hidden = branch(hidden, ln_2, product(h + "mlp.c_fc.weight"), gelu, product(h + "mlp.c_proj.weight"))
    normal, back_norm = layer(norm, "ln_f.weight", hidden)
    logits, back_head = product("wte.weight", "lm_head.weight")(normal)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    at = (*np.indices(y.shape), y)
    loss = -np.log(p[at]).mean()
    p[at] -= 1
    d = back_norm(back_head(p / y.size))
    for back in reversed(tape):
        d = back(d)
    np.add.at(gradients["wte.weight"], x, d)
    gradients["wpe.weight"] += d.sum(0)
    return loss, gradients


def train(weights, recipe, batches):
    """The losses of a training with AdamW and clipping."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    m, v = ({name: np.zeros_like(value) for name, value in w.items()} for _ in range(2))
    losses = []

    def casts(layer):
        return {use: recipe.cast(use, layer)[0] for use in ("weight", "activation", "grad")}

    for step, (x, y) in enumerate(batches, 1):
        loss, gradients = loss_and_gradients(w, casts, x, y)
        losses.append(float(loss))
        whole = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
        factor = min(1.0, CLIP / (whole + 1e-6))
        for name, g in gradients.items():
            g = g * factor
            m[name] = BETAS[0] * m[name] + (1 - BETAS[0]) * g
            v[name] = BETAS[1] * v[name] + (1 - BETAS[1]) * g * g
            if g.ndim >= 2:
                w[name] *= 1 - LEARNING_RATE * DECAY
            hat = np.sqrt(v[name] / (1 - BETAS[1] ** step)) + 1e-8
            w[name] -= LEARNING_RATE * m[name] / (1 - BETAS[0] ** step) / hat
    return losses
