"""The primary contrasts of PLAN.md, and the tables of plans A, D and E. Written before the runs, except `late_runs`."""

import math
import pathlib
import statistics

from cells import row
from exact import clopper_pearson, mean_and_error, mean_and_half, root, sign_flip, slope, student, t_test
from losses import rows_of
from paired import holm

HERE = pathlib.Path(__file__).parent
MARGIN = 0.005
RECORD_OF_D = "interaction/losses.csv"
AUXILIARY = ["aux0.003", "aux0.03"]

# The next run leaves the plateau at step 800.
LATE = 600

# A contrast's name, its kind of test, and the case whose difference from fp32 it tests.
PARITY = [
    ("1. E4M3 with E5M2 gradients equals fp32", "equivalence", "E4M3_E5M2"),
    ("2. MXFP8 equals fp32", "equivalence", "mxfp8"),
    ("3. NVFP4 is worse than fp32", "superiority", "nvfp4"),
]


def by_seed(record):
    """Losses by case and seed."""
    cells = {}
    for of in rows_of(HERE / record):
        cells.setdefault(of["case"], {})[int(of["seed"])] = float(of["loss"])
    return cells


def gaps(own, other):
    """The differences by seed, without seeds of which a run has diverged: its loss is NaN or above a uniform guess over bytes."""
    sound = lambda loss: loss <= math.log(256)  # noqa: E731
    return {seed: own[seed] - other[seed] for seed in sorted(own) if sound(own[seed]) and sound(other[seed])}


def minus(own, other):
    return list(gaps(own, other).values())


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
    losses, masses = by_seed("onset/losses.csv"), {}
    for of in rows_of(HERE / "onset/mass.csv"):
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


def chosen_rates(page):
    return {of["case"]: of["rate"] for of in rows_of(HERE / page / "rates.csv") if int(of["chosen"])}


def tuning(page):
    """The table of mean losses by rate, that of the chosen rate bold."""
    found, chosen = {}, chosen_rates(page)
    for of in rows_of(HERE / page / "rates.csv"):
        found.setdefault(of["case"], {}).setdefault(of["rate"], []).append(float(of["loss"]))
    rates = sorted({rate for of in found.values() for rate in of}, key=float)

    def cell(case, rate):
        losses = found[case].get(rate)
        mean = f"{statistics.fmean(losses):.4f}" + (f" ({len(losses)} of 3)" if len(losses) != 3 else "") if losses else ""
        return f"**{mean}**" if chosen.get(case) == rate else mean

    return f"| case | {' | '.join(rates)} |", [row(case, *(cell(case, rate) for rate in rates)) for case in found]


def difference(values):
    """Mean and 95 % interval, median, p of both tests, and the smallest detectable difference, as cells of a table."""
    mean, half = mean_and_half(values)
    tests = shown(sign_flip(values)), shown(t_test(values))
    return f"{signed(mean)} ± {half:.4f}", signed(statistics.median(values)), *tests, f"{least_detectable(values):.4f}"


def outcome(own):
    """Median loss, and runs that diverged."""
    return f"{statistics.median(own.values()):.4f}", f"{len(own) - len(minus(own, own))} of {len(own)}"


def parity():
    cells, rates = by_seed("parity/losses.csv"), chosen_rates("parity")
    rows, found, differences = [], {}, {}
    for case, own in cells.items():
        begin = case, rates.get(case, rates["fp32"]), *outcome(own)
        if case == "fp32":
            rows.append(row(*begin, *[""] * 7))
            continue
        values = minus(own, cells["fp32"])
        differences[case], middle, *tests = difference(values)
        ratio, largest = math.exp(statistics.fmean(values)), max(map(abs, values))
        rows.append(row(*begin, differences[case], middle, f"{ratio:.4f}", f"{largest:.4f}", *tests))
    yield "| case | rate | median loss | diverged | minus fp32 | median | perplexity ratio | largest | p, sign flip | p, t | detectable |", rows
    for name, kind, case in PARITY:
        values = minus(cells[case], cells["fp32"])
        found[name] = equivalence(values) if kind == "equivalence" else sign_flip(values)
    found["4. The loss at the head grows with the zeroed mass"] = onset_p()
    last = "5. Muon's gap between E4M3 and fp32 differs from AdamW's"
    # Without its runs, contrast 5 counts with the p of 1.
    found[last] = sign_flip(signed_ranks(interaction_by_seed()[-1])) if has_plan_d() else 1.0
    corrected, rows = holm(found), []
    for name, p in found.items():
        case = next((case for of, _, case in PARITY if of == name), None)
        verdict = "not run" if p == 1.0 and name == last else "confirmed" if corrected[name] < 0.05 else "not confirmed"
        rows.append(row(name, differences.get(case, ""), shown(p), shown(corrected[name]), verdict))
    yield "| contrast | minus fp32 | p | p after Holm | verdict |", rows
    yield late_runs(cells)
    yield tuning("parity")


def late_runs(cells):
    """Exploratory: the runs that leave the plateau after step LATE, and the differences from fp32 without them."""
    left = {(of["case"], int(of["seed"])): int(of["left_plateau"] or 10**6) for of in rows_of(HERE / "parity/losses.csv")}
    rows = []
    for case, own in cells.items():
        late = sum(left[case, seed] > LATE for seed in own)
        low, high = (f"{100 * end:.0f}" for end in clopper_pearson(late, len(own)))
        early = [seed for seed in own if max(left[case, seed], left["fp32", seed]) <= LATE]
        values = [own[seed] - cells["fp32"][seed] for seed in early] if case != "fp32" else []
        shown_values = (str(len(values)), *difference(values)) if len(values) > 1 else [""] * 6
        rows.append(row(case, f"{late} of {len(own)} ({low} to {high} %)", *shown_values))
    return "| case | leave the plateau late | pairs | minus fp32 | median | p, sign flip | p, t | detectable |", rows


def four_bits():
    """Plan E: differences from fp32 and from NVFP4 in both blocks, and the parts of MXFP4's increase, with the same seeds."""
    cells, rates, base = by_seed("four-bits/losses.csv"), chosen_rates("four-bits"), by_seed(RECORD_OF_D)["adamw_aux0.003_fp32"]
    rows = []
    for case, own in cells.items():
        to_nvfp4 = difference(minus(own, cells["nvfp4_both"])) if case != "nvfp4_both" else [""] * 5
        rows.append(row(case, rates[case], *outcome(own), *difference(minus(own, base)), *to_nvfp4))
    head = " | ".join(["minus fp32", "median", "p, sign flip", "p, t", "detectable"])
    yield f"| case | rate | median loss | diverged | {head} | {head.replace('fp32', 'nvfp4_both')} |", rows
    whole, without, only = (cells[case] for case in ("mxfp4", "mxfp4_hp_wgrad", "mxfp4_only_wgrad"))
    last, others = gaps(whole, without), gaps(without, base)
    parts = {
        "fprop and dgrad: mxfp4_hp_wgrad minus fp32": list(others.values()),
        "wgrad added to them: mxfp4 minus mxfp4_hp_wgrad": list(last.values()),
        "wgrad alone: mxfp4_only_wgrad minus fp32": minus(only, base),
        "the second minus the first": [last[seed] - others[seed] for seed in last if seed in others],
    }
    yield "| products in MXFP4 | increase | median | p, sign flip | p, t | detectable |", [row(name, *difference(of)) for name, of in parts.items()]
    yield tuning("four-bits")


def has_plan_d():
    """True if all of its seeds have run: no difference is computed before."""
    cells = by_seed(RECORD_OF_D) if (HERE / RECORD_OF_D).exists() else {}
    return len(cells) == 8 and all(len(of) == 20 for of in cells.values())


def interaction_by_seed():
    """Muon's gap between E4M3 and fp32 minus AdamW's: with each rate of embedding and head, and the mean of both, which contrast 5 tests."""
    cells = by_seed(RECORD_OF_D)
    gap = {(name, rate): gaps(cells[f"{name}_{rate}_E4M3"], cells[f"{name}_{rate}_fp32"]) for name in ("muon", "adamw") for rate in AUXILIARY}
    seeds = sorted(set.intersection(*map(set, gap.values())))
    by_rate = [[gap["muon", rate][seed] - gap["adamw", rate][seed] for seed in seeds] for rate in AUXILIARY]
    return *by_rate, [statistics.fmean(of) for of in zip(*by_rate)]


def interaction():
    if has_plan_d():
        yield from gaps_by_optimizer()
    yield tuning("interaction")


def gaps_by_optimizer():
    cells, rates = by_seed(RECORD_OF_D), chosen_rates("interaction")
    rows = []
    for name in dict.fromkeys(case.rsplit("_", 1)[0] for case in cells):
        own = [f"{name}_{form}" for form in ("fp32", "E4M3")]
        outcomes = zip(*(outcome(cells[case]) for case in own))
        shown_outcomes = [text for pair in outcomes for text in pair]
        rows.append(row(*name.split("_aux"), *(rates[case] for case in own), *shown_outcomes, *difference(minus(cells[own[1]], cells[own[0]]))))
    yield "| optimizer | rate of embedding and head | rate, fp32 | rate, E4M3 | median loss, fp32 | E4M3 | diverged, fp32 | E4M3 | E4M3 minus fp32 | median | p, sign flip | p, t | detectable |", rows
    names = *(of.removeprefix("aux") for of in AUXILIARY), "mean of both"
    rows = [row(name, *difference(values), shown(sign_flip(signed_ranks(values)))) for name, values in zip(names, interaction_by_seed())]
    yield "| rate of embedding and head | Muon's gap minus AdamW's | median | p, sign flip | p, t | detectable | p, signed rank |", rows
