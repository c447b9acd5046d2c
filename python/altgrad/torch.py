"""PyTorch: straight-through estimators, models whose products are rounded, and observation of models that are not.

The definitions are those of altgrad's training: docs/numerics.md, sections 5.2 and 5.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from . import _arrays
from ._casts import Cast
from ._formats import Format
from ._linear import QuantLayer, QuantLinear
from ._models import Layers, layers, quantize_linears
from ._observe import Observation, observe

__all__ = [
    "Layers",
    "Observation",
    "QuantLayer",
    "QuantLinear",
    "fake_quant",
    "layers",
    "observe",
    "quantize_linears",
]

_ESTIMATORS = ("identity", "clipped", "relu")


def _check_type(x: Any) -> None:
    """Refuses all but tensors of float32 on the CPU."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"expected a tensor of float32 on the CPU, got {type(x).__name__}")
    if x.dtype != torch.float32 or x.device.type != "cpu":
        raise TypeError(f"expected a tensor of float32 on the CPU, got {x.dtype} on {x.device}")


def _array(tensor: torch.Tensor) -> np.ndarray:
    """The values of a tensor, without a copy where possible."""
    return tensor.detach().resolve_neg().numpy()


class _StraightThrough(torch.autograd.Function):
    """Values in the forward pass; the gradient, 0 where it is blocked, in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, values: torch.Tensor, blocked: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(*([] if blocked is None else [blocked]))
        return values

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # A product with 0 would turn an infinite gradient into NaN.
        return (gradient.masked_fill(*ctx.saved_tensors, 0.0) if ctx.saved_tensors else gradient), None, None


def fake_quant(x: torch.Tensor, to: Format | Cast | str, *, ste: str = "identity", **options: Any) -> Any:
    """Rounds `x` to values of a format or by a cast; gradients pass by a straight-through estimator.

    x: a CPU tensor of float32, of any shape for a format, of two dimensions for a cast.
    to: a Format or its name, whose `fake_quant` takes the options; or a Cast, whose `apply` takes them.
    ste: the estimator: "identity" passes every gradient, "clipped" blocks it where the scaled magnitude exceeds the format's largest
        value (for casts with blocks along rows), "relu" where x <= 0. Gradients of NaN pass.

    With the option `stats=True` of a format, returns the tensor and the statistics.

    Raises ValueError for another estimator, and what `Format.fake_quant` and `Cast.apply` raise.
    """
    if ste not in _ESTIMATORS:
        raise ValueError(f"ste must be one of {', '.join(_ESTIMATORS)}, found {ste!r}")
    _check_type(x)
    if isinstance(to, str):
        to = Format(to)
    plain = x.detach()
    rounded = to.apply(plain, **options).values if isinstance(to, Cast) else to.fake_quant(plain, **options)
    values, *stats = rounded if isinstance(rounded, tuple) else (rounded,)
    blocked = None
    if ste == "relu":
        blocked = plain <= 0
    elif ste == "clipped" and x.numel():
        blocked = torch.from_numpy((_clipped_by_cast if isinstance(to, Cast) else _clipped_by_format)(plain, to, options))
    result = _StraightThrough.apply(x, values, blocked)
    return (result, *stats) if stats else result


def _clipped_by_format(x: torch.Tensor, form: Format, options: dict[str, Any]) -> np.ndarray:
    axis, block, scale = options.get("axis", -1), options.get("block"), options.get("scale", 1.0)
    if isinstance(scale, str):
        scale = form.scales(x, axis=axis, block=block)
    blocks = _arrays.Blocks(tuple(x.shape), block, axis)
    scaled = _array(x) * blocks.spread(blocks.scales(scale).reshape(blocks.shape))
    return _arrays.beyond(scaled, form.info["largest"])


def _clipped_by_cast(x: torch.Tensor, cast: Cast, options: dict[str, Any]) -> np.ndarray:
    if options.get("axis", "rows") != "rows":
        raise ValueError("the clipped estimator needs blocks along rows")
    key = _arrays.key(options.get("key", 0))
    _, scaled = cast._round(_arrays.floats(x)[0], key, key, options.get("amax"))
    return cast._is_clipped(scaled)
