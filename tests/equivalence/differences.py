#!/usr/bin/env python3
"""What differs between the outputs of two builds: `differences.py OLD NEW`, the folders that fixed-runs.sh filled.

Hashes of whole files say that something changed; this says what. Run files: the lines. Tables: rows, columns that came or went, and the
columns whose values changed, with the first pair. Weights and checkpoints: whether each tensor has the same type, shape and bytes; their
embedded run file is not compared. Exits 1 if a tensor or a number of a column in both tables differs.
"""

import csv
import difflib
import hashlib
import json
import struct
import sys
from pathlib import Path


def tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: (tensor["dtype"], tensor["shape"], hashlib.sha256(body[slice(*tensor["data_offsets"])]).hexdigest())
        for name, tensor in header.items()
    }


def is_number(text):
    """True for a number, and for the counts of a histogram."""
    try:
        for part in text.split():
            float(part)
    except ValueError:
        return False
    return True


def of_tables(old, new):
    """What to print, and whether a number differs."""
    old, new = (list(csv.reader(path.open())) for path in (old, new))
    parts = []
    if len(old) != len(new):
        parts.append(f"{len(old)} rows, now {len(new)}")
    if gone := [column for column in old[0] if column not in new[0]]:
        parts.append(f"columns gone: {gone}")
    if come := [column for column in new[0] if column not in old[0]]:
        parts.append(f"columns new: {come}")
    numbers = len(old) != len(new)
    for column in (column for column in old[0] if column in new[0]):
        at = old[0].index(column), new[0].index(column)
        changed = [(a[at[0]], b[at[1]]) for a, b in zip(old[1:], new[1:]) if a[at[0]] != b[at[1]]]
        if changed:
            numbers = numbers or any(is_number(a) or is_number(b) for a, b in changed)
            first = " -> ".join(value[:40] for value in changed[0])
            parts.append(f"{column}: {len(changed)} values, {len(set(changed))} different pairs, first {first}")
    return parts, numbers


def of_tensors(old, new):
    old, new = tensors(old), tensors(new)
    differ = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{len(differ)} of {len(old)} tensors differ: {differ[:3]}" if differ else f"all {len(old)} tensors equal"], bool(differ)


def of_text(old, new):
    lines = difflib.unified_diff(old.read_text().splitlines(), new.read_text().splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("@@", "---", "+++"))], False


def main(old, new):
    hashes = [dict(reversed(line.split()) for line in (folder / "manifest.txt").open()) for folder in (old, new)]
    numbers = False
    for name in sorted(hashes[0].keys() | hashes[1].keys()):
        if hashes[0].get(name) == hashes[1].get(name):
            continue
        if not all(name in files for files in hashes):
            print(f"{name}: only in one folder")
            numbers = True
            continue
        compare = {".csv": of_tables, ".safetensors": of_tensors}.get(Path(name).suffix, of_text)
        parts, changed = compare(old / name, new / name)
        numbers = numbers or changed
        print(f"{name}: {'; '.join(parts)}")
    print("numbers differ" if numbers else "no number differs")
    return numbers


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*map(Path, sys.argv[1:])))
