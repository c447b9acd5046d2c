"""Record and table of the reference experiment: python3 results/reference/evaluate.py [RUNS]

RUNS is the sweep's folder (`runs/reference`). Writes steps.csv beside this file, and prints the table of README.md: each run at the last
evaluation after the first step that it shares with bf16. Runs that are not in the folder keep their recorded rows. Without RUNS it prints the table of the recorded
file. A test of the project computes it again.
"""

import csv
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
# Columns of steps.csv, and the metrics that they hold.
METRICS = {
    "train_loss": "train/loss",
    "held_out_loss": "val/loss",
    "gradient_cosine": "grad_cos_sim",
    "bit_stall": "update/bit_stall_rate",
    "overflow": "quant/overflow_rate",
}
DIGITS = {"train_loss": 4, "held_out_loss": 6, "gradient_cosine": 6, "bit_stall": 6, "overflow": 9}
# Steps between the rows of steps.csv; a row in between is kept if it has an evaluation.
EVERY = 10
MARGIN = 0.1


def recorded():
    with open(HERE / "steps.csv", newline="") as file:
        return list(csv.reader(file))[1:]


def steps(runs):
    """Rows of steps.csv, runs in the order of the matrix. The final evaluation has the number of the steps done."""
    before = recorded()
    for run in json.loads((pathlib.Path(runs) / "sweep.json").read_text())["runs"]:
        label = run["axes"]["case"]
        record = pathlib.Path(runs) / run["name"] / "metrics.csv"
        if not record.exists():
            yield from (row for row in before if row[0] == label)
            continue
        with open(record, newline="") as file:
            for row in csv.DictReader(file):
                if int(row["step"]) % EVERY == 0 or row["val/loss"]:
                    cells = ((name, row.get(metric)) for name, metric in METRICS.items())
                    yield label, row["step"], *(f"{float(cell):.{DIGITS[name]}f}" if cell else "" for name, cell in cells)


def table(rows):
    runs = {}
    for label, step, *cells in rows:
        values = {name: float(cell) for name, cell in zip(METRICS, cells) if cell}
        runs.setdefault(label, {})[int(step)] = values
    losses = {label: {step: of["held_out_loss"] for step, of in run.items() if "held_out_loss" in of} for label, run in runs.items()}
    for label, run in runs.items():
        shared = [step for step in losses[label].keys() & losses["bf16"].keys() if step > 0]
        if not shared:
            continue
        step = max(shared)
        loss, ratio = losses[label][step], losses[label][step] / losses["bf16"][step]
        of = {name: [row[name] for at, row in run.items() if at <= step and name in row] for name in METRICS}
        cosine, stall = (f"{sum(of[name]) / len(of[name]):.4f}" if of[name] else "" for name in ("gradient_cosine", "bit_stall"))
        overflow = f"{max(of['overflow']):.2e}" if of["overflow"] else ""
        verdict = "baseline" if label == "bf16" else "within 10 %" if abs(ratio - 1) <= MARGIN else "outside 10 %"
        print(f"| {label} | {step} | {loss:.4f} | {math.exp(loss):.2f} | {ratio:.4f} | {cosine} | {stall} | {overflow} | {verdict} |")


def main(runs=None):
    if runs:
        rows = [["run", "step", *METRICS], *steps(runs)]
        with open(HERE / "steps.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    table(recorded())


main(*sys.argv[1:])
