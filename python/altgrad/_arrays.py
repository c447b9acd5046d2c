"""Arrays of other libraries as C-contiguous NumPy arrays, and blocks of arrays of any shape."""

from __future__ import annotations

import ctypes
import operator
import sys
import warnings
from typing import Any, Callable

import numpy as np

# Types whose values are all f32 values, by name: ml_dtypes registers further ones with NumPy.
_EXACT = {"float16", "bfloat16"}
# Types of PyTorch and ml_dtypes whose bytes are the codes of a format.
_FLOAT8 = {"float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}


def _torch() -> Any:
    """The module torch, if the program has imported it."""
    return sys.modules.get("torch")


def _plain(x: Any) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """`x` as an array of NumPy, without a copy where possible, and the function that converts results back."""
    torch = _torch()
    if torch is not None and isinstance(x, torch.Tensor):
        if x.device.type != "cpu":
            raise TypeError(f"the tensor is on {x.device}; move it with `.cpu()` first")
        x = x.detach().resolve_neg()
        if x.dtype == torch.bfloat16:
            x = x.float()
        try:
            return x.numpy(), torch.from_numpy
        except TypeError:
            raise _other_type(str(x.dtype).removeprefix("torch.")) from None
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x), lambda result: result
    if hasattr(x, "__dlpack__"):
        try:
            return np.from_dlpack(x), lambda result: result
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            if not hasattr(x, "__array__"):
                array = _bfloat16(x)
                if array is None:
                    raise TypeError(f"the array cannot be read on the CPU: {error}") from None
                return array, lambda result: result
    if hasattr(x, "__array__"):
        return np.asarray(x), lambda result: result
    try:
        return np.asarray(memoryview(x)), lambda result: result
    except TypeError:
        message = f"expected an array, tensor or buffer of floats, got {type(x).__name__}"
        raise TypeError(message) from None


class _DLTensor(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _bfloat16(x: Any) -> np.ndarray | None:
    """A copy as float32 of an array of bfloat16 on the CPU, a type that NumPy does not read through DLPack; None for another."""
    try:
        capsule = x.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None
    # kDLBfloat on kDLCPU.
    if (tensor.code, tensor.bits, tensor.lanes, tensor.device_type) != (4, 16, 1, 1):
        return None
    shape = tuple(tensor.shape[: tensor.ndim])
    if 0 in shape:
        return np.zeros(shape, dtype=np.float32)
    in_order = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else in_order
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    first, last = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    start = tensor.data + tensor.byte_offset + 2 * first
    flat = np.frombuffer((ctypes.c_uint16 * (last - first + 1)).from_address(start), dtype=np.uint16)
    bits = np.lib.stride_tricks.as_strided(flat[-first:], shape, [2 * stride for stride in strides])
    # The upper half of an f32.
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _other_type(name: str) -> TypeError:
    """The error for a type that is not converted."""
    format_name = _FLOAT8.get(name)
    reads = f'Format("{format_name}").dequantize reads them' if format_name else "view them as uint8"
    hint = f"\nhint: its bytes are codes: {reads}; or convert the values to float32" if "float8" in name else ""
    return TypeError(f"expected float32, float16 or bfloat16, got {name}; convert it first{hint}")


def warn_of_detachment(x: Any, instead: str) -> None:
    """Warns that the result for a tensor of PyTorch passes no gradient."""
    torch = _torch()
    if torch is not None and isinstance(x, torch.Tensor) and x.requires_grad and torch.is_grad_enabled():
        warnings.warn(f"the result passes no gradient to the tensor; {instead}", stacklevel=3)


def floats(x: Any) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """`x` as a C-contiguous array of f32, and the function that converts results back.

    Raises TypeError for other types than float32, float16 and bfloat16: converting them would round once more.
    """
    array, back = _plain(x)
    if array.dtype.newbyteorder("=") != np.float32:
        if array.dtype.name not in _EXACT:
            raise _other_type(str(array.dtype))
    return _aligned(array, np.float32), back


def codes(x: Any, bits: int, name: str) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """`x` as a C-contiguous array of codes of the format `name`: uint8 for up to 8 bits, else uint16.

    Raises TypeError for other types, and ValueError for a code beyond the last.
    """
    own_type = str(getattr(x, "dtype", "")).removeprefix("torch.")
    if _FLOAT8.get(own_type) == name:
        torch = _torch()
        is_tensor = torch is not None and isinstance(x, torch.Tensor)
        x = x.detach().view(torch.uint8) if is_tensor else x.view(np.uint8)
    array, back = _plain(x)
    dtype = code_type(bits)
    if array.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"expected codes of type {dtype.name}, got {array.dtype}")
    if bits not in (8, 16) and array.size and int(array.max()) >= 1 << bits:
        raise ValueError(f"code {int(array.max())} is beyond the last, {(1 << bits) - 1}")
    return _aligned(array, dtype), back


def _aligned(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array in C order and aligned, a copy only where it is neither; its shape stays, also of a single number."""
    return np.require(array, dtype, ["C", "A"]).reshape(array.shape)


def code_type(bits: int) -> np.dtype:
    """The type of codes of this many bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16)


def _whole(value: Any, what: str) -> int:
    """An integer; another number is refused, not truncated."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, found {value!r}") from None


class Blocks:
    """How an array is cut into blocks that share a scale.

    `shape` is that of the array of scales, `core` the description for the compiled half. Raises ValueError if the
    blocks do not suit the array, TypeError for an axis or extents that are not integers.
    """

    def __init__(self, shape: tuple[int, ...], block: Any, axis: int) -> None:
        elements = int(np.prod(shape, dtype=np.int64))
        self.full = shape
        if block is None or len(shape) == 0:
            self.shape: tuple[int, ...] = ()
            self.extents: tuple[int, ...] = shape
            self.core = _core_blocks(1, max(elements, 1), 1, max(elements, 1))
            return
        axis = _whole(axis, "axis")
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"axis {axis} of an array of {len(shape)} dimensions")
        axis %= len(shape)
        if isinstance(block, (tuple, list)):
            self._tile(shape, block)
            return
        length = shape[axis]
        extent = length if block == "row" else block
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)) or (extent < 1 and length):
            raise ValueError(f"block must be None, 'row', a number above 0 or a tile (rows, columns), found {block!r}")
        extent = max(int(extent), 1)
        before, after = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1 :]))
        self.extents = tuple(extent if i == axis else 1 for i in range(len(shape)))
        self.shape = tuple(-(-length // extent) if i == axis else size for i, size in enumerate(shape))
        if after == 1:
            self.core = _core_blocks(1, max(length, 1), 1, extent)
        else:
            self.core = _core_blocks(max(before, 1), max(after, 1), extent, 1)

    def _tile(self, shape: tuple[int, ...], block: Any) -> None:
        extents = [_whole(size, "an extent of a tile") for size in block]
        if len(extents) != 2 or len(shape) < 2 or min(extents) < 1:
            raise ValueError(f"a tile has two extents above 0, and the array two dimensions; block is {block!r}")
        rows, columns = extents
        self.extents = (1,) * (len(shape) - 2) + (rows, columns)
        self.shape = shape[:-2] + (-(-shape[-2] // rows), -(-shape[-1] // columns))
        slabs = int(np.prod(shape[:-2], dtype=np.int64))
        self.core = _core_blocks(max(slabs, 1), max(shape[-1], 1), rows, columns)

    def scales(self, scale: Any) -> np.ndarray:
        """Scales of all blocks: one number for all of them, or an array of `shape`."""
        array = np.asarray(scale) if isinstance(scale, (int, float, list, tuple)) else _plain(scale)[0]
        if array.dtype.kind not in "fiu" and array.dtype.name not in _EXACT:
            raise TypeError(f"scales must be numbers, found {array.dtype}")
        if array.ndim and array.shape != self.shape:
            raise ValueError(f"scales have the shape {array.shape}, the blocks {self.shape}")
        full = np.broadcast_to(array.astype(np.float32), self.shape)
        return np.ascontiguousarray(full).reshape(-1)

    def spread(self, scales: np.ndarray) -> np.ndarray:
        """The scale of every element, for scales of `shape`."""
        if self.shape == ():
            return scales
        for axis, (extent, size) in enumerate(zip(self.extents, self.full, strict=True)):
            scales = np.repeat(scales, extent, axis=axis).take(range(size), axis=axis)
        return scales

    def amax(self, x: np.ndarray) -> np.ndarray:
        """The largest finite magnitude of each block, in `shape`; 0 where there is none."""
        magnitude = np.where(np.isfinite(x), np.abs(x), np.float32(0))
        if self.shape == ():
            return np.asarray(magnitude.max(initial=0.0), dtype=np.float32)
        for axis, extent in enumerate(self.extents):
            if magnitude.shape[axis] and extent > 1:
                starts = np.arange(0, magnitude.shape[axis], extent)
                magnitude = np.maximum.reduceat(magnitude, starts, axis=axis)
        return magnitude


def _core_blocks(slabs: int, columns: int, block_rows: int, block_columns: int) -> dict[str, int]:
    return {"slabs": slabs, "columns": columns, "block_rows": block_rows, "block_columns": block_columns}


def beyond(scaled: np.ndarray, largest: float) -> np.ndarray:
    """Whether magnitudes of scaled elements exceed the largest value by more than two steps of f32, the rounding of the scale. NaN
    does not."""
    limit = np.float32(largest)
    for _ in range(2):
        limit = np.nextafter(limit, np.float32(np.inf))
    return np.abs(scaled) > limit


def key(value: Any) -> tuple[int, int, int]:
    """A key of random bits: a seed, or (seed, step, tensor)."""
    parts = value if isinstance(value, (tuple, list)) else (value, 0, 0)
    if len(parts) != 3:
        raise ValueError("a key is a seed, or (seed, step, tensor)")
    seed, step, tensor = (_whole(part, "seed, step or tensor of a key") for part in parts)
    if not (0 <= seed < 1 << 64 and 0 <= step < 1 << 32 and 0 <= tensor < 1 << 32):
        raise ValueError("seed must lie in [0, 2^64), step and tensor in [0, 2^32)")
    return seed, step, tensor
