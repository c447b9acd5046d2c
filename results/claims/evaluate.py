"""Record and tables of the claims: python3 results/claims/evaluate.py RUNS

RUNS is the folder of the sweeps' folders (`runs`). Writes losses.csv beside this file, and prints the tables of README.md in Markdown.
The formulas are those of results/where/README.md; a test computes the tables again.
"""

import csv
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from paired import SEEDS, T_975, difference, holm, least_detectable  # noqa: E402

MATRICES = ["baseline", "hybrid", "split", "rates", "stored", "fp4", "swiglu", "gains", "attention", "states"]
# Cells that the cases of a matrix are compared with, if these are not (baseline, fp32) or those of the rate.
BASELINES = {"hybrid": ("baseline", "bf16", ""), "gains": ("gains", "gain-fp32", ""), "attention": ("attention", "nearest", ""), "swiglu": ("swiglu", "fp32", ""), "split": ("split", "fp32", ""), "fp4": ("fp4", "nvfp4", "")}
OF_RATE = {"rates": "fp32", "stored": "master"}


def losses(runs):
    """Rows of losses.csv: runs that have ended; NaN for those that diverged or failed."""
    for matrix in MATRICES:
        file = pathlib.Path(runs) / f"claims-{matrix}" / "sweep.json"
        if not file.exists():
            continue
        for run in json.loads(file.read_text())["runs"]:
            if run["state"] in ("missing", "broken"):
                continue
            axes, loss = run["axes"], run["final_val_loss"] if run["state"] == "completed" else None
            rate = axes.get("train.lr")
            shown = "NaN" if loss is None else f"{loss:.6f}"
            yield matrix, axes["case"], "" if rate is None else f"{rate:g}", axes["run.seed"], shown


def baseline_of(cell):
    matrix, _, rate = cell
    return (matrix, OF_RATE[matrix], rate) if matrix in OF_RATE else BASELINES.get(matrix, ("baseline", "fp32", ""))


def tables(rows):
    cells = {}
    for *cell, seed, loss in rows:
        cells.setdefault(tuple(cell), {})[int(seed)] = float(loss)
    complete = {cell: of for cell, of in cells.items() if len(of) == SEEDS and all(map(math.isfinite, of.values()))}
    for matrix in MATRICES[1:]:
        pairs = {cell: baseline_of(cell) for cell in complete if cell[0] == matrix and cell != baseline_of(cell)}
        found = {cell: difference(complete[cell], complete[other]) for cell, other in pairs.items() if other in complete}
        corrected, least = holm(found), least_detectable(len(found))
        print(f"\n{matrix}: {len(found)} tests\n\n| case | rate | held-out loss | minus baseline | smallest detectable difference |\n|---|---:|---:|---:|---:|")
        for cell, of in cells.items():
            if cell[0] != matrix:
                continue
            diverged = sum(not math.isfinite(loss) for loss in of.values())
            loss = f"{diverged} of {len(of)} diverged" if diverged else f"{sum(of.values()) / len(of):.4f}"
            text = detectable = ""
            if cell in found:
                mean, error, _ = found[cell]
                text = f"{mean:+.4f} ± {T_975 * error:.4f}".replace("-", "−")
                text = f"**{text}**" if corrected[cell] < 0.05 else text
                detectable = f"{least * error:.4f}"
            print(f"| {cell[1]} | {cell[2]} | {loss} | {text} | {detectable} |")


def main(runs):
    rows = list(losses(runs))
    if not rows:
        sys.exit(f"{runs} has no sweep of results/claims")
    with open(HERE / "losses.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["matrix", "case", "rate", "seed", "held_out_loss"], *rows])
    tables(rows)


main(*sys.argv[1:])
