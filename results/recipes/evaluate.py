"""Records and table of the recipes: python3 results/recipes/evaluate.py [RUNS]

RUNS is the sweep's folder (`runs/recipes`). Writes losses.csv and casts.csv beside this file, and prints the table of README.md. Without RUNS it
prints the table of the recorded files. A test of the project computes it again.
"""

import csv
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from paired import SEEDS, T_975, difference, holm, least_detectable  # noqa: E402

# Columns of casts.csv, and the metrics of which each has the mean over the measured steps.
METRICS = {
    "gradient_cosine": "grad_cos_sim",
    "overflow": "quant/overflow_rate",
    "underflow": "quant/underflow_rate",
    "weight_sqnr_db": "quant/weight/sqnr_db",
    "weight_dgrad_sqnr_db": "quant/weight_dgrad/sqnr_db",
    "activation_sqnr_db": "quant/activation/sqnr_db",
    "activation_wgrad_sqnr_db": "quant/activation_wgrad/sqnr_db",
    "grad_sqnr_db": "quant/grad/sqnr_db",
    "grad_wgrad_sqnr_db": "quant/grad_wgrad/sqnr_db",
}
BASELINE, TWINS = "fp32", ("torchao_mxfp8", "mxfp8")


def means(path):
    """The mean of each metric over the steps that have it; None for a metric that the run lacks."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for metric in METRICS.values():
        values = [float(row[metric]) for row in rows if row.get(metric)]
        yield sum(values) / len(values) if values else None


def record(runs):
    losses, casts = [["recipe", "seed", "held_out_loss"]], [["recipe", "seed", *METRICS]]
    result = json.loads((pathlib.Path(runs) / "sweep.json").read_text())
    # Recipes in the order of the matrix, each with its seeds.
    recipes = list(dict.fromkeys(run["axes"]["recipe"] for run in result["runs"]))
    for run in sorted(result["runs"], key=lambda run: recipes.index(run["axes"]["recipe"])):
        key = [run["axes"]["recipe"], run["axes"]["run.seed"]]
        losses.append([*key, f"{run['final_val_loss']:.6f}"])
        found = means(pathlib.Path(runs) / run["name"] / "metrics.csv")
        casts.append([*key, *("" if value is None else f"{value:.6g}" for value in found)])
    for name, rows in [("losses.csv", losses), ("casts.csv", casts)]:
        with open(HERE / name, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def by_recipe(name):
    """Numbers of a record by recipe and seed, None where a cell is empty."""
    of = {}
    with open(HERE / name, newline="") as file:
        for recipe, seed, *cells in list(csv.reader(file))[1:]:
            of.setdefault(recipe, {})[int(seed)] = [float(cell) if cell else None for cell in cells]
    return of


def average(values):
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def cells_of_casts(seeds):
    """The columns of the table after those of losses."""
    cosine, overflow, underflow, *sqnr = (average(column) for column in zip(*seeds.values()))
    yield f"{cosine:.5f}"
    for rate in (overflow, underflow):
        yield "-" if rate is None else f"{100 * rate:.3f}"
    for pair in zip(sqnr[::2], sqnr[1::2]):
        yield ", ".join(f"{value:.1f}" for value in pair if value is not None) or "-"


def table():
    losses = {recipe: {seed: loss for seed, (loss,) in seeds.items()} for recipe, seeds in by_recipe("losses.csv").items()}
    found = {recipe: difference(of, losses[BASELINE]) for recipe, of in losses.items() if recipe not in (BASELINE, TWINS[0])}
    corrected, least = holm(found), least_detectable(len(found))
    for recipe, seeds in by_recipe("casts.csv").items():
        values = list(losses[recipe].values())
        mean = sum(values) / SEEDS
        deviation = math.sqrt(sum((x - mean) ** 2 for x in values) / (SEEDS - 1))
        shown = ["-", "-"]
        if recipe != BASELINE:
            own = TWINS[1] if recipe == TWINS[0] else recipe
            delta, error, _ = found[own]
            text = f"{delta:+.4f} ± {T_975 * error:.4f}"
            shown = [f"**{text}**" if corrected[own] < 0.05 else text, f"{least * error:.4f}"]
        print("|", " | ".join([recipe, f"{mean:.4f} ± {deviation:.4f}", *shown, *cells_of_casts(seeds)]), "|")


def main(runs=None):
    if runs:
        record(runs)
    table()


main(*sys.argv[1:])
