"""Statistics of paired runs for the scripts of this folder: Student's t with 4 degrees of freedom, and Holm's correction.

The formulas are those of where/README.md; a test of the project computes the tables again.
"""

import math

SEEDS = 5
T_975, T_800 = 2.776445, 0.940965


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
