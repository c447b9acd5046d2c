"""Changes initial weights: python3 results/claims/plant.py gains|swiglu WEIGHTS TO

`gains` draws the gains of all norms uniformly from (0.88, 0.99). `swiglu` sets, in 8 channels of each block, the rows of the gate and
of the linear half of `mlp.c_fc` to one random direction of norm 6, so that the product of both halves has outliers.
WEIGHTS is what `altgrad-host weights export` writes.
"""

import json
import pathlib
import random
import struct
import sys

CHANNELS = 8
NORM = 6.0


def write(data, at, values):
    struct.pack_into(f"<{len(values)}f", data, at, *values)


def gains(data, at, shape, draw):
    write(data, at, [draw.uniform(0.88, 0.99) for _ in range(shape[0])])


def swiglu(data, at, shape, draw):
    height, width = shape
    for channel in range(CHANNELS):
        direction = [draw.gauss(0.0, 1.0) for _ in range(width)]
        length = sum(x * x for x in direction) ** 0.5
        for row in (channel, channel + height // 2):
            write(data, at + 4 * width * row, [NORM * x / length for x in direction])


KINDS = {
    "gains": (lambda name: ".ln_" in name or name.startswith("ln_"), gains),
    "swiglu": (lambda name: name.endswith("mlp.c_fc.weight"), swiglu),
}


def main(kind, weights, to):
    matches, change = KINDS[kind]
    data, draw, changed = bytearray(pathlib.Path(weights).read_bytes()), random.Random(1), 0
    (length,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and matches(name):
            change(data, 8 + length + entry["data_offsets"][0], entry["shape"], draw)
            changed += 1
    pathlib.Path(to).write_bytes(data)
    print(f"{changed} tensors changed")


main(*sys.argv[1:])
