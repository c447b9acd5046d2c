"""Held-out losses of a sweep as CSV: python3 results/losses.py SWEEP COLUMN... [>> FILE]

SWEEP is a sweep's folder, such as runs/recipes. Each COLUMN is an axis of its matrix, or a text after `=`, the same in all rows. A row has these
columns, the seed and the loss of a completed run; a run that diverged has NaN.
"""

import json
import pathlib
import sys


def main(folder, *columns):
    result = json.loads((pathlib.Path(folder) / "sweep.json").read_text())
    for run in result["runs"]:
        if run["state"] in ("missing", "broken"):
            continue
        cells = [column[1:] if column.startswith("=") else str(run["axes"][column]) for column in columns]
        loss = run["final_val_loss"] if run["state"] == "completed" else None
        print(",".join([*cells, str(run["axes"]["run.seed"]), "NaN" if loss is None else f"{loss:.6f}"]))


main(*sys.argv[1:])
