"""The records of plan B: python3 results/onset/record.py SWEEP...

SWEEPs are folders of matrix.toml, control.toml and observe.toml, such as `runs/onset runs/onset-control`. Writes beside this file:

- losses.csv: the held-out loss of each run; case `ulp` is the control.
- mass.csv: twice the zeroed mass of the logit gradient that a run observed for a format, at step 0 and as a mean over steps 20 to 180.
- observed.csv: the same for the fp32 runs of observe.toml, by vocabulary.

Seeds of which a case is missing are left out.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, rows_of, write  # noqa: E402

MASS = "observe/grad/zeroed_mass/"


def main(*sweeps):
    losses, masses, observed = {}, {}, {}
    for sweep in sweeps:
        for run in ended(sweep):
            case, seed = run["axes"].get("case"), run["axes"].get("run.seed")
            if case is None:
                case, of_case = run["axes"]["vocabulary"], observed
            else:
                case, seed = ("ulp", case[3:]) if case.startswith("ulp") else (case, seed)
                losses[case, int(seed)], of_case = run["loss"], masses
            seen = {}
            for of in rows_of(run["folder"] / "layers.csv"):
                if of["layer"] == "wte.weight" and of["metric"].startswith(MASS):
                    seen.setdefault(of["metric"][len(MASS) :], {})[int(of["step"])] = 2 * float(of["value"])
            for form, steps in seen.items():
                later = [mass for step, mass in steps.items() if 20 <= step <= 180]
                of_case[case, int(seed), form] = (f"{steps[0]:.6f}", f"{sum(later) / len(later):.6f}")
    if observed:
        write(HERE / "observed.csv", ["vocabulary", "seed", "format", "step_0", "steps_20_to_180"], [(*key, *of) for key, of in observed.items()])
    if not losses:
        return
    cases = list(dict.fromkeys(case for case, _ in losses))
    seeds = [seed for seed in sorted({seed for _, seed in losses}) if all((case, seed) in losses for case in cases)]
    write(HERE / "losses.csv", ["case", "seed", "loss"], [(case, seed, losses[case, seed]) for case in cases for seed in seeds])
    rows = [(*key, *of) for key, of in masses.items() if key[1] in seeds]
    write(HERE / "mass.csv", ["case", "seed", "format", "step_0", "steps_20_to_180"], rows)


main(*sys.argv[1:])
