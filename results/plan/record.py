"""The records of plans A, D and E: python3 results/plan/record.py parity|interaction|four-bits RUNS

RUNS is the folder of the sweeps' folders (`runs`), of which any may be missing. Writes into the page's folder; runs that RUNS lacks keep
their recorded rows.

- rates.csv: the held-out loss of each case and rate, by tuning seed. Of the rates with three seeds, that with the lowest mean is chosen if it
  is not the lowest or highest one that was tried.
- losses.csv: the held-out loss of each run, and the step at which it leaves the plateau: the first of a hundred steps whose median training
  loss is below 2.3 nats, empty if there are none. Case `ulp` is the control.
"""

import csv
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, rows_of, write  # noqa: E402

# Sweeps of each page, those of tuning first.
SWEEPS = {
    "parity": (["plan-a-rates", "plan-a-rates-e2m1"], ["plan-a", "plan-a-control"]),
    "interaction": (["plan-d-rates"], ["plan-d"]),
    "four-bits": (["plan-e-rates"], ["plan-e"]),
}


def parts(axes):
    """Case, rate and seed of a run. The case of plan D is `OPTIMIZER_AUXILIARY_RATE` beside a format, that of the control `ulpSEED`."""
    case, rate, seed = axes["case"], axes.get("rate", ""), axes.get("run.seed")
    if "format" in axes:
        name, auxiliary, *own = case.split("_")
        case, rate = f"{name}_{auxiliary}_{axes['format']}", "".join(own)
    return ("ulp", rate, str(int(case[3:]))) if case.startswith("ulp") else (case, rate, str(seed))


def left_plateau(folder):
    with open(folder / "metrics.csv", newline="") as file:
        losses = [float(of["train/loss"]) for of in csv.DictReader(file) if of["train/loss"]]
    starts = range(0, len(losses), 100)
    return str(next((at for at in starts if statistics.median(losses[at : at + 100]) < 2.3), ""))


def merged(path, runs, sweeps, *columns):
    """The recorded values of columns and those of the sweeps' runs, by case, rate and seed, in the order of the record."""
    losses = {(of["case"], of.get("rate", ""), of["seed"]): [of[name] for name in columns] for of in rows_of(path)} if path.exists() else {}
    of_run = {"loss": lambda run: run["loss"], "left_plateau": lambda run: left_plateau(run["folder"])}
    for sweep in (runs / name for name in sweeps):
        for run in ended(sweep) if sweep.exists() else ():
            losses[parts(run["axes"])] = [of_run[name](run) for name in columns]
    cases = list(dict.fromkeys(case for case, *_ in losses))
    order = lambda of: (cases.index(of[0]), float(of[1] or 0), int(of[2]))  # noqa: E731
    return {of: losses[of] for of in sorted(losses, key=order)}


def with_choice(losses):
    """Rows of rates.csv; a rate with a run that diverged has no mean."""
    cells = {}
    for (case, rate, _), (loss,) in losses.items():
        cells.setdefault(case, {}).setdefault(rate, []).append(float(loss))
    chosen = set()
    for case, by_rate in cells.items():
        tried = list(by_rate)
        means = {rate: statistics.fmean(of) for rate, of in by_rate.items() if len(of) == 3}
        best = min((rate for rate in means if means[rate] == means[rate]), key=means.get, default=None)
        if best not in (None, tried[0], tried[-1]):
            chosen.add((case, best))
    for (case, rate, seed), (loss,) in losses.items():
        yield case, rate, seed, loss, int((case, rate) in chosen)


def main(page, runs):
    folder, runs, (tuning, tests) = HERE.parent / page, pathlib.Path(runs), SWEEPS[page]
    rates = merged(folder / "rates.csv", runs, tuning, "loss")
    write(folder / "rates.csv", ["case", "rate", "seed", "loss", "chosen"], with_choice(rates))
    losses = merged(folder / "losses.csv", runs, tests, "loss", "left_plateau")
    if losses:
        rows = [(case, seed, *values) for (case, _, seed), values in losses.items()]
        write(folder / "losses.csv", ["case", "seed", "loss", "left_plateau"], rows)


main(*sys.argv[1:])
