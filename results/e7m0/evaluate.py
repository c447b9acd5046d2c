"""Records and tables of E7M0: python3 results/e7m0/evaluate.py RUNS

RUNS is the sweep's folder (`runs/e7m0`). Writes losses.csv and timeline.csv beside this file, and prints the tables of README.md.
timeline.csv has means over seeds at some steps. The formulas are those of results/where/README.md; a test computes the first table again.
"""

import csv
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from paired import SEEDS, T_975, differences_to_fp32, losses_of, records  # noqa: E402

STEPS = [1, 5, 10, 20, 50, 100, 150, 199]
METRICS = {
    "loss": "train/loss",
    "update_sparsity": "update/zero_update_frac",
    "stall": "update/bit_stall_rate",
    "gradient_underflow": "quant/grad/underflow_rate",
}


def timeline(runs, cases):
    """Rows of timeline.csv: case, step and the mean of each metric over seeds; empty where a case has none."""
    for case in cases:
        values = {}
        for seed in range(1, SEEDS + 1):
            with open(pathlib.Path(runs) / f"s{seed}_{case}" / "metrics.csv", newline="") as file:
                for row in csv.DictReader(file):
                    for metric in METRICS.values():
                        if row.get(metric):
                            values.setdefault((int(row["step"]), metric), []).append(float(row[metric]))
        for step in STEPS:
            means = [values.get((step, metric)) for metric in METRICS.values()]
            yield case, step, *("" if not of else f"{sum(of) / len(of):.4f}" for of in means)


def write(name, head, rows):
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def main(runs):
    cells = losses_of(json.loads((pathlib.Path(runs) / "sweep.json").read_text())["runs"])
    write("losses.csv", ["case", "seed", "held_out_loss"], records(cells))
    rows = list(timeline(runs, cells))
    write("timeline.csv", ["case", "step", *METRICS], rows)
    found, corrected, least = differences_to_fp32(cells)
    for case, (mean, error, _) in found.items():
        text = f"{mean:+.4f} ± {T_975 * error:.4f}".replace("-", "−")
        text = f"**{text}**" if corrected[case] < 0.05 else text
        print(f"| {case} | {sum(cells[case].values()) / SEEDS:.4f} | {text} | {least * error:.4f} |")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


main(*sys.argv[1:])
