"""Records of the sweeps: python3 results/optimizers/record.py RUNS

RUNS is the folder of the sweeps' folders (`runs`). Writes losses.csv and rates.csv beside this file. Combinations that RUNS lacks keep
their recorded rows.
"""

import csv
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent

FORMATS = ["fp32", "e4m3", "e5m2", "e3m4", "e2m1", "e7m0"]


def sweeps(runs):
    """The result of each sweep that has one, by format."""
    files = ((name, pathlib.Path(runs) / f"optimizers-{name}" / "sweep.json") for name in FORMATS)
    return {name: json.loads(file.read_text()) for name, file in files if file.exists()}


def cell(name, axes):
    return ("fp32" if name == "fp32" else name.upper(), axes.get("storage", "fp32"), axes["optimizer"])


def losses(results):
    """Rows of losses.csv: runs that have ended; NaN for those that diverged or failed."""
    for name, result in results.items():
        for run in result["runs"]:
            if run["state"] not in ("missing", "broken"):
                loss = run["final_val_loss"] if run["state"] == "completed" else None
                yield (*cell(name, run["axes"]), run["axes"]["run.seed"], "NaN" if loss is None else f"{loss:.6f}")


def rates(results):
    """Rows of rates.csv: every trial, and whether its rate was chosen."""
    for name, result in results.items():
        for tuned in result.get("tuned", []):
            axes = tuned["group"].split("_")
            where = cell(name, dict(zip(("optimizer", "storage"), reversed(axes))))
            for trial in tuned["trials"]:
                loss = trial["val_loss"]
                shown = "NaN" if loss is None else f"{loss:.6f}"
                yield (*where, tuned["key"], trial["value"], trial["steps"], shown, int(trial["value"] == tuned["chosen"]))


def write(name, head, rows):
    """Writes the rows; those of a combination replace its recorded ones."""
    fresh = {}
    for row in rows:
        fresh.setdefault(tuple(row[:3]), []).append(row)
    places = (fresh.get(tuple(row[:3]), [row]) for row in read(name))
    rows = [left.pop(0) for left in places if left]
    rows += [row for left in fresh.values() for row in left]
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.reader(file))[1:]


def main(runs):
    results = sweeps(runs)
    if not results:
        sys.exit(f"{runs} has no sweep of results/optimizers")
    write("losses.csv", ["format", "storage", "optimizer", "seed", "held_out_loss"], losses(results))
    write("rates.csv", ["format", "storage", "optimizer", "key", "value", "steps", "held_out_loss", "chosen"], rates(results))


main(*sys.argv[1:])
