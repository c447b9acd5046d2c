"""Statistics of paired runs: Student's t with 4 degrees of freedom, and Holm's correction. The formulas are those of where/README.md."""

import math
import statistics
from collections import namedtuple

SEEDS = 5
T_975 = 2.776445
POWER = 0.8

# Of paired differences: mean, half of the 95 % interval, whether it is significant after correction (with its p), and the smallest
# detectable difference.
Difference = namedtuple("Difference", "mean half p significant detectable")


def family(cells, baseline_of):
    """The differences of cells to their baselines, for cells that are complete and whose baseline is."""
    complete = {cell: of for cell, of in cells.items() if len(of) == SEEDS and all(map(math.isfinite, of.values()))}
    pairs = {cell: baseline_of(cell) for cell in complete}
    found = {cell: difference(complete[cell], complete[other]) for cell, other in pairs.items() if other in complete and other != cell}
    corrected, least = holm({cell: p for cell, (_, _, p) in found.items()}), least_detectable(len(found))
    return {
        cell: Difference(mean, T_975 * error, corrected[cell], corrected[cell] < 0.05, least * error)
        for cell, (mean, error, _) in found.items()
    }


def difference(own, other):
    """Mean, standard error and p of paired differences."""
    values = [own[seed] - other[seed] for seed in sorted(own)]
    mean = sum(values) / SEEDS
    error = math.sqrt(sum((x - mean) ** 2 for x in values) / (SEEDS - 1) / SEEDS)
    return mean, error, probability(mean / error) if error > 0 else 1.0


def probability(t):
    """Two-sided, of Student's t with 4 degrees of freedom, in closed form."""
    share = t * t / (4 + t * t)
    return 1 - math.sqrt(share) * (3 - share) / 2


def holm(found):
    """p after Holm's correction, by cell."""
    corrected, least = {}, 0.0
    for rank, (cell, p) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        least = max(least, min(1.0, (len(found) - rank) * p))
        corrected[cell] = least
    return corrected


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
