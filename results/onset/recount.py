"""An independent recount of the tables of this page: python3 results/onset/recount.py

Shares no code with tables.py: recounts from the records, takes the monotone fit as the largest of the smallest means, and fails if a number
of README.md differs.
"""

import math
import pathlib
import re

HERE = pathlib.Path(__file__).parent


def lines(path):
    return [line.split(",") for line in (HERE / path).read_text().splitlines()[1:]]


def cells(text):
    return [cell.strip().strip("*") for cell in text.strip("|").split("|")]


def number(text):
    return float(text.split(" ± ")[0].replace("−", "-").replace(",", ""))


def fitted(values):
    """The monotone least-squares fit: at i, the largest over j up to i of the smallest mean of j to k, over k from i on."""
    mean = lambda j, k: sum(values[j : k + 1]) / (k + 1 - j)  # noqa: E731
    return [max(min(mean(j, k) for k in range(i, len(values))) for j in range(i + 1)) for i in range(len(values))]


def averages(pairs):
    groups = {}
    for key, of in pairs:
        groups.setdefault(key, []).append(of)
    return {key: sum(of) / len(of) for key, of in groups.items()}


def share_of_signs(values):
    """The part of all choices of signs whose sum is at least that of the values, by counting sums one value at a time."""
    sums = [0.0]
    for of in values:
        sums = [sum_ + sign * of for sum_ in sums for sign in (1, -1)]
    return sum(sum_ > sum(values) - 1e-9 for sum_ in sums) / len(sums)


def main():
    loss = {(size, case, seed): float(value) for size, case, seed, value in lines("../vocabulary/losses.csv")}
    share = {(size, case): float(later) for size, case, _, later in lines("../vocabulary/zeroed.csv")}
    # The largest value in units of the smallest: significands and exponents of the formats, written out.
    ratio = {"E2M1": 12, "E2M3": 60, "E1M6": 127, "E2M5": 252, "E3M2": 448, "E3M4": 31 * 2**6, "E4M3": 14 * 2**14, "E5M2": 7 * 2**29}
    rise = {}
    for size in ("256", "1024", "4096", "16384"):
        for case in ratio:
            rise[size, case] = sum(loss[size, case, f"{seed}"] - loss[size, "fp32", f"{seed}"] for seed in range(1, 6)) / 5
    mass = averages((case, float(of)) for case, _, form, _, of in lines("mass.csv") if case == form)
    unrounded = averages(((size, form), float(of)) for size, _, form, _, of in lines("observed.csv"))
    load = {cell: int(cell[0]) / ratio[cell[1]] / 2 for cell in rise}
    predictors = {"load": load, "zeroed elements": share, "zeroed mass in fp32": unrounded}
    points = sorted((load["256", case], rise["256", case]) for case in ("E3M4", "E3M2", "E2M5", "E1M6", "E2M3", "E2M1"))

    def predicted(at):
        below, above = [of for of in points if of[0] <= at], [of for of in points if of[0] > at]
        if not below or not above:
            return below[-1][1] if below else 0.0
        (low, first), (high, last) = below[-1], above[0]
        part = (math.log2(at) - math.log2(low)) / (math.log2(high) - math.log2(low))
        return first * (1 - part) + last * part

    def distance(predictor, sizes):
        order = sorted((cell for cell in rise if cell[0] in sizes), key=lambda cell: (predictor[cell], rise[cell]))
        values = [rise[cell] for cell in order]
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(values, fitted(values))) / len(values))

    text = (HERE / "README.md").read_text()
    page = [cells(line) for line in text.splitlines() if line.startswith("| ")]
    run = {(case, seed): float(value) for case, seed, value in lines("losses.csv")}
    seeds = sorted({seed for _, seed in run})
    minus = lambda case: [run[case, seed] - run["fp32", seed] for seed in seeds]  # noqa: E731
    checked, wrong = 0, []

    def check(shown, value, digits):
        nonlocal checked
        checked += 1
        if abs(number(shown) - value) > 0.5001 * 10**-digits:
            wrong.append(f"{shown}: {value}")

    for of in page:
        cell = (of[1].replace(",", ""), of[0])
        if cell in rise:
            check(of[3], 100 * share[cell], 1)
            check(of[4], 100 * unrounded[cell], 1)
            check(of[6], rise[cell], 3)
            if of[5] != "curve":
                check(of[5], predicted(load[cell]), 3)
        elif of[0] in predictors:
            predictor = predictors[of[0]]
            check(of[1], distance(predictor, ["256"]), 3)
            check(of[2], distance(predictor, ["256", "1024", "4096", "16384"]), 3)
        elif (f"R{of[0].replace(',', '')}", "1") in run:
            case = f"R{of[0].replace(',', '')}"
            check(of[2], 100 * mass[case], 1)
            check(of[3], predicted(256 / int(case[1:]) / 2), 3)
            check(of[4], sum(minus(case)) / len(seeds), 3)
            check(of[5], 2 * min(share_of_signs(minus(case)), share_of_signs([-of for of in minus(case)])), 4)
    cases = sorted(mass, key=mass.get)
    middle = sum(mass.values()) / len(mass)
    spread = sum((of - middle) ** 2 for of in mass.values())
    slopes = [sum((mass[case] - middle) * minus(case)[i] for case in cases) / spread for i in range(len(seeds))]
    slope, holm, control, steps = re.search(r"slope of (\S+) .*? p = (\S+) .*? control, (\S+) nats.*? exceeds it at (\S+) %", text, re.S).groups()
    check(slope, sum(slopes) / len(slopes), 3)
    # One of the five contrasts of PLAN.md has a smaller p.
    check(holm, 4 * share_of_signs(slopes), 4)
    noise = max(map(abs, minus("ulp")))
    check(control, noise, 4)
    curve = fitted([sum(minus(case)) / len(seeds) for case in cases])
    check(steps, 100 * next(mass[case] for case, of in zip(cases, curve) if of > noise), 1)
    print(f"{checked - len(wrong)} of {checked} numbers agree", *wrong, sep="\n")
    raise SystemExit(bool(wrong) or checked < 100)


main()
