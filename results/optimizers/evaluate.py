"""Records and tables of the sweeps: python3 results/optimizers/evaluate.py [RUNS]

RUNS is the folder of the sweeps' folders (`runs`). Writes losses.csv and rates.csv beside this file, and prints the tables of README.md
in Markdown. Combinations that RUNS lacks keep their recorded rows. Without RUNS it prints the tables of the recorded files. The formulas are those of results/where/README.md; a test computes the tables again.
"""

import csv
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from paired import SEEDS, T_975, difference, holm, least_detectable  # noqa: E402

FORMATS = ["fp32", "e4m3", "e5m2", "e3m4", "e2m1", "e7m0"]


def sweeps(runs):
    """The result of each sweep that has one, by format."""
    files = ((name, pathlib.Path(runs) / f"optimizers-{name}" / "sweep.json") for name in FORMATS)
    return {name: json.loads(file.read_text()) for name, file in files if file.exists()}


def cell(name, axes):
    return ("fp32" if name == "fp32" else name.upper(), axes.get("storage", "fp32"), axes["optimizer"])


def losses(results):
    """Rows of losses.csv: runs that have ended; NaN for those that diverged or failed."""
    for name, result in results.items():
        for run in result["runs"]:
            if run["state"] not in ("missing", "broken"):
                loss = run["final_val_loss"] if run["state"] == "completed" else None
                yield (*cell(name, run["axes"]), run["axes"]["run.seed"], "NaN" if loss is None else f"{loss:.6f}")


def rates(results):
    """Rows of rates.csv: every trial, and whether its rate was chosen."""
    for name, result in results.items():
        for tuned in result.get("tuned", []):
            axes = tuned["group"].split("_")
            where = cell(name, dict(zip(("optimizer", "storage"), reversed(axes))))
            for trial in tuned["trials"]:
                loss = trial["val_loss"]
                shown = "NaN" if loss is None else f"{loss:.6f}"
                yield (*where, tuned["key"], trial["value"], trial["steps"], shown, int(trial["value"] == tuned["chosen"]))


def write(name, head, rows):
    """Writes the rows; those of a combination replace its recorded ones."""
    fresh = {}
    for row in rows:
        fresh.setdefault(tuple(row[:3]), []).append(row)
    places = (fresh.get(tuple(row[:3]), [row]) for row in read(name))
    rows = [left.pop(0) for left in places if left]
    rows += [row for left in fresh.values() for row in left]
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return rows


def family(cells, baseline_of):
    """Text of each cell's difference to its baseline, and the smallest detectable difference."""
    pairs = {key: baseline_of(key) for key in cells}
    found = {key: difference(cells[key], cells[other]) for key, other in pairs.items() if other in cells and key != other}
    corrected, least = holm(found), least_detectable(len(found))
    texts = {}
    for key, (mean, error, _) in found.items():
        text = f"{mean:+.4f} ± {T_975 * error:.4f}".replace("-", "−")
        texts[key] = (f"**{text}**" if corrected[key] < 0.05 else text, least * error)
    return texts


def tables(loss_rows, rate_rows):
    cells = {}
    for *key, seed, loss in loss_rows:
        cells.setdefault(tuple(key), {})[int(seed)] = float(loss)
    cells = {key: of for key, of in cells.items() if len(of) == SEEDS and all(map(math.isfinite, of.values()))}
    chosen, tried = {}, {}
    for *key, _, value, _, _, is_chosen in rate_rows:
        tried.setdefault(tuple(key), []).append(float(value))
        if int(is_chosen):
            chosen[tuple(key)] = float(value)
    same = family(cells, lambda key: (*key[:2], "adamw"))
    low = {key: of for key, of in cells.items() if key[0] != "fp32"} | {("fp32", "fp32", "adamw"): cells.get(("fp32", "fp32", "adamw"))}
    exact = family({key: of for key, of in low.items() if of}, lambda _: ("fp32", "fp32", "adamw"))
    unquantized = family(cells, lambda key: ("fp32", "fp32", key[2]))
    sizes = f"{len(same)} for differences to AdamW, {len(exact)} for those to AdamW in fp32"
    print(f"`k` is {sizes}, and {len(unquantized)} for those to the same optimizer in fp32.\n")
    form = None
    for key, of in cells.items():
        if key[0] != form:
            form = key[0]
            print(f"\n{form}:\n\n| storage | optimizer | rate | held-out loss | minus AdamW | detectable | minus AdamW in fp32 | minus itself in fp32 | detectable |")
            print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
        rate = chosen.get(key)
        edge = " (edge)" if rate in (min(tried[key]), max(tried[key])) else ""
        mean = sum(of.values()) / SEEDS
        columns = [*shown(same.get(key)), shown(exact.get(key))[0], *shown(unquantized.get(key))]
        print(f"| {key[1]} | {key[2]} | {rate:g}{edge} | {mean:.4f} | {' | '.join(columns)} |")
    optimizers(cells, "stiffness", "madam", "StiffnessAdamW minus Madam")
    optimizers(cells, "muon", "soap", "Muon minus SOAP")
    storages(cells)
    master_weights(cells)


def shown(cell):
    """The columns of a difference and of its smallest detectable size."""
    return ("", "") if cell is None else (cell[0], f"{cell[1]:.4f}")


def optimizers(cells, own, other, title):
    """Two optimizers with the same format and storage."""
    texts = family({key: of for key, of in cells.items() if key[2] in (own, other)}, lambda key: (*key[:2], other))
    print(f"\n| format | storage | {title} | detectable |\n|---|---|---:|---:|")
    for key, cell in texts.items():
        print(f"| {key[0]} | {key[1]} | {' | '.join(shown(cell))} |")


def storages(cells):
    """Error feedback against stochastic rounding with the same format and optimizer."""
    kept = {key: of for key, of in cells.items() if key[1] in ("feedback", "stochastic") and key[2] in ("adamw", "muon")}
    texts = family(kept, lambda key: (key[0], "stochastic" if key[1] == "feedback" else "none", key[2]))
    print("\n| format | optimizer | feedback minus stochastic | detectable |\n|---|---|---:|---:|")
    for key, cell in texts.items():
        print(f"| {key[0]} | {key[2]} | {' | '.join(shown(cell))} |")


def master_weights(cells):
    """Each storage without master weights against master weights, with the same format and optimizer."""
    texts = family({key: of for key, of in cells.items() if key[0] != "fp32"}, lambda key: (key[0], "master", key[2]))
    print("\n| format | optimizer | stochastic minus master | detectable | feedback minus master | detectable |\n|---|---|---:|---:|---:|---:|")
    for form, _, optimizer in (key for key in cells if key[0] != "fp32" and key[1] == "master"):
        columns = [text for storage in ("stochastic", "feedback") for text in shown(texts.get((form, storage, optimizer)))]
        print(f"| {form} | {optimizer} | {' | '.join(columns)} |")


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.reader(file))[1:]


def main(runs=None):
    if runs is None:
        return tables(read("losses.csv"), read("rates.csv"))
    results = sweeps(runs)
    if not results:
        sys.exit(f"{runs} has no sweep of results/optimizers")
    loss_rows = write("losses.csv", ["format", "storage", "optimizer", "seed", "held_out_loss"], losses(results))
    head = ["format", "storage", "optimizer", "key", "value", "steps", "held_out_loss", "chosen"]
    tables(loss_rows, write("rates.csv", head, rates(results)))


main(*sys.argv[1:])
