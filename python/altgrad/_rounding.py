"""Casts of matrices that are tensors of PyTorch, on any device. The compiled half computes them on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._casts import Cast

Key = tuple[int, int, int]


def round_rows(
    cast: Cast, x: Tensor, key: Key = (0, 0, 0), signs: Key = (0, 0, 0), amax: float | None = None
) -> Tensor:
    """Values of a matrix of any float type, float32, on its device, with blocks along its rows."""
    own = x.detach().resolve_neg().to("cpu", torch.float32).contiguous()
    values, _ = cast._round(own.numpy(), key, signs, amax)
    return torch.from_numpy(values).to(x.device)


def statistics(cast: Cast, x: np.ndarray) -> dict[str, Any]:
    """The sums of docs/numerics.md, section 7.4, of a matrix with blocks along its rows: elements, amax, scale (None where there are
    several), overflow, underflow, nan, nonzero, sum_x2 and sum_err2."""
    key = (0, 0, 0)
    values, scaled = cast._round(x, key, key)
    x = cast._rotate(x, key)
    finite = np.isfinite(x)
    wide, error = (part[finite].astype(np.float64) for part in (x, values.astype(np.float64) - x))
    table = cast.format.table
    least, most = (of(table[np.isfinite(table)]) for of in (np.min, np.max))
    for _ in range(2):
        least, most = np.nextafter(least, np.float32(-np.inf)), np.nextafter(most, np.float32(np.inf))
    scales = cast.apply(x).scales if not cast.transforms else np.empty(0)
    return {
        "elements": x.size,
        "amax": float(np.abs(wide).max(initial=0)),
        "scale": float(np.float32(1) / scales.flat[0]) if scales.size == 1 else None,
        "overflow": int(((scaled < least) | (scaled > most)).sum()),
        "underflow": int(((x != 0) & (values == 0)).sum()),
        "nan": int(np.isnan(x).sum()),
        "nonzero": int((x != 0).sum()),
        "sum_x2": float((wide**2).sum()),
        "sum_err2": float((error**2).sum()),
    }
