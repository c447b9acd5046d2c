"""Casts of matrices that are tensors of PyTorch, on any device.

On the CPU the compiled half computes values. On other devices PyTorch's operations do, with the same bits: the largest magnitudes of
blocks come to the CPU for their scales, elements stay where they are. Casts with transforms, random bits, ties toward zero or scales
from standard deviations go through the CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._casts import Cast
from ._formats import Format

Key = tuple[int, int, int]


def round_rows(
    cast: Cast, x: Tensor, key: Key = (0, 0, 0), signs: Key = (0, 0, 0), amax: float | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Values of a matrix of any float type, float32, on its device, with blocks along its rows; and what was seen: `amax`, `scale`, and
    on the CPU the statistics of `Format.fake_quant`."""
    x = x.detach().resolve_neg().to(torch.float32).contiguous()
    if x.device.type == "cpu":
        values = torch.empty_like(x)
        seen = cast._core.round(cast.format._core, x.numpy(), values.numpy(), x.shape[0], key, signs, amax)
        return values, seen
    if (plan := cast._core.plan(*x.shape)) is None:
        values, seen = round_rows(cast, x.cpu(), key, signs, amax)
        return values.to(x.device), seen
    return by_operations(cast, x, plan, amax)


def by_operations(cast: Cast, x: Tensor, plan: dict[str, Any], amax: float | None) -> tuple[Tensor, dict[str, Any]]:
    """`round_rows` by operations of PyTorch. `plan` is that of the compiled half for the matrix's shape."""
    rows, columns = x.shape
    high, wide = plan["block"]
    padded = torch.nn.functional.pad(x, (0, -columns % wide, 0, -rows % high))
    blocks = padded.reshape(-(-rows // high), high, -(-columns // wide), wide)
    magnitude = blocks.abs()
    finite = torch.where(magnitude < torch.inf, magnitude, 0.0)
    most = finite.amax((1, 3))
    if plan["poisons"]:
        most = torch.where((magnitude < torch.inf).all(3).all(1), most, torch.nan)
    magnitudes = most.cpu().numpy().reshape(-1)
    encode, decode = np.empty_like(magnitudes), np.empty_like(magnitudes)
    cast._core.scales(cast.format._core, magnitudes, encode, decode, amax)
    is_one_factor = encode.size == 1 and not any(plan["divides"])
    seen = {"amax": float(finite.amax()), "scale": float(encode[0]) if is_one_factor else None}
    factors = (torch.from_numpy(part).to(x.device).reshape(most.shape)[:, None, :, None] for part in (encode, decode))
    encode, decode = factors
    scaled = _divided(blocks, decode) if plan["divides"][0] else blocks * encode
    values = _nearest(scaled, cast.format, plan["rounding"])
    values = _divided(values, encode, decode) if plan["divides"][1] else values * decode
    return values.reshape(padded.shape)[:rows, :columns].contiguous(), seen


def _divided(x: Tensor, by: Tensor, decode: Tensor | None = None) -> Tensor:
    """`x / by`; where the decode scale is 0, zeros with the sign of `x`."""
    zero = torch.copysign(torch.zeros((), device=x.device), x)
    return torch.where(((by if decode is None else decode) == 0) & ~x.isnan(), zero, x / by)


def _nearest(scaled: Tensor, form: Format, rounding: str) -> Tensor:
    bounds, points = (torch.from_numpy(part).to(scaled.device) for part in form._steps(rounding))
    values = points[torch.bucketize(scaled, bounds, right=True)]
    values = torch.where(values == 0, torch.copysign(values, scaled), values)
    return torch.where(scaled.isnan(), scaled, values)
