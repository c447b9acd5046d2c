"""The timeline of E7M0: python3 results/e7m0/record.py RUNS

RUNS is the sweep's folder (`runs/e7m0`). Writes timeline.csv beside this file: means over seeds at some steps.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, mean, rows_of, write  # noqa: E402

STEPS = ["1", "5", "10", "20", "50", "100", "150", "199"]
METRICS = {
    "loss": "train/loss",
    "update_sparsity": "update/zero_update_frac",
    "stall": "update/bit_stall_rate",
    "gradient_underflow": "quant/grad/underflow_rate",
}


def timeline(runs):
    """Rows of timeline.csv: case, step and the mean of each metric over seeds; empty where a case has none."""
    cases = {}
    for run in ended(runs):
        cases.setdefault(run["axes"]["case"], []).extend(rows_of(run["folder"] / "metrics.csv"))
    for case, rows in cases.items():
        for step in STEPS:
            own = [row for row in rows if row["step"] == step]
            yield case, step, *(mean(float(row[metric]) for row in own if row.get(metric)) for metric in METRICS.values())


write(HERE / "timeline.csv", ["case", "step", *METRICS], timeline(sys.argv[1]))
