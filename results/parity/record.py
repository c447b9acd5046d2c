"""The records of plan A: python3 results/parity/record.py RUNS

RUNS is the folder of the sweeps' folders (`runs`): plan-a-rates, plan-a and plan-a-control, of which any may be missing. Writes beside this
file:

- rates.csv: the held-out loss of each case and rate, by tuning seed. A rate is chosen for the lowest mean; a case lacks one whose runs diverged.
- losses.csv: the held-out loss of each run; case `ulp` is the control.
"""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, write  # noqa: E402


def tuned(sweep):
    """Rows of rates.csv; a loss that is not finite, or missing, makes the mean one that is not chosen."""
    cells = {}
    for run in ended(sweep):
        axes = run["axes"]
        cells.setdefault(axes["case"], {}).setdefault(axes["rate"], {})[int(axes["run.seed"])] = run["loss"]
    for case, rates in cells.items():
        means = {rate: statistics.fmean(map(float, of.values())) for rate, of in rates.items() if len(of) == 3}
        best = min((rate for rate in means if means[rate] == means[rate]), key=means.get)
        for rate, of in sorted(rates.items(), key=lambda item: float(item[0])):
            for seed, loss in sorted(of.items()):
                yield case, rate, seed, loss, int(rate == best)


def final(sweeps):
    """Rows of losses.csv."""
    for sweep in sweeps:
        for run in ended(sweep):
            case, seed = run["axes"]["case"], run["axes"].get("run.seed")
            yield ("ulp", int(case[3:]), run["loss"]) if case.startswith("ulp") else (case, int(seed), run["loss"])


def main(runs):
    rates, *sweeps = (pathlib.Path(runs) / name for name in ("plan-a-rates", "plan-a", "plan-a-control"))
    if rates.exists():
        write(HERE / "rates.csv", ["case", "rate", "seed", "loss", "chosen"], tuned(rates))
    rows = list(final(sweep for sweep in sweeps if sweep.exists()))
    if rows:
        cases = list(dict.fromkeys(case for case, _, _ in rows))
        rows.sort(key=lambda of: (cases.index(of[0]), of[1]))
        write(HERE / "losses.csv", ["case", "seed", "loss"], rows)


main(*sys.argv[1:])
