"""Time of rounded layers over that of the plain layer, forward and backward, in turn, and of observed steps over unobserved ones.

    python python/benchmarks/layers.py [THREADS]
"""

import sys
import time

import altgrad
import altgrad.torch as quantized
import torch
from torch import nn

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
TOKENS, WIDTH, OUT, ROUNDS = 1024, 768, 3072, 7
RECIPES = ("te_current", "te_delayed", "mxfp8", "nvfp4")


def times(candidates):
    """The fastest round of each, in seconds."""
    best = dict.fromkeys(candidates, float("inf"))
    for round_ in range(ROUNDS + 1):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            if round_:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def pass_of(layer):
    x, g = torch.randn(TOKENS, WIDTH, requires_grad=True), torch.randn(TOKENS, OUT)
    return lambda: layer(x).backward(g)


def step_of(observes):
    model = nn.Sequential(nn.Linear(WIDTH, OUT), nn.GELU(), nn.Linear(OUT, WIDTH))
    x = torch.randn(TOKENS, WIDTH)

    def run():
        model(x).square().mean().backward()

    def watched():
        with quantized.observe(model, observes):
            run()

    return watched if observes else run


def main():
    torch.set_num_threads(THREADS)
    altgrad.set_threads(THREADS)
    plain = nn.Linear(WIDTH, OUT)
    layers = {"plain": plain} | {name: quantized.QuantLinear.from_linear(plain, recipe=name) for name in RECIPES}
    found = times({name: pass_of(layer) for name, layer in layers.items()})
    print(f"{TOKENS} x {WIDTH} -> {OUT}, {THREADS} threads")
    for name, seconds in found.items():
        print(f"{name:12} {seconds * 1e3:8.1f} ms  {seconds / found['plain']:5.2f}")
    found = times({str(observes): step_of(observes) for observes in ((), ("E4M3",), ("E4M3", "mxfp8"))})
    for name, seconds in found.items():
        print(f"observed {name:22} {seconds * 1e3:8.1f} ms  {seconds / found['()']:5.2f}")


main()
