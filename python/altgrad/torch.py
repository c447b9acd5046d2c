"""Straight-through estimators and a quantized linear layer for PyTorch, on the CPU.

The definitions are those of altgrad's training: docs/numerics.md, sections 5.2 and 5.3.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import nn

from . import _arrays
from ._casts import Cast, Recipe
from ._formats import Format

_USES = ("weight", "activation", "grad", "weight_dgrad", "activation_wgrad", "grad_wgrad", "weight_grad")
_ESTIMATORS = ("identity", "clipped", "relu")


class _StraightThrough(torch.autograd.Function):
    """Values in the forward pass; the gradient times a factor in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, values: torch.Tensor, factor: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(*([] if factor is None else [factor]))
        return values

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        saved = ctx.saved_tensors
        return (gradient * saved[0] if saved else gradient), None, None


def fake_quant(x: torch.Tensor, to: Format | Cast | str, *, ste: str = "identity", **options: Any) -> torch.Tensor:
    """Rounds `x` to values of a format or by a cast; gradients pass by a straight-through estimator.

    x: a CPU tensor of float32, of any shape for a format, of two dimensions for a cast.
    to: a Format or its name, whose `fake_quant` takes the options; or a Cast, whose `apply` takes them.
    ste: "identity" (factor 1), "clipped" (0 where the scaled value lies beyond the format's values, else 1; for casts with
        blocks along rows) or "relu" (0 where x <= 0, else 1).

    Raises ValueError for another estimator, and what `Format.fake_quant` and `Cast.apply` raise.
    """
    if ste not in _ESTIMATORS:
        raise ValueError(f"ste must be one of {', '.join(_ESTIMATORS)}, is {ste!r}")
    if x.dtype != torch.float32:
        raise TypeError(f"expected a tensor of float32, got {x.dtype}")
    if isinstance(to, str):
        to = Format(to)
    values = to.apply(x, **options).values if isinstance(to, Cast) else to.fake_quant(x, **options)
    factor = None
    if ste == "relu":
        factor = (x > 0).float()
    elif ste == "clipped":
        factor = _inside_of_cast(x, to, options) if isinstance(to, Cast) else _inside_of_format(x, to, options)
    return _StraightThrough.apply(x, values, factor)


def _inside_of_format(x: torch.Tensor, form: Format, options: dict[str, Any]) -> torch.Tensor:
    axis, block, scale = options.get("axis", -1), options.get("block"), options.get("scale", 1.0)
    if isinstance(scale, str):
        scale = form.scales(x, axis=axis, block=block)
    blocks = _arrays.Blocks(tuple(x.shape), block, axis)
    scaled = x.detach().numpy() * blocks.spread(blocks.scales(scale).reshape(blocks.shape))
    return torch.from_numpy(_arrays.inside(scaled, form.table)).float()


def _inside_of_cast(x: torch.Tensor, cast: Cast, options: dict[str, Any]) -> torch.Tensor:
    if options.get("axis", "rows") != "rows":
        raise ValueError("the clipped estimator needs blocks along rows")
    _, inside = cast._inside(_arrays.floats(x)[0], _arrays.key(options.get("key", 0)))
    return torch.from_numpy(inside).float()


class _Casts:
    """The casts of a layer's operands by use."""

    def __init__(self, recipe: Recipe, layer: str) -> None:
        found = {use: recipe.cast(use, layer) for use in _USES}
        self.cast = {use: cast for use, (cast, _, _) in found.items()}
        self.source = {use: source for use, (_, source, _) in found.items()}
        self.ste = {use: ste for use, (_, _, ste) in found.items()}

    def first(self, use: str, x: torch.Tensor, key: Any) -> torch.Tensor:
        cast = self.cast[use]
        return x if cast is None else cast.apply(x, axis="rows", key=key).values

    def second(self, use: str, x: torch.Tensor, first: torch.Tensor, key: Any) -> torch.Tensor:
        """The operand of a second product: `x` is the tensor in high precision, `first` its first use."""
        if self.source[use] == "reuse":
            return first
        cast, x = self.cast[use], first if self.source[use] == "dequantized" else x
        return x if cast is None else cast.apply(x, axis="columns", key=key).values

    def factor(self, use: str, x: torch.Tensor) -> torch.Tensor | None:
        if self.cast[use] is None or self.ste[use] == "identity":
            return None
        if self.ste[use] == "relu":
            return (x > 0).float()
        return _inside_of_cast(x, self.cast[use], {})


class _Product(torch.autograd.Function):
    """`x W^T` and its two gradients, each operand rounded by its cast."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, casts: _Casts, key: tuple[int, int]) -> torch.Tensor:
        ctx.casts, ctx.key = casts, key
        x_values, w_values = casts.first("activation", x, (*key, 1)), casts.first("weight", weight, (*key, 0))
        ctx.save_for_backward(x, weight, x_values, w_values)
        return x_values @ w_values.T

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        x, weight, x_values, w_values = ctx.saved_tensors
        casts, key = ctx.casts, ctx.key
        gradient = gradient.contiguous()
        g_values = casts.first("grad", gradient, (*key, 2))
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = g_values @ casts.second("weight_dgrad", weight, w_values, (*key, 3))
            dx = _scaled(dx, casts.factor("activation", x))
        if ctx.needs_input_grad[1]:
            # Random signs of both operands are the same, so that transforms cancel.
            g_second = casts.second("grad_wgrad", gradient, g_values, (*key, 4))
            dw = g_second.T @ casts.second("activation_wgrad", x, x_values, (*key, 4))
            dw = casts.first("weight_grad", dw.contiguous(), (*key, 5))
            dw = _scaled(dw, casts.factor("weight", weight))
        return dx, dw, None, None


def _scaled(gradient: torch.Tensor, factor: torch.Tensor | None) -> torch.Tensor:
    return gradient if factor is None else gradient * factor


class QuantLinear(nn.Linear):
    """A linear layer whose operands are rounded by the casts of a recipe, in the forward and the backward pass.

    recipe: a Recipe, or the name of a shipped one. layer: the name that rules of `[[quant.layer]]` match, such as
        "h.0.mlp.c_fc.weight", and `exclude`, such as "lm_head.weight". `skip_first` and `skip_last` need a whole model and have no
        effect here.
    seed: of stochastic rounding and random signs, which also depend on `step`, the number of forward passes in training.

    Input `[..., in_features]`, output `[..., out_features]`, float32 on the CPU. Weights stay in float32; the bias and
    its gradient are not rounded. Raises ValueError for delayed scales, and for transforms in the forward pass.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        recipe: Recipe | str,
        layer: str = "",
        seed: int = 0,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self._quantize(recipe, layer, seed)

    def _quantize(self, recipe: Recipe | str, layer: str, seed: int) -> None:
        recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
        self._casts = _Casts(recipe, layer)
        self.seed, self.step = seed, 0
        for use in ("weight", "activation"):
            cast = self._casts.cast[use]
            if cast is not None and cast.transforms:
                raise ValueError(f"the cast of {use} has a transform, which QuantLinear does not undo")

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, recipe: Recipe | str, layer: str = "", seed: int = 0) -> QuantLinear:
        """A layer with the parameters of `linear`, which both share."""
        own = cls.__new__(cls)
        nn.Module.__init__(own)
        own.in_features, own.out_features = linear.in_features, linear.out_features
        own.weight, own.bias = linear.weight, linear.bias
        own._quantize(recipe, layer, seed)
        return own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features)
        product = _Product.apply(rows, self.weight, self._casts, (self.seed, self.step))
        if self.training:
            self.step += 1
        product = product if self.bias is None else product + self.bias
        return product.reshape(*x.shape[:-1], self.out_features)


def quantize_linears(model: nn.Module, recipe: Recipe | str, *, seed: int = 0) -> nn.Module:
    """Replaces every `nn.Linear` of a model by a QuantLinear with the same parameters; its name, with ".weight", is that
    which rules match. Returns the model."""
    recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
    for name, module in list(model.named_modules()):
        for child, linear in list(module.named_children()):
            if type(linear) is nn.Linear:
                layer = f"{name}.{child}.weight".lstrip(".")
                # Layers draw different random bits.
                drawn = seed ^ zlib.crc32(layer.encode()) << 32
                setattr(module, child, QuantLinear.from_linear(linear, recipe=recipe, layer=layer, seed=drawn))
    return model
