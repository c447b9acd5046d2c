"""The records of plan A: python3 results/parity/record.py RUNS

RUNS is the folder of the sweeps' folders (`runs`): plan-a-rates, plan-a and plan-a-control, of which any may be missing. Writes beside this
file; runs that RUNS lacks keep their recorded rows.

- rates.csv: the held-out loss of each case and rate, by tuning seed. Of the rates with three seeds, that with the lowest mean is chosen if it
  is not the lowest or highest one.
- losses.csv: the held-out loss of each run; case `ulp` is the control.
"""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, rows_of, write  # noqa: E402


def recorded(name):
    """The losses of a record by its columns but the last ones."""
    path = HERE / name
    return {tuple(of.values())[: 3 if "rate" in of else 2]: of["loss"] for of in rows_of(path)} if path.exists() else {}


def with_choice(losses):
    """Rows of rates.csv; a rate with a run that diverged has no mean."""
    cells = {}
    for (case, rate, seed), loss in losses.items():
        cells.setdefault(case, {}).setdefault(rate, {})[seed] = loss
    for case, by_rate in cells.items():
        rates = [rate for rate in sorted(by_rate, key=float) if len(by_rate[rate]) == 3]
        means = {rate: statistics.fmean(map(float, by_rate[rate].values())) for rate in rates}
        best = min((rate for rate in rates if means[rate] == means[rate]), key=means.get, default=None)
        chosen = best if best not in (rates[:1] + rates[-1:]) else None
        for rate in sorted(by_rate, key=float):
            for seed, loss in sorted(by_rate[rate].items()):
                yield case, rate, seed, loss, int(rate == chosen)


def main(runs):
    rates, *sweeps = (pathlib.Path(runs) / name for name in ("plan-a-rates", "plan-a", "plan-a-control"))
    losses = recorded("rates.csv")
    for run in ended(rates) if rates.exists() else ():
        axes = run["axes"]
        losses[axes["case"], axes["rate"], str(axes["run.seed"])] = run["loss"]
    write(HERE / "rates.csv", ["case", "rate", "seed", "loss", "chosen"], with_choice(losses))
    losses = recorded("losses.csv")
    for run in (run for sweep in sweeps if sweep.exists() for run in ended(sweep)):
        case, seed = run["axes"]["case"], run["axes"].get("run.seed")
        case, seed = ("ulp", case[3:]) if case.startswith("ulp") else (case, seed)
        losses[case, str(int(seed))] = run["loss"]
    if losses:
        cases = list(dict.fromkeys(case for case, _ in losses))
        rows = sorted(losses.items(), key=lambda of: (cases.index(of[0][0]), int(of[0][1])))
        write(HERE / "losses.csv", ["case", "seed", "loss"], [(*key, loss) for key, loss in rows])


main(*sys.argv[1:])
