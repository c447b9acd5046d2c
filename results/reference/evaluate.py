"""Record and table of the reference experiment: python3 results/reference/evaluate.py [RUNS]

RUNS is the sweep's folder (`runs/reference`). Writes steps.csv beside this file, and prints the table of README.md: each run at the last
evaluation after the first step that it shares with bf16. Writes and prints the fractions of zeroed gradients too, zeroed.csv. With the folder of head.toml
as a second argument it writes the evaluations of these runs, head.csv. Runs that are not in the folder keep their recorded rows. Without RUNS it prints the table of the recorded
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


def zeroed_table(rows):
    runs = {}
    for label, layer_type, rate in rows:
        runs.setdefault(label, {})[layer_type] = f"{100 * float(rate):.2f}"
    print(f"\n| layer type | {' | '.join(runs)} |\n|---|{'---:|' * len(runs)}")
    for layer_type in LAYER_TYPES.values():
        print(f"| {layer_type} | {' | '.join(of.get(layer_type, '') for of in runs.values())} |")


def perplexity(loss):
    value = math.exp(loss)
    return f"{value:.2f}" if value < 1e6 else f"{value:.2e}".replace("e+", "e")


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
        print(f"| {label} | {step} | {loss:.4f} | {perplexity(loss)} | {ratio:.4f} | {cosine} | {stall} | {overflow} | {verdict} |")


def evaluations(runs):
    """Rows of head.csv: the evaluations before the last, which are on a sample as those of steps.csv."""
    for label, folder in in_order(runs):
        with open(folder / "metrics.csv", newline="") as file:
            found = [(row["step"], f"{float(row['val/loss']):.6f}") for row in csv.DictReader(file) if row["val/loss"]]
        yield from ((label, *of) for of in found[:-1])


def head_table(rows):
    """The evaluations of the runs of head.toml beside those of bf16 and E3M4."""
    reference = {(label, step): loss for label, step, _, loss, *_ in recorded("steps.csv")}
    steps = sorted({int(step) for _, step, _ in rows if int(step) > 0})
    print(f"\n| run | {' | '.join(f'step {step}' for step in steps)} |\n|---|{'---:|' * len(steps)}")
    for label in ["bf16", "E3M4", *dict.fromkeys(label for label, *_ in rows)]:
        own = reference | {(run, step): loss for run, step, loss in rows}
        print(f"| {label} | {' | '.join(f'{float(own[label, str(step)]):.4f}' for step in steps)} |")


def main(runs=None, head=None):
    if head:
        write("head.csv", ["run", "step", "held_out_loss"], [*evaluations(head)])
    if runs:
        write("steps.csv", ["run", "step", *METRICS], [*steps(runs)])
        write("zeroed.csv", ["run", "layer_type", "zeroed"], [*zeroed(runs)])
    table(recorded("steps.csv"))
    zeroed_table(recorded("zeroed.csv"))
    head_table(recorded("head.csv"))


main(*sys.argv[1:])
