"""Statistics of paired runs for the scripts of this folder: Student's t with 4 degrees of freedom, and Holm's correction.

The formulas are those of where/README.md; a test of the project computes the tables again.
"""

import math
import statistics

SEEDS = 5
T_975 = 2.776445
POWER = 0.8


def losses_of(runs):
    """Losses of the ended runs of a sweep, by case and seed: NaN for those that diverged or failed."""
    cells = {}
    for run in runs:
        if run["state"] not in ("missing", "broken"):
            loss = run["final_val_loss"] if run["state"] == "completed" else None
            cells.setdefault(run["axes"]["case"], {})[run["axes"]["run.seed"]] = math.nan if loss is None else round(loss, 6)
    return cells


def records(cells):
    """Rows of these losses: case, seed, loss."""
    return [(case, seed, f"{loss:.6f}".replace("nan", "NaN")) for case, of in cells.items() for seed, loss in of.items()]


def complete(of):
    """True if each seed has a finite loss."""
    return len(of) == SEEDS and all(map(math.isfinite, of.values()))


def differences_to_fp32(cells):
    """The difference of each complete case, its correction, and the smallest detectable difference in standard errors."""
    cases = [case for case, of in cells.items() if case != "fp32" and complete(of) and complete(cells.get("fp32", {}))]
    found = {case: difference(cells[case], cells["fp32"]) for case in cases}
    return found, holm(found), least_detectable(len(found))


def probability(t):
    """Two-sided, of Student's t with 4 degrees of freedom, in closed form."""
    share = t * t / (4 + t * t)
    return 1 - math.sqrt(share) * (3 - share) / 2


def quantile(p):
    """The t that is exceeded in either direction with this probability."""
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) > p else (low, middle)
    return low


def least_detectable(tests):
    """The smallest true difference, in standard errors, that the strictest of Holm's tests detects with the power 80 %.

    The power is the tail of the noncentral t, integrated over the law of the sample's deviation by Simpson's rule.
    """
    critical, low, high = quantile(0.05 / max(tests, 1)), 0.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, critical) < POWER else (low, middle)
    return high


def power(shift, critical):
    """Probability that |t| with this noncentrality and 4 degrees of freedom exceeds a critical value."""
    normal = statistics.NormalDist().cdf
    panels, end = 4000, 7.0

    def density(s):
        return 8 * s**3 * math.exp(-2 * s * s) * (normal(shift - critical * s) + normal(-shift - critical * s))

    odd = sum(density(end * i / panels) for i in range(1, panels, 2))
    even = sum(density(end * i / panels) for i in range(2, panels, 2))
    return (4 * odd + 2 * even) * end / panels / 3


def difference(own, other):
    """Mean, standard error and p of paired differences."""
    values = [own[seed] - other[seed] for seed in sorted(own)]
    mean = sum(values) / SEEDS
    error = math.sqrt(sum((x - mean) ** 2 for x in values) / (SEEDS - 1) / SEEDS)
    return mean, error, probability(mean / error) if error > 0 else 1.0


def holm(found):
    """p after Holm's correction, by cell."""
    corrected, least = {}, 0.0
    for rank, (key, (_, _, p)) in enumerate(sorted(found.items(), key=lambda item: item[1][2])):
        least = max(least, min(1.0, (len(found) - rank) * p))
        corrected[key] = least
    return corrected
