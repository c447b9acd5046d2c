"""Time of casting float32 to E4M3 and back to values, and to codes: this package, ml_dtypes, gfloat and PyTorch, in turn, on one
thread.

    python python/benchmarks/speed.py      # packages that are missing are left out
"""

import os

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import time

import numpy as np

import altgrad

ELEMENTS, ROUNDS = 1 << 22, 15
# gfloat is slow: it gets a part of the array.
SLOW = 16


def candidates(x):
    """Name, function and elements of every implementation, by what it computes."""
    form = altgrad.Format("E4M3")
    altgrad.set_threads(1)
    yield "codes", "altgrad", lambda: form.quantize(x), x.size
    yield "values", "altgrad", lambda: form.fake_quant(x), x.size
    try:
        import ml_dtypes

        dtype = ml_dtypes.float8_e4m3fn
        yield "codes", "ml_dtypes", lambda: x.astype(dtype), x.size
        yield "values", "ml_dtypes", lambda: x.astype(dtype).astype(np.float32), x.size
    except ImportError:
        print("ml_dtypes is missing")
    try:
        import torch

        torch.set_num_threads(1)
        tensor = torch.from_numpy(x)
        yield "codes", "PyTorch", lambda: tensor.to(torch.float8_e4m3fn), x.size
        yield "values", "PyTorch", lambda: tensor.to(torch.float8_e4m3fn).float(), x.size
    except ImportError:
        print("PyTorch is missing")
    try:
        import gfloat
        from gfloat.formats import format_info_ocp_e4m3 as info

        part = x[: x.size // SLOW].astype(np.float64)
        yield "values", "gfloat", lambda: gfloat.round_ndarray(info, part, sat=True), part.size
        rounded = gfloat.round_ndarray(info, part, sat=True)
        yield "codes", "gfloat", lambda: gfloat.encode_ndarray(info, rounded), part.size
    except ImportError:
        print("gfloat is missing")


def main():
    x = np.random.default_rng(0).normal(size=ELEMENTS).astype(np.float32)
    every = list(candidates(x))
    best = {}
    # In turn, so that other work on the machine disturbs all alike; the fastest round counts.
    for _ in range(ROUNDS):
        for what, name, call, elements in every:
            start = time.perf_counter()
            call()
            seconds = (time.perf_counter() - start) / elements
            best[what, name] = min(seconds, best.get((what, name), seconds))
    print("| result | package | ns per element | time over altgrad's |")
    print("|---|---|---:|---:|")
    for (what, name), seconds in sorted(best.items()):
        print(f"| {what} | {name} | {seconds * 1e9:.2f} | {seconds / best[what, 'altgrad']:.2f} |")


if __name__ == "__main__":
    main()
