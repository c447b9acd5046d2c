"""An independent recount of the tables of this page: python3 results/parity/recount.py

Shares no code with planned.py and exact.py: losses are integers of 1e-6 nats, sums of signs are counted exactly as coefficients of a
polynomial, and Student's t is an incomplete beta function. Fails if a number of README.md differs.
"""

import math
import pathlib

HERE = pathlib.Path(__file__).parent
UNIT = 10**-6
MARGIN = 5000


def lines(path):
    return [line.split(",") for line in (HERE / path).read_text().splitlines()[1:]]


def share_of_signs(values):
    """The part of all choices of signs whose sum is at least that of the values.

    The choice that is negative where a subset of the magnitudes is subtracts twice its sum from the total. The number of subsets with the
    sum s is a digit of one large integer, and the sum of digits is its remainder.
    """
    digit = len(values) + 8
    subsets = 1
    for value in values:
        subsets += subsets << (digit * abs(value))
    most = (sum(map(abs, values)) - sum(values)) // 2
    return (subsets & ((1 << (digit * (most + 1))) - 1)) % ((1 << digit) - 1) / 2 ** len(values)


def both_tails(values):
    return min(1.0, 2 * min(share_of_signs(values), share_of_signs([-of for of in values])))


def beta_tail(x, a, b):
    """The regularized incomplete beta function, by its continued fraction from the far end on."""
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_tail(1 - x, b, a)
    fraction = 1.0
    for m in range(300, 0, -1):
        even = m * (b - m) * x / (a + 2 * m - 1) / (a + 2 * m)
        odd = -(a + m - 1) * (a + b + m - 1) * x / (a + 2 * m - 2) / (a + 2 * m - 1)
        fraction = 1 + odd / (1 + even / fraction)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front / a / fraction


def two_sided(t, freedom):
    return beta_tail(freedom / (freedom + t * t), freedom / 2, 0.5)


def quantile(p, freedom):
    step, t = 512.0, 0.0
    while step > 1e-9:
        t, step = (t + step, step) if two_sided(t + step, freedom) > p else (t, step / 2)
    return t


def error_of(values):
    n = len(values)
    return math.sqrt((n * sum(of * of for of in values) - sum(values) ** 2) / (n - 1)) / n


def above(values):
    """One-sided p: t, or the signed ranks (twice the rank is an integer) if one value supplies more than half of the squared deviations."""
    n, total = len(values), sum(values)
    squares = [(n * of - total) ** 2 for of in values]
    if 2 * max(squares) > sum(squares):
        rank = lambda of: sum(abs(other) < abs(of) for other in values) + sum(abs(other) <= abs(of) for other in values) + 1  # noqa: E731
        return share_of_signs([rank(of) if of > 0 else -rank(of) for of in values])
    tail = two_sided(total / n / error_of(values), n - 1) / 2
    return tail if total > 0 else 1 - tail


def middle_of(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def main():
    run = {}
    for case, seed, value, _ in lines("losses.csv"):
        if value != "NaN" and float(value) <= math.log(256):
            run.setdefault(case, {})[seed] = round(float(value) / UNIT)
    minus = {case: [of[seed] - run["fp32"][seed] for seed in of if seed in run["fp32"]] for case, of in run.items() if case != "fp32"}
    page = [[cell.strip() for cell in line.strip("|").split("|")] for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ")]
    checked, wrong = 0, []

    def check(shown, value, digits=4):
        nonlocal checked
        checked += 1
        if shown.startswith("<"):
            agrees = value < float(shown[1:])
        else:
            agrees = abs(float(shown.replace("−", "-")) - value) <= 0.5001 * 10**-digits
        if not agrees:
            wrong.append(f"{shown}: {value}")

    for case, of in run.items():
        shown = next(row for row in page if row[0] == case and len(row) == 11)
        check(shown[2], middle_of(of.values()) * UNIT)
        if case in minus:
            values = minus[case]
            mean, error, freedom = sum(values) / len(values), error_of(values), len(values) - 1
            own, half = shown[4].split(" ± ")
            check(own, mean * UNIT)
            check(half, quantile(0.05, freedom) * error * UNIT)
            check(shown[5], middle_of(values) * UNIT)
            check(shown[6], math.exp(mean * UNIT))
            check(shown[7], max(map(abs, values)) * UNIT)
            check(shown[8], both_tails(values))
            check(shown[9], two_sided(mean / error, freedom))
            check(shown[10], (quantile(0.05, freedom) + quantile(0.4, freedom)) * error * UNIT)
    found = {"3": both_tails(minus["nvfp4"])}
    for number, case in (("1", "E4M3_E5M2"), ("2", "mxfp8")):
        found[number] = max(above([MARGIN + of for of in minus[case]]), above([MARGIN - of for of in minus[case]]))
    contrasts = {row[0][0]: row for row in page if row[0][1:2] == "."}
    for number, p in found.items():
        check(contrasts[number][2], p)
    # Those of plans B and D are recounted by the scripts of their pages.
    corrected = {number: found.get(number, float(row[2].strip("< "))) for number, row in contrasts.items()}
    least = 0.0
    for rank, number in enumerate(sorted(corrected, key=corrected.get)):
        least = max(least, min(1.0, (len(corrected) - rank) * corrected[number]))
        if number in found:
            check(contrasts[number][3], least)
    print(f"{checked - len(wrong)} of {checked} numbers agree", *wrong, sep="\n")
    raise SystemExit(bool(wrong) or checked < 80)


main()
