"""Records of the reference experiment: python3 results/reference/record.py RUNS [HEAD]

RUNS is the sweep's folder (`runs/reference`). Writes steps.csv and, the fractions of zeroed gradients, zeroed.csv beside this file. With
the folder of head.toml it writes the evaluations of these runs, head.csv. Runs that are not in the folder keep their recorded rows.
"""

import csv
import json
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
# Layer types by the endings of their weights' names; the head is tied to the token embedding.
LAYER_TYPES = {"attn.c_attn": "qkv", "attn.c_proj": "attention output", "mlp.c_fc": "MLP up", "mlp.c_proj": "MLP down", "wte": "head"}


def recorded(name):
    with open(HERE / name, newline="") as file:
        return list(csv.reader(file))[1:]


def write(name, head, rows):
    rows = [head, *rows]
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def in_order(runs):
    """Label and folder of each run, in the order of the matrix."""
    for run in json.loads((pathlib.Path(runs) / "sweep.json").read_text())["runs"]:
        yield run["axes"]["case"], pathlib.Path(runs) / run["name"]


def steps(runs):
    """Rows of steps.csv, runs in the order of the matrix. The final evaluation has the number of the steps done."""
    before = recorded("steps.csv")
    for label, folder in in_order(runs):
        record = folder / "metrics.csv"
        if not record.exists():
            yield from (row for row in before if row[0] == label)
            continue
        with open(record, newline="") as file:
            for row in csv.DictReader(file):
                if int(row["step"]) % EVERY == 0 or row["val/loss"]:
                    cells = ((name, row.get(metric)) for name, metric in METRICS.items())
                    yield label, row["step"], *(f"{float(cell):.{DIGITS[name]}f}" if cell else "" for name, cell in cells)


def zeroed(runs):
    """Rows of zeroed.csv: of rounded gradients, the fraction of non-zero elements that become zero; mean over layers and measured steps."""
    before = recorded("zeroed.csv")
    for label, folder in in_order(runs):
        if not (folder / "layers.csv").exists():
            yield from (row for row in before if row[0] == label)
            continue
        rates = {layer_type: [] for layer_type in LAYER_TYPES.values()}
        with open(folder / "layers.csv", newline="") as file:
            for _, layer, metric, value in csv.reader(file):
                if metric == "quant/grad/underflow_rate":
                    rates[next(of for name, of in LAYER_TYPES.items() if layer.endswith(f"{name}.weight"))].append(float(value))
        yield from ((label, of, f"{sum(found) / len(found):.6f}") for of, found in rates.items() if found)


def evaluations(runs):
    """Rows of head.csv: the evaluations before the last, which are on a sample as those of steps.csv."""
    for label, folder in in_order(runs):
        with open(folder / "metrics.csv", newline="") as file:
            found = [(row["step"], f"{float(row['val/loss']):.6f}") for row in csv.DictReader(file) if row["val/loss"]]
        yield from ((label, *of) for of in found[:-1])


def main(runs, head=None):
    if head:
        write("head.csv", ["run", "step", "held_out_loss"], [*evaluations(head)])
    write("steps.csv", ["run", "step", *METRICS], [*steps(runs)])
    write("zeroed.csv", ["run", "layer_type", "zeroed"], [*zeroed(runs)])


main(*sys.argv[1:])
