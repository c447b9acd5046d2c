"""Which configurations raise each kind of alert, by threshold: python3 results/alerts/thresholds.py HOST RUNS > results/alerts/thresholds.csv

HOST is the program, RUNS the folder of both sweeps. A row is a kind, a level and its threshold, and the configurations of which a run raises
the kind. Level 0 raises most; level 3 is the default. The kinds of alerts are independent, so that all thresholds have the same level at once.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

# Notes of the run, no warnings.
INFORMATION = {"kurtosis", "rank_collapse"}
FRACTIONS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]
LEVELS = {
    "bit_stall": [0.08, 0.12, 0.2, 0.33, 0.5, 0.7, 0.9],
    "overflow": FRACTIONS,
    "underflow": FRACTIONS,
    "sparsity": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8],
    "code_saturation": [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95],
    "gradient_sqnr": [6.0, 4.0, 2.0, 1.0, 0.5, 0.2, 0.1],
    "gradient_cosine": [0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1],
    "gradient_norm": [1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 5.0],
    "attention_logit": [20.0, 30.0, 50.0, 100.0, 150.0, 200.0, 400.0],
    "loss_rise": [0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0],
}


def raised(host, runs, level):
    """The configurations of each kind of alert at a level."""
    sets = [f"--set={kind}_threshold={values[level]}" for kind, values in LEVELS.items()]
    folders = [str(Path(runs, name)) for name in ("alerts-healthy", "alerts-failing")]
    said = subprocess.run([host, "alerts", "evaluate", *folders, "--json", *sets], check=True, capture_output=True, text=True).stdout
    found = {kind: set() for kind in LEVELS}
    for run in json.loads(said)["runs"]:
        case = f"{Path(run['folder']).parent.name.removeprefix('alerts-')}/{run['run'].split('_', 1)[1]}"
        for kind in {alert["kind"] for alert in run["alerts"] or ()} - INFORMATION:
            found.setdefault(kind, set()).add(case)
    return found


def main(host, runs):
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["kind", "level", "threshold", "configurations"])
    levels = [raised(host, runs, level) for level in range(len(FRACTIONS))]
    # A kind without a threshold of its own has the same configurations at each level.
    for kind in sorted(set().union(*levels)):
        for level, found in enumerate(levels):
            threshold = LEVELS.get(kind, [""] * len(levels))[level]
            out.writerow([kind, level, threshold, " ".join(sorted(found.get(kind, ())))])


main(*sys.argv[1:])
