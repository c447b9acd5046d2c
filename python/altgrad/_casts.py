"""Casts of matrices, and the casts that recipes and run files give the operands of linear layers."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _core
from ._formats import Format, Unchanging


@dataclass(frozen=True)
class Applied:
    """A matrix after a cast. With a transform, values are those of the transformed matrix. One without elements has no scales."""

    values: Any
    """float32, in the shape of the matrix."""
    codes: np.ndarray
    """uint8 or uint16, in the shape of the matrix."""
    scales: np.ndarray
    """The decode scale of each block: float32, each axis divided by the block's extent."""
    scale_codes: np.ndarray | None
    """The same as bytes, if they are stored as E8M0 or E4M3."""
    tensor_scale: float | None
    """The decode scale of the tensor, if there is one."""
    overflow: int
    """Elements beyond the format's largest value, which saturate."""
    outer_scales: np.ndarray | None = None
    """The decode scale of each outer block, if there are such scales, row-major."""
    microexponents: np.ndarray | None = None
    """The exponent of the factor of each of the smallest sub-blocks, if there are any: uint8, row-major."""


class Cast(Unchanging):
    """A cast from its text: a format, or keys as in a run file.

    `Cast("E4M3")`, `Cast('format = "E4M3", block = 32, scaling = { type = "e8m0", rule = "floor" }')`

    Raises ValueError for unknown keys, and for keys that exclude each other.
    """

    def __init__(self, text: str) -> None:
        self._set(_core.Cast(text), Cast, text)

    def _set(self, core: _core.Cast, make: Callable[..., Cast], *arguments: Any) -> Cast:
        """`make(*arguments)` gives this cast again."""
        self._core = core
        self._made = make, arguments
        self.format = Format(core.format)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return *self._made, {"format": self.format}

    def __repr__(self) -> str:
        return f"<altgrad.Cast to {self.format.name}>"

    @property
    def transforms(self) -> bool:
        """True if a Hadamard transform comes before the rounding."""
        return self._core.transform is not None

    def apply(self, x: Any, *, axis: str = "rows", key: Any = 0, amax: float | None = None) -> Applied:
        """Applies the cast to a matrix of two dimensions. `axis` is that of blocks and transforms: the contraction of
        the product in which the matrix is used; "rows" if blocks run within a row, "columns" within a column.
        `amax` replaces the largest magnitude of the matrix in its scale, such as that of earlier steps (delayed scaling). With
        `center = "tokens"` the rows are tokens, in the casts of a recipe for the gradient of a weight what runs along `axis`;
        codes and scales are then those of the residuals, values include the mean.

        Raises TypeError for another type, ValueError for a shape or axis that the cast does not allow.
        """
        _arrays.warn_of_detachment(x, "altgrad.torch.fake_quant does")
        array, back = _arrays.floats(x)
        if array.ndim != 2:
            raise ValueError(f"a cast takes a matrix of two dimensions, got the shape {array.shape}")
        if axis not in ("rows", "columns"):
            raise ValueError(f"axis must be 'rows' or 'columns', found {axis!r}")
        values = np.empty_like(array)
        if array.size == 0:
            codes = np.empty(array.shape, dtype=_arrays.code_type(self.format.bits))
            return Applied(back(values), codes, np.empty((0, 0), dtype=np.float32), None, None, 0)
        drawn, along_rows = _arrays.key(key), axis == "rows"
        rows, core = array.shape[0], self.format._core
        seen = self._core.apply(core, array, values, rows, along_rows, drawn, drawn, amax, False)
        codes = np.frombuffer(seen["codes"], dtype=np.uint16).reshape(array.shape)
        scales = np.frombuffer(seen["scales"], dtype=np.float32).reshape(seen["scale_shape"])
        stored = seen["scale_codes"]
        if stored is not None:
            stored = np.frombuffer(stored, dtype=np.uint8).reshape(seen["scale_shape"])
        codes = codes.astype(_arrays.code_type(self.format.bits))
        if seen["collapsed"]:
            warnings.warn(
                f"{seen['collapsed']} blocks of about equal values became about 0: rule rms scales by their standard "
                "deviation about the mean; use a transform before it, or rule floor",
                stacklevel=2,
            )
        outer = seen["outer_scales"]
        outer = None if outer is None else np.frombuffer(outer, dtype=np.float32)
        micro = seen["microexponents"]
        micro = None if micro is None else np.frombuffer(micro, dtype=np.uint8)
        return Applied(back(values), codes, scales, stored, seen["tensor_scale"], seen["overflow"], outer, micro)

    def _round(
        self, x: np.ndarray, key: tuple[int, int, int], signs: tuple[int, int, int], amax: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Values of a matrix with blocks along its rows, and its scaled elements. `signs` is the key of a transform's signs."""
        values = np.empty_like(x)
        seen = self._core.apply(self.format._core, x, values, x.shape[0], True, key, signs, amax, True)
        scaled = np.frombuffer(seen["scaled"], dtype=np.float32).reshape(x.shape)
        # Formats without NaN round 1.5 in its place.
        return values, np.where(np.isnan(values), values, scaled)

    def _is_clipped(self, scaled: np.ndarray) -> np.ndarray:
        """Whether scaled elements lie beyond the format's largest value, where the clipped estimator blocks the gradient."""
        return _arrays.beyond(scaled, self.format.info["largest"])

    def _rotate(self, x: np.ndarray, signs: tuple[int, int, int], *, back: bool = False) -> np.ndarray:
        """The rows transformed, or the inverse; unchanged if the cast has no transform."""
        if not self.transforms:
            return x
        rotated = np.empty_like(x)
        self._core.rotate(x, rotated, x.shape[-1], signs, back)
        return rotated

    def _unscaled(self) -> Cast:
        """The cast with scale 1 of the tensor: blocks below it keep their scales."""
        return Cast.__new__(Cast)._set(self._core.unscaled(), Cast._unscaled, self)


class Recipe(Unchanging):
    """The casts of linear layers: `Recipe("mxfp8")`, a shipped recipe, `Recipe.from_toml(text)` with a table `[quant]`, or
    `Recipe.from_run_file(path)`. Relative paths in a text start at the working directory, those in a run file at its folder.

    Raises ValueError for an unknown recipe or a wrong table.
    """

    def __init__(self, name: str) -> None:
        self._core = _core.Recipe(f"[quant]\nrecipe = {json.dumps(name, ensure_ascii=False)}\n")

    def __reduce__(self) -> tuple[Any, ...]:
        return Recipe.from_toml, (self._core.text(),)

    @classmethod
    def from_toml(cls, text: str) -> Recipe:
        """The table `[quant]` of a text."""
        recipe = cls.__new__(cls)
        recipe._core = _core.Recipe(text)
        return recipe

    @classmethod
    def from_run_file(cls, path: str | os.PathLike[str]) -> Recipe:
        """The table `[quant]` of a run file."""
        recipe = cls.__new__(cls)
        recipe._core = _core.Recipe.of_run_file(os.fspath(path))
        return recipe

    @staticmethod
    def names() -> dict[str, str]:
        """The shipped recipes and their texts."""
        return dict(_core.recipes())

    def cast(self, use: str, layer: str = "") -> tuple[Cast | None, str, str]:
        """The cast of one use of an operand (weight, activation, grad, weight_dgrad, activation_wgrad, grad_wgrad or
        weight_grad) in the layer of this name; its source (first, reuse, hp or dequantized); the straight-through
        estimator. Without a cast, the use is not rounded. The changes of `[[quant.schedule]]` are left out. `Cast.apply` of a cast
        with delayed scales takes the scale from the matrix itself, unless it is given the magnitude of earlier steps.

        Raises ValueError for an unknown use, and for delayed scales of blocks.
        """
        core, source, ste = self._core.cast(use, layer)
        cast = None if core is None else Cast.__new__(Cast)._set(core, _cast_of, self, use, layer)
        return cast, source, ste


def _cast_of(recipe: Recipe, use: str, layer: str) -> Cast | None:
    return recipe.cast(use, layer)[0]
