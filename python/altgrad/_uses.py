"""The uses of the operands of a linear layer: their casts, random bits, and scales from earlier steps.

The definitions are those of altgrad's training: docs/numerics.md, sections 4.3 and 5.2. A use is a tensor as it is rounded for
one matrix product; the contraction of that product is its last axis.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._casts import Cast, Recipe
from ._rounding import round_rows

# In the order of the sites of a run, with the product that each is an operand of: 0 output, 1 gradient of the input, 2 gradient
# of the weight, 3 none.
NAMES = {
    "weight": 0,
    "activation": 0,
    "grad": 1,
    "weight_dgrad": 1,
    "activation_wgrad": 2,
    "grad_wgrad": 2,
    "weight_grad": 3,
}
# The uses that differ from the first use of the same tensor.
FIRST = {"weight_dgrad": "weight", "activation_wgrad": "activation", "grad_wgrad": "grad"}


class History:
    """Largest magnitudes of earlier steps, from which the scale of the next follows."""

    def __init__(self, window: int, is_static: bool, first_is_one: bool, keeps_over_zeros: bool) -> None:
        self.window, self.is_static = window, is_static
        self.first_is_one, self.keeps_over_zeros = first_is_one, keeps_over_zeros
        self.amax: list[float] = []
        self.kept = 0.0

    def next(self) -> float | None:
        """The magnitude that the scale of the next step follows from: 0 stands for scale 1, None for that of the tensor."""
        if not self.amax:
            return 0.0 if self.first_is_one else None
        return max(self.amax) or (self.kept if self.keeps_over_zeros else 0.0)

    def record(self, amax: float) -> None:
        """Adds the magnitude of a step."""
        if self.is_static and self.amax:
            return
        self.amax = [*self.amax, amax][-self.window :]
        self.kept = max(self.amax) or self.kept


class Bits:
    """Keys of random bits in one step: those of a run with this seed, whose parameters and sites have these numbers."""

    def __init__(self, seed: int, step: int, parameter: int, first_site: int) -> None:
        self.seed, self.step, self.parameter, self.first_site = seed, step, parameter, first_site

    def rounding(self, site: int) -> tuple[int, int, int]:
        """Of stochastic rounding, at a site of the layer."""
        return self.seed, self.step, self.first_site + site

    def signs(self, use: str) -> tuple[int, int, int]:
        """Of the signs of a transform, the same for both operands of a product."""
        return self.seed, self.step, (1 << 64) - 1 - (4 * self.parameter + NAMES[use])


class Use:
    """One use of an operand: its cast, the source of its values, its estimator and its scales from earlier steps."""

    def __init__(self, name: str, cast: Cast | None, source: str, ste: str, site: int) -> None:
        self.name, self.cast, self.source, self.ste, self.site = name, cast, source, ste, site
        history = None if cast is None else cast._core.history
        self.history = None if history is None else History(*history)

    @property
    def transform(self) -> Any:
        """Size and signs of a transform of its own; None without."""
        return None if self.cast is None or self.source == "reuse" else self.cast._core.transform

    @property
    def depends_on_steps(self) -> bool:
        """True if values depend on random bits or on earlier steps."""
        return self.history is not None or (self.cast is not None and self.cast._core.is_random)

    @property
    def estimates(self) -> bool:
        """True if the estimator blocks gradients of some elements."""
        return self.cast is not None and self.ste in ("clipped", "relu")

    def round(self, x: Tensor, bits: Bits, records: bool) -> tuple[Tensor, Tensor | None]:
        """The values of the matrix `x` in float32, and where the estimator blocks gradients, None being nowhere. `records`: the step
        counts for later scales."""
        if self.cast is None or x.numel() == 0:
            return x.to(torch.float32, copy=self.cast is not None), None
        signs = bits.signs(self.name)
        amax = self.history.next() if self.history else None
        cast = self.cast._unscaled() if amax == 0 else self.cast
        values, seen = round_rows(cast, x, bits.rounding(self.site), signs, amax or None)
        if self.history and records:
            self.history.record(seen["amax"])
        return values, self._blocked(cast, x, bits, amax or None) if self.estimates else None

    def _blocked(self, cast: Cast, x: Tensor, bits: Bits, amax: float | None) -> Tensor:
        """Where the estimator blocks gradients."""
        x, signs = x.detach().to("cpu", torch.float32).contiguous().numpy(), bits.signs(self.name)
        if self.ste == "relu":
            return torch.from_numpy(self.cast._rotate(x, signs) <= 0)
        _, scaled = cast._round(x, bits.rounding(self.site), signs, amax)
        return torch.from_numpy(cast._is_clipped(scaled))

    def gradient(self, dx: Tensor, blocked: Tensor | None, bits: Bits) -> Tensor:
        """The gradient of the operand, a matrix in float32, from that of its values."""
        if blocked is not None:
            dx = dx.masked_fill(blocked.to(dx.device), 0.0)
        if self.transform is None:
            return dx
        rotated = self.cast._rotate(dx.cpu().contiguous().numpy(), bits.signs(self.name), back=True)
        return torch.from_numpy(rotated).to(dx.device)


class Uses:
    """All uses of a layer's operands."""

    def __init__(self, recipe: Recipe, layer: str) -> None:
        if recipe._core.has_schedule():
            raise ValueError(
                "the recipe changes during a run ([[quant.schedule]]), which a layer cannot follow\n"
                "hint: remove the schedule, or make a layer for the casts of each phase"
            )
        self.layer = layer
        self.of: dict[str, Use] = {}
        self.sites = 0
        for name in NAMES:
            cast, source, ste = recipe.cast(name, layer)
            # Of an excluded layer no use is rounded.
            source = "reuse" if name in FIRST and source == "first" else source
            self.of[name] = Use(name, cast, source, ste, self.sites)
            self.sites += cast is not None and source != "reuse"
        self._check(layer)

    def __getitem__(self, name: str) -> Use:
        return self.of[name]

    def _check(self, layer: str) -> None:
        """Refuses transforms that do not cancel in a product, as a run does."""
        pairs = [("activation", "weight"), ("grad", "weight_dgrad"), ("grad_wgrad", "activation_wgrad")]
        for a, b in pairs:
            if self[a].transform != self[b].transform:
                raise ValueError(f"the operands {a} and {b} of one product are transformed differently in {layer!r}")
        for second, first in FIRST.items():
            refused = ("reuse",) if first == "grad" and second == "grad_wgrad" else ("hp",)
            if self[first].transform is not None and self[second].source in refused:
                raise ValueError(f"the source of {second} is {self[second].source!r}, and {first} is transformed")

    def check_sizes(self, rows: int, inputs: int, outputs: int, backward: bool) -> None:
        """Refuses an input whose products contract over no whole number of transformed groups."""
        over = {0: (inputs, "in_features"), 1: (outputs, "out_features"), 2: (rows, "rows of the input")}
        for name, use in self.of.items():
            product = NAMES[name]
            if use.transform is None or product == 3 or (product > 0 and not backward):
                continue
            (size, _), (length, what) = use.transform, over[product]
            if length % size:
                advice = (
                    f"choose a number of rows (sequences times their length) that is a multiple of {size}"
                    if product == 2
                    else "leave the layer out with `filter_fn` or `exclude`"
                )
                raise ValueError(
                    f"the transform of {name} in the layer {self.layer!r} has groups of {size}, which do not divide the "
                    f"{length} {what}\nhint: {advice}"
                )

    @property
    def rounds(self) -> bool:
        """True if any operand is rounded."""
        return any(use.cast is not None for use in self.of.values())

    @property
    def depends_on_steps(self) -> bool:
        """True if the values of an operand depend on the number of the step, or on earlier steps."""
        return any(use.depends_on_steps for use in self.of.values())

    def second(self, name: str, x: Tensor | None, first: Tensor, bits: Bits, records: bool) -> Tensor:
        """The values of a second use, `[groups, a, b]`: from the tensor `x` in high precision, or from the values of the first use."""
        use = self[name]
        if use.source == "reuse":
            return first
        turned = (first if use.source == "dequantized" else x).mT
        return use.round(turned.flatten(0, 1), bits, records)[0].view(turned.shape).mT

    def state(self) -> dict[str, Any]:
        """The magnitudes of earlier steps by use."""
        kept = {name: use.history for name, use in self.of.items() if use.history}
        return {name: [history.kept, *history.amax] for name, history in kept.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over the magnitudes of `state`."""
        for name, (kept, *amax) in state.items():
            history = self[name].history
            if history is None:
                raise ValueError(f"the state has magnitudes of earlier steps of {name}, whose scales do not use them")
            history.kept, history.amax = kept, amax
