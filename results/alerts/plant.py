"""Plants outliers into initial weights: python3 results/alerts/plant.py WEIGHTS TO

WEIGHTS is what `altgrad-host weights export results/alerts/base.toml --to WEIGHTS` writes. In TO, one input channel of each
block's queries, keys and values and of its first MLP matrix is 300 times larger.
"""

import json
import pathlib
import struct
import sys

CHANNEL = 5
FACTOR = 300.0


def main(weights, to):
    data = bytearray(pathlib.Path(weights).read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        if not name.endswith(("mlp.c_fc.weight", "attn.c_attn.weight")):
            continue
        height, width = entry["shape"]
        for row in range(height):
            at = 8 + length + entry["data_offsets"][0] + 4 * (row * width + CHANNEL)
            (value,) = struct.unpack_from("<f", data, at)
            struct.pack_into("<f", data, at, value * FACTOR)
    pathlib.Path(to).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(to).write_bytes(data)


main(*sys.argv[1:])
