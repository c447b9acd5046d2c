"""Records and tables of the vocabularies: python3 results/vocabulary/evaluate.py [RUNS]

RUNS is the sweep's folder (`runs/vocabulary`). Writes losses.csv and zeroed.csv beside this file, and prints the tables of README.md from them.
"""

import csv
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from paired import SEEDS, T_975, difference, holm, least_detectable, losses_of, records  # noqa: E402

VOCABULARIES = ["256", "1024", "4096", "16384"]


def zeroed(runs):
    """Of the gradient at the head, the fraction of non-zero elements that become zero: at step 0, and mean over steps 20 to 180, over seeds."""
    shares = {}
    for folder, case in runs:
        with open(folder / "layers.csv", newline="") as file:
            found = [float(row["value"]) for row in csv.DictReader(file) if row["metric"] == "quant/grad/underflow_rate"]
        first, later = shares.setdefault(case, ([], []))
        first.append(found[0])
        later.extend(found[1:])
    return {case: (sum(first) / len(first), sum(later) / len(later)) for case, (first, later) in shares.items()}


def write(name, rows):
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.reader(file))[1:]


def record(sweep):
    runs = json.loads((sweep / "sweep.json").read_text())["runs"]
    of = {size: [run for run in runs if run["axes"]["vocabulary"] == size] for size in VOCABULARIES}
    losses = [(size, *row) for size, own in of.items() for row in records(losses_of(own))]
    write("losses.csv", [["vocabulary", "case", "seed", "held_out_loss"], *losses])
    rows = []
    for size, own in of.items():
        rounded = [(sweep / run["name"], run["axes"]["case"]) for run in own if run["axes"]["case"] != "fp32"]
        rows += [(size, case, f"{first:.4f}", f"{later:.4f}") for case, (first, later) in zeroed(rounded).items()]
    write("zeroed.csv", [["vocabulary", "case", "step_0", "steps_20_to_180"], *rows])


def table(cell, cases):
    for case in cases:
        print(f"| {case} | " + " | ".join(cell(size, case) for size in VOCABULARIES) + " |")
    print()


def main(sweep=None):
    if sweep:
        record(pathlib.Path(sweep))
    losses = {}
    for size, case, seed, loss in read("losses.csv"):
        losses.setdefault((size, case), {})[seed] = float(loss)
    cases = list(dict.fromkeys(case for _, case in losses if case != "fp32"))
    found = {(size, case): difference(of, losses[size, "fp32"]) for (size, case), of in losses.items() if case != "fp32"}
    corrected, least = holm(found), least_detectable(len(found))

    def shown(size, case):
        mean, error, _ = found[size, case]
        text = f"{mean:+.4f} ± {T_975 * error:.4f}".replace("-", "−")
        return f"**{text}**" if corrected[size, case] < 0.05 else text

    shares = {(size, case): f"{100 * float(first):.1f}, {100 * float(later):.1f}" for size, case, first, later in read("zeroed.csv")}
    print("| fp32 | " + " | ".join(f"{sum(losses[size, 'fp32'].values()) / SEEDS:.4f}" for size in VOCABULARIES) + " |")
    table(shown, cases)
    table(lambda size, case: f"{least * found[size, case][1]:.4f}", cases)
    table(lambda size, case: shares[size, case], cases)


main(*sys.argv[1:])
