"""Contrast 4 of PLAN.md, from the records of plan B: python3 results/onset/fit.py

losses.csv and mass.csv are those that record.py writes. Written before the runs; it needs two seeds that are complete.
"""

import csv
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from exact import isotonic, mean_and_half, sign_flip, slope, t_test  # noqa: E402


def rows_of(name):
    with open(HERE / name, newline="") as file:
        return list(csv.DictReader(file))


def main():
    losses, masses = {}, {}
    for of in rows_of("losses.csv"):
        losses.setdefault(of["case"], {})[int(of["seed"])] = float(of["loss"])
    if not (HERE / "mass.csv").exists():
        sys.exit("no run has observed its zeroed mass: contrast 4 is not decided")
    for of in rows_of("mass.csv"):
        if of["case"] == of["format"]:
            masses.setdefault(of["case"], []).append(float(of["steps_20_to_180"]))
    cases = sorted(masses, key=lambda case: statistics.fmean(masses[case]))
    seeds = sorted(set.intersection(*(set(losses[case]) for case in [*cases, "fp32", "ulp"])))
    if len(seeds) < 2:
        sys.exit(f"{len(seeds)} complete seeds: contrast 4 is not decided")
    mass = [statistics.fmean(masses[case]) for case in cases]
    minus = {case: [losses[case][seed] - losses["fp32"][seed] for seed in seeds] for case in [*cases, "ulp"]}
    fit, noise = isotonic([statistics.fmean(minus[case]) for case in cases]), max(map(abs, minus["ulp"]))
    print(f"{len(seeds)} seeds, largest difference of the control {noise:.4f} nats per token")
    for case, share, fitted in zip(cases, mass, fit):
        mean, half = mean_and_half(minus[case])
        middle, exact, t = statistics.median(minus[case]), sign_flip(minus[case]), t_test(minus[case])
        print(f"{case}: zeroed mass {share:.4f}, {mean:+.4f} ± {half:.4f}, median {middle:+.4f}, p {exact:.4f} (t {t:.4f}), fit {fitted:.4f}")
    slopes = [slope(mass, [minus[case][i] for case in cases]) for i in range(len(seeds))]
    (mean, half), exact, t = mean_and_half(slopes), sign_flip(slopes, one_sided=True), t_test(slopes) / 2
    print(f"slope {mean:.3f} ± {half:.3f}, one-sided p {exact:.4g} (t {t:.2g})")
    onset = next((share for share, fitted in zip(mass, fit) if fitted > noise), None)
    print("no cell exceeds the control" if onset is None else f"onset at a zeroed mass of {onset:.4f}")


main()
