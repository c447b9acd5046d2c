"""The primary contrasts of PLAN.md that need its own runs, and the table of plan A. Written before the runs."""

import csv
import math
import pathlib
import statistics

from exact import mean_and_error, mean_and_half, root, sign_flip, slope, student, t_test
from paired import holm

HERE = pathlib.Path(__file__).parent
MARGIN = 0.005

# A contrast's name, its kind of test, and the case whose difference from fp32 it tests.
PARITY = [
    ("1. E4M3 with E5M2 gradients equals fp32", "equivalence", "E4M3_E5M2"),
    ("2. MXFP8 equals fp32", "equivalence", "mxfp8"),
    ("3. NVFP4 is worse than fp32", "superiority", "nvfp4"),
]


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.DictReader(file))


def by_seed(rows, name):
    """Losses by case and seed."""
    cells = {}
    for of in rows:
        cells.setdefault(of[name], {})[int(of["seed"])] = float(of["loss"])
    return cells


def minus(own, other):
    """The differences by seed, without seeds of which a run has diverged: its loss is NaN or above a uniform guess over bytes."""
    sound = lambda loss: loss <= math.log(256)  # noqa: E731
    return [own[seed] - other[seed] for seed in sorted(own) if sound(own[seed]) and sound(other[seed])]


def signed_ranks(values):
    """The rank of each value's magnitude, the mean rank for equal ones, with the value's sign."""
    sizes = sorted(map(abs, values))
    rank = lambda size: sizes.index(size) + (sizes.count(size) + 1) / 2  # noqa: E731
    return [math.copysign(rank(abs(value)), value) for value in values]


def is_dominated(values):
    """True if one value supplies more than half of the squared deviations."""
    middle = statistics.fmean(values)
    squares = [(value - middle) ** 2 for value in values]
    return max(squares) > sum(squares) / 2


def above_zero(values):
    """One-sided p of a mean above zero: Student's t, or the exact signed-rank test if one value dominates the spread."""
    if is_dominated(values):
        return sign_flip(signed_ranks(values), one_sided=True)
    mean, error = mean_and_error(values)
    tail = student(mean / error, len(values) - 1) / 2
    return tail if mean > 0 else 1 - tail


def equivalence(values, margin=MARGIN):
    """The larger p of the two one-sided tests that the mean is above -margin and below it."""
    return max(above_zero([margin + value for value in values]), above_zero([margin - value for value in values]))


def least_detectable(values):
    """The true difference that a two-sided test at 5 % finds with probability 80 %: the sum of two quantiles of t, in standard errors."""
    _, error = mean_and_error(values)
    quantile = lambda p: root(lambda t: student(t, len(values) - 1) > p, 0.0, 1000.0)  # noqa: E731
    return error * (quantile(0.05) + quantile(0.4))


def onset_p():
    """p of contrast 4, the one-sided exact sign-flip test of the slopes of plan B."""
    losses, masses = by_seed(read("onset/losses.csv"), "case"), {}
    for of in read("onset/mass.csv"):
        if of["case"] == of["format"]:
            masses.setdefault(of["case"], []).append(float(of["steps_20_to_180"]))
    mass = {case: statistics.fmean(of) for case, of in masses.items()}
    rise = {case: minus(losses[case], losses["fp32"]) for case in mass}
    slopes = [slope(list(mass.values()), list(of)) for of in zip(*(rise[case] for case in mass))]
    return sign_flip(slopes, one_sided=True)


def shown(p):
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def signed(of, digits=4):
    return f"{of:+.{digits}f}".replace("-", "−")


def parity():
    cells, rates = by_seed(read("parity/losses.csv"), "case"), {}
    for of in read("parity/rates.csv"):
        if int(of["chosen"]):
            rates[of["case"]] = of["rate"]
    rows, found, differences = [], {}, {}
    for case, own in cells.items():
        values = minus(own, cells["fp32"])
        median, lost = f"{statistics.median(own.values()):.4f}", len(own) - len(minus(own, own))
        cells_of_row = [case, rates.get(case, rates["fp32"]), median, f"{lost} of {len(own)}"]
        if case != "fp32":
            (mean, half), middle = mean_and_half(values), statistics.median(values)
            differences[case] = f"{signed(mean)} ± {half:.4f}"
            cells_of_row += [differences[case], signed(middle), f"{math.exp(mean):.4f}", f"{max(map(abs, values)):.4f}", shown(sign_flip(values)), shown(t_test(values)), f"{least_detectable(values):.4f}"]
        rows.append(cells_of_row + [""] * (11 - len(cells_of_row)))
    yield "| case | rate | median loss | diverged | minus fp32 | median | perplexity ratio | largest | p, sign flip | p, t | detectable |", table(rows)
    for name, kind, case in PARITY:
        values = minus(cells[case], cells["fp32"])
        found[name] = equivalence(values) if kind == "equivalence" else sign_flip(values)
    found["4. The loss at the head grows with the zeroed mass"] = onset_p()
    # Without runs, contrast 5 counts with the p of 1.
    found["5. Muon's gap between E4M3 and fp32 differs from AdamW's"] = 1.0
    corrected, rows = holm(found), []
    for name, p in found.items():
        case = next((case for of, _, case in PARITY if of == name), None)
        verdict = "not run" if p == 1.0 and case is None else "confirmed" if corrected[name] < 0.05 else "not confirmed"
        rows.append([name, differences.get(case, ""), shown(p), shown(corrected[name]), verdict])
    yield "| contrast | minus fp32 | p | p after Holm | verdict |", table(rows)


def table(rows):
    return [f"| {' | '.join(cells)} |" for cells in rows]
