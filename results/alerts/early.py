"""When the runs of failing.toml whose first alert is later than step 8 begin to fail, by a median over 10 steps instead of 40.

    python3 results/alerts/early.py runs > results/alerts/early.csv

A row is a run: the step at which its failure begins, that of its first alert, and the ratio of its median to the twin's there.
"""

import csv
import json
import statistics
import sys
from pathlib import Path

WINDOW, MARGIN = 10, 1.05


def medians(run):
    """The median of the last losses, by step."""
    with open(run / "metrics.csv", newline="") as file:
        losses = [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
    return {step: statistics.median(losses[step - WINDOW + 1 : step + 1]) for step in range(WINDOW - 1, len(losses))}


def first_alert(run):
    with open(run / "events.jsonl") as file:
        return next((event["step"] for event in map(json.loads, file) if event["level"] in ("warn", "error")), None)


def main(runs):
    print("run,fails_from,first_alert_step,loss_over_twin")
    for run in sorted(Path(runs, "alerts-failing").glob("s*_*")):
        alert = first_alert(run)
        if alert is None or alert < WINDOW - 1:
            continue
        twin = medians(Path(runs, "alerts-healthy", f"{run.name.split('_')[0]}_fp32"))
        ratios = {step: median / twin[step] for step, median in medians(run).items()}
        healthy = [step for step, ratio in ratios.items() if ratio <= MARGIN]
        fails_from = max(healthy, default=WINDOW - 2) + 1
        print(f"{run.name},{fails_from},{alert},{ratios[alert]:.3f}")


main(*sys.argv[1:])
