"""The casts of the recipes: python3 results/recipes/record.py RUNS

RUNS is the sweep's folder (`runs/recipes`). Writes casts.csv beside this file.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, rows_of, write  # noqa: E402

# Columns of casts.csv, and the metrics of which each has the mean over the measured steps; empty for a metric that the run lacks.
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


def casts(runs):
    # Recipes in the order of the matrix, each with its seeds.
    runs = list(ended(runs))
    recipes = list(dict.fromkeys(run["axes"]["recipe"] for run in runs))
    for run in sorted(runs, key=lambda run: recipes.index(run["axes"]["recipe"])):
        rows = rows_of(run["folder"] / "metrics.csv")
        values = ([float(row[metric]) for row in rows if row.get(metric)] for metric in METRICS.values())
        yield run["axes"]["recipe"], run["axes"]["run.seed"], *(f"{sum(of) / len(of):.6g}" if of else "" for of in values)


write(HERE / "casts.csv", ["recipe", "seed", *METRICS], casts(sys.argv[1]))
