"""Tests and intervals for small samples, and a monotone fit: the formulas of PLAN.md, without dependencies."""

import bisect
import functools
import math


def sign_flip(values, one_sided=False):
    """p of the exact sign-flip test: the part of all choices of signs whose mean is at least as extreme as that of the values.

    The sums of one half of the values, sorted, are searched for each sum of the other: 40 values take a million searches.
    """
    observed = sum(values) if one_sided else abs(sum(values))
    least = observed - 1e-12 * abs(observed)
    sums = lambda of: functools.reduce(lambda found, value: [s + value for s in found] + [s - value for s in found], of, [0.0])  # noqa: E731
    first, second = sums(values[: len(values) // 2]), sorted(sums(values[len(values) // 2 :]))
    p = sum(len(second) - bisect.bisect_left(second, least - of) for of in first) / 2 ** len(values)
    # Each choice has its opposite, so that both tails are equal.
    return p if one_sided else min(1.0, 2 * p)


def student(t, freedom):
    """Two-sided p of Student's t, by Simpson's rule over the angle `atan(t / sqrt(freedom))`, in which the density is a power of a cosine."""
    panels, end = 2000, math.atan(abs(t) / math.sqrt(freedom))
    density = lambda angle: math.cos(angle) ** (freedom - 1)  # noqa: E731
    inner = sum((4 if i % 2 else 2) * density(end * i / panels) for i in range(1, panels))
    area = (density(0) + inner + density(end)) * end / panels / 3
    return max(0.0, 1 - 2 * area * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi))


def root(is_low, low, high):
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low


def mean_and_error(values):
    """The mean and its standard error."""
    n, mean = len(values), math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (n - 1) / n)


def mean_and_half(values):
    """The mean, and half of its 95 % interval by Student's t."""
    mean, error = mean_and_error(values)
    return mean, error * root(lambda t: student(t, len(values) - 1) > 0.05, 0.0, 1000.0)


def t_test(values):
    """Two-sided p of Student's t for a mean of zero."""
    mean, error = mean_and_error(values)
    return student(mean / error, len(values) - 1)


def clopper_pearson(hits, n):
    """Exact 95 % interval of a fraction."""
    tail = lambda p, counts: math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in counts)  # noqa: E731
    low = root(lambda p: tail(p, range(hits, n + 1)) < 0.025, 0.0, 1.0) if hits else 0.0
    high = root(lambda p: tail(p, range(hits + 1)) > 0.025, 0.0, 1.0) if hits < n else 1.0
    return low, high


def isotonic(values):
    """The non-decreasing sequence with the least squared distance, by pooling neighbours that are out of order."""
    pools = []
    for value in values:
        pools.append([value, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            last, n = pools.pop()
            before, m = pools[-1]
            pools[-1] = [(before * m + last * n) / (m + n), m + n]
    return [value for value, n in pools for _ in range(n)]


def slope(x, y):
    """The slope of the least-squares line."""
    middle, height = math.fsum(x) / len(x), math.fsum(y) / len(y)
    return math.fsum((a - middle) * (b - height) for a, b in zip(x, y)) / math.fsum((a - middle) ** 2 for a in x)
