"""Number formats: their list, their plugins, and rounding of arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays, _core

_FOLDER = Path(__file__).parent / "plugins"
_shipped: _core.Plugins | None = None
_loaded: dict[str, _core.Plugins] = {}


def _of_package() -> _core.Plugins:
    global _shipped
    if _shipped is None:
        _shipped = _core.Plugins(folder=os.fspath(_FOLDER))
    return _shipped


def _names(plugins: _core.Plugins) -> list[str]:
    return [name for kind, name in plugins.names() if kind == "format"]


def formats() -> list[str]:
    """The names of all formats: those of the package, then those of `load`."""
    names = _names(_of_package())
    return names + [name for name in _loaded if name not in names]


def load(path: str | os.PathLike[str]) -> list[str]:
    """Makes the formats of a plugin library available, and returns their names.

    The library runs with the rights of this process: load only libraries that you trust. A format of the same name
    replaces that of the package for formats made later.

    Raises PluginError if the library is missing, damaged, or built for another version of the plugin interface.
    Raises ValueError if it has no format: optimizers and sinks are for altgrad-host.
    """
    plugins = _core.Plugins(load=[os.fspath(Path(path).absolute())])
    names = _names(plugins)
    if not names:
        raise ValueError(f"{path} has no format")
    for name in names:
        plugins.format(name)
    _loaded.update(dict.fromkeys(names, plugins))
    return names


class Unchanging:
    """Objects that never change: a copy is the object itself."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


class Format(Unchanging):
    """A number format: `Format("E4M3")`, `Format("E3M4", variant="ieee")` or `Format("E3M4:ieee")`.

    Arrays are arrays of NumPy, CPU tensors of PyTorch, and all objects with DLPack or the buffer protocol. Float32 is
    read without a copy if it is C-contiguous; float16 and bfloat16 are converted. Results are new arrays of the
    same shape: tensors for tensors, else arrays of NumPy. Calls release the interpreter's lock and use all threads
    (`set_threads`). A pickled format is read only where its name has the same library.

    Raises ValueError for an unknown format or variant, TypeError for a name that is no string.
    """

    def __init__(self, name: str, variant: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a format must be a string, found {name!r}")
        full = name if variant is None else f"{name}:{variant}"
        plugins = _loaded.get(name.split(":")[0]) or _of_package()
        self._core: _core.Format = plugins.format(full)
        self._info: dict[str, Any] = self._core.info()
        self._stairs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._info["variants"] = plugins.variants(name.split(":")[0])

    def __repr__(self) -> str:
        return f"altgrad.Format({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.name, self._info["library"], self._info["sha256"])

    @property
    def name(self) -> str:
        """The name, with the variant."""
        return self._info["name"]

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self._info["bits"]

    @property
    def info(self) -> dict[str, Any]:
        """Facts: name, bits, largest and smallest positive value, amax_target, summary, version, library, sha256 (of the
        library), variants; for minifloats also exponent_bits, significand_bits, bias and domain."""
        return dict(self._info)

    @property
    def table(self) -> np.ndarray:
        """The value of every code: float32, shape `(2**bits,)`."""
        values = np.empty(1 << self.bits, dtype=np.float32)
        self._core.table(values)
        return values

    def _steps(self, rounding: str) -> tuple[np.ndarray, np.ndarray]:
        """Rounding in a mode without random bits as steps: for each finite value but the least, the smallest f32 that is rounded to it;
        and the values in order."""
        if rounding not in self._stairs:
            table = self.table
            # The sum turns -0 into 0.
            points = np.unique(table[np.isfinite(table)] + np.float32(0))
            below, above = _ordered(points[:-1]), _ordered(points[1:])
            while (above - below > 1).any():
                middle = (below + above) // 2
                reaches = self.fake_quant(_of_order(middle), rounding=rounding) >= points[1:]
                below, above = np.where(reaches, below, middle), np.where(reaches, middle, above)
            self._stairs[rounding] = _of_order(above), points
        return self._stairs[rounding]

    def scales(self, x: Any, *, axis: int = -1, block: Any = None) -> np.ndarray:
        """Scales that map the largest magnitude of each block to the format's target: `target / amax`, within the limits of
        docs/numerics.md, section 4.1, and 1 for blocks of zeros. Shape: `()` without blocks, else that of `x` with
        blocked axes divided, rounded up."""
        array, _ = _arrays.floats(x)
        amax = _arrays.Blocks(array.shape, block, axis).amax(array)
        scales = np.empty(amax.shape, dtype=np.float32)
        self._core.scales(np.ascontiguousarray(amax).reshape(-1), scales.reshape(-1))
        return scales

    def fake_quant(
        self,
        x: Any,
        *,
        rounding: str = "nearest-even",
        scale: Any = 1.0,
        axis: int = -1,
        block: Any = None,
        key: Any = 0,
        stats: bool = False,
    ) -> Any:
        """Rounds `x` to values of the format: float32, in the shape of `x`.

        rounding: nearest-even, nearest-away, toward-zero or stochastic.
        scale: what values are multiplied by before rounding; results are multiplied by the inverse. A positive number,
            an array with a scale for each block, or "max": `scales(x, axis=axis, block=block)`.
        block: None (the whole array), "row" (all of `axis`), a number of elements along `axis`, or a tile (rows,
            columns) of the last two axes.
        key: where stochastic rounding takes its bits: a seed, or (seed, step, tensor). An element's bits depend on the key and
            its index in C order only.
        stats: also returns a dictionary: elements, amax, overflow, underflow, nan, nonzero, sum_x2, sum_err2,
            sum_x_xhat.

        Raises TypeError for another type, ValueError for a wrong argument, PluginError if the plugin fails.
        """
        _arrays.warn_of_detachment(x, "altgrad.torch.fake_quant does")
        array, back = _arrays.floats(x)
        if isinstance(scale, str):
            if scale != "max":
                raise ValueError(f"scale must be a number, an array or 'max', found {scale!r}")
            scale = self.scales(array, axis=axis, block=block)
        blocks = _arrays.Blocks(array.shape, block, axis)
        result = np.empty(array.shape, dtype=np.float32)
        scales, drawn = blocks.scales(scale), _arrays.key(key)
        seen = self._core.fake_quant(
            array.reshape(-1), result.reshape(-1), scales, blocks.core, rounding, drawn
        )
        return (back(result), seen) if stats else back(result)

    def quantize(
        self,
        x: Any,
        *,
        rounding: str = "nearest-even",
        scale: Any = 1.0,
        axis: int = -1,
        block: Any = None,
        key: Any = 0,
        stats: bool = False,
    ) -> Any:
        """Rounds `x` to codes of the format: uint8 for up to 8 bits, else uint16, in the shape of `x`.

        Arguments and errors are those of `fake_quant`, but scales are numbers or arrays. NaN in a format without NaN
        raises PluginError.
        """
        array, back = _arrays.floats(x)
        if isinstance(scale, str):
            raise ValueError("dequantize needs the same scales; compute them with Format.scales")
        blocks = _arrays.Blocks(array.shape, block, axis)
        scales, drawn = blocks.scales(scale), _arrays.key(key)
        result = np.empty(array.shape, dtype=_arrays.code_type(self.bits))
        self._core.encode(array.reshape(-1), result.reshape(-1), scales, blocks.core, rounding, drawn)
        if not stats:
            return back(result)
        spare = np.empty(array.size, dtype=np.float32)
        seen = self._core.fake_quant(array.reshape(-1), spare, scales, blocks.core, rounding, drawn)
        return back(result), seen

    def dequantize(self, codes: Any, *, scale: Any = 1.0, axis: int = -1, block: Any = None) -> Any:
        """The values of codes, times the inverses of the scales: float32, in the shape of `codes`. E4M3 and E5M2 also take
        arrays of float8_e4m3fn and float8_e5m2.

        Raises TypeError unless codes are uint8 (up to 8 bits) or uint16, ValueError for a code beyond the last.
        """
        array, back = _arrays.codes(codes, self.bits, self.name)
        blocks = _arrays.Blocks(array.shape, block, axis)
        result = np.empty(array.shape, dtype=np.float32)
        self._core.decode(array.reshape(-1), result.reshape(-1), blocks.scales(scale), blocks.core)
        return back(result)


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of f32 numbers."""
    bits = x.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF_FFFF), bits)


def _of_order(order: np.ndarray) -> np.ndarray:
    bits = np.where(order < 0, -order | 0x8000_0000, order)
    return bits.astype(np.uint32).view(np.float32)


def _unpickled(name: str, library: str, sha256: str) -> Format:
    """The format that was pickled under this name, of a library with this sha256."""
    form = Format(name)
    if form._info["sha256"] != sha256:
        raise ValueError(
            f"the format {name} was pickled from {library}; here it is that of {form._info['library']}, another build\n"
            "hint: make the first library available with altgrad.load, or make the object again"
        )
    return form
