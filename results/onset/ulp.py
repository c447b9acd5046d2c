"""Moves one initial weight by one unit in the last place: python3 results/onset/ulp.py WEIGHTS TO

WEIGHTS is what `altgrad-host weights export RUN_FILE --to WEIGHTS` writes. In TO, the first element of the embedding is the next f32.
"""

import json
import pathlib
import struct
import sys


def main(weights, to):
    data = bytearray(pathlib.Path(weights).read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    embedding = next(entry for name, entry in header.items() if name.endswith("wte.weight"))
    at = 8 + length + embedding["data_offsets"][0]
    (bits,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, bits + 1)
    pathlib.Path(to).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(to).write_bytes(data)


main(*sys.argv[1:])
