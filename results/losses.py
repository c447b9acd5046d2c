"""Held-out losses of a sweep as CSV: python3 results/losses.py SWEEP COLUMN... [>> FILE]

SWEEP is a sweep's folder, such as runs/recipes. Each COLUMN is an axis of its matrix, or a text after `=`, the same in all rows; it is empty
where a run lacks the axis. A row has these columns, the seed and the loss of a run that has ended: NaN if it diverged or failed.
"""

import csv
import json
import math
import pathlib
import sys


def ended(sweep):
    """The runs of a sweep that have ended, each with its folder and its loss as text."""
    for run in json.loads((pathlib.Path(sweep) / "sweep.json").read_text())["runs"]:
        if run["state"] not in ("missing", "broken"):
            loss = run["final_val_loss"] if run["state"] == "completed" else None
            loss = math.nan if loss is None else loss
            yield run | {"folder": pathlib.Path(sweep) / run["name"], "loss": f"{loss:.6f}".replace("nan", "NaN")}


def rows_of(path):
    """The rows of a CSV file by column."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def mean(values):
    """The mean as text; empty without values."""
    values = list(values)
    return f"{sum(values) / len(values):.4f}" if values else ""


def write(path, head, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def main(sweep, *columns):
    for run in ended(sweep):
        cells = [column[1:] if column.startswith("=") else str(run["axes"].get(column, "")) for column in columns]
        print(",".join([*cells, str(run["axes"]["run.seed"]), run["loss"]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
