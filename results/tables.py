"""Tables of the pages in this folder and the README's picture, from the committed records: python3 results/tables.py [--check]

Replaces the rows of each table in the experiments' README.md. With `--check` it writes nothing, names the files that would change and
fails; a test of the project does this. A table is found by its header line, in the order of the page.
"""

import itertools
import math
import pathlib
import statistics
import sys

from cells import columns, losses, mean, read, row, sound, text, to_fp32
from exact import clopper_pearson, isotonic, mean_and_half, sign_flip
from figures import digest, sensitivity
from paired import family
from planned import four_bits, interaction, parity

HERE = pathlib.Path(__file__).parent
FORMATS = ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6", "E2M1"]
ROLES = ["weight", "activation", "grad"]
SITES = ["qkv", "attention_output", "mlp_up", "mlp_down", "head"]


def site_name(site):
    return site.replace("_", " ").replace("mlp", "MLP")


def alerts():
    runs, early = read("alerts/runs.csv"), {run: (int(fails), int(alert)) for run, fails, alert, _ in read("alerts/early.csv")}
    healthy = [run for run in runs if run[0] == "healthy" and not run[3]]
    failing = [run for run in runs if run[3]]
    # Failures that are not in `early.csv` begin after the first median over ten steps, and their alert comes before it.
    late = [alert - fails for fails, alert in early.values() if alert >= fails]
    silent = sum(not run[5] for run in failing)
    yield "| | |", [
        row("runs of `healthy.toml` that train well", str(len(healthy))),
        row("of them raised an alert", str(sum(bool(run[6]) for run in healthy))),
        row("failing runs of both files", str(len(failing))),
        row("of them raised an alert before the failure begins", str(len(failing) - silent - len(late))),
        row(f"of them raised the first alert later, by {min(late)} to {max(late)} steps", str(len(late))),
        row("of them raised no alert", str(silent)),
    ]
    yield "| configurations | number | raise an alert, 95 % interval | by kinds chosen without them | by thresholds chosen without them |", configurations(runs)


def configurations(runs):
    """Alerts by configuration, of which a run is one seed: with all kinds, and with those that no other sound configuration raises."""
    raised, fails = {}, {}
    for file, run, _, begins, _, _, alerts in runs:
        case = file, run.split("_", 1)[1]
        raised.setdefault(case, set()).update(alert.split("@")[0] for alert in alerts.split())
        fails.setdefault(case, set()).add(bool(begins))
    # The seeds of each configuration agree.
    assert all(len(of) == 1 for of in fails.values())
    false = {case: raised[case] for case, of in fails.items() if of == {False}}
    others = {case: set().union(*(of for other, of in false.items() if other != case)) for case in raised}
    classes = {
        "fail": [case for case in raised if case not in false],
        "of `healthy.toml`, train well": [case for case in false if case[0] == "healthy"],
        "of `failing.toml`, end within 5 %": [case for case in false if case[0] == "failing"],
    }
    for name, cases in classes.items():
        hits, chosen = sum(bool(raised[case]) for case in cases), sum(bool(raised[case] - others[case]) for case in cases)
        by_threshold = sum(raises_by_threshold(case, set(false) - {case}) for case in cases)
        low, high = (f"{100 * end:.1f}" for end in clopper_pearson(hits, len(cases)))
        yield row(name, str(len(cases)), f"{hits} ({low} to {high} %)", str(chosen), str(by_threshold))


def raises_by_threshold(case, others):
    """True if a configuration raises an alert of a kind at the most sensitive of its thresholds at which none of `others` does."""
    chosen = {}
    for kind, _, _, raised in read("alerts/thresholds.csv"):
        raised = {tuple(of.split("/")) for of in raised.split()}
        if not raised & others:
            chosen.setdefault(kind, raised)
    return any(case in raised for raised in chosen.values())


def claims():
    fixed = {"hybrid": ("baseline", "bf16", ""), "gains": ("gains", "gain-fp32", ""), "attention": ("attention", "nearest", "")}
    fixed |= {"split": ("split", "fp32", ""), "swiglu": ("swiglu", "fp32", ""), "fp4": ("fp4", "nvfp4", "")}
    of_rate = {"rates": "fp32", "stored": "master"}

    def baseline(cell):
        matrix, _, rate = cell
        return (matrix, of_rate[matrix], rate) if matrix in of_rate else fixed.get(matrix, ("baseline", "fp32", ""))

    cells = sound(losses("claims/losses.csv"))
    for matrix in ["hybrid", "split", "rates", "stored", "fp4", "swiglu", "gains", "attention", "states"]:
        found = family(cells, lambda cell: baseline(cell) if cell[0] == matrix else cell)
        rows = []
        for cell, of in ((cell, of) for cell, of in cells.items() if cell[0] == matrix):
            rows.append(row(cell[1], cell[2], mean(of), *columns(found.get(cell))))
        yield "| case | rate | held-out loss | minus baseline | smallest detectable difference |", rows


def e7m0():
    cells, found = to_fp32("e7m0/losses.csv")
    rows = [row(case, mean(cells[case]), *columns(of)) for case, of in found.items()]
    yield "| case | held-out loss | minus fp32 | smallest detectable difference |", rows
    shown = ["all", "stored-nearest", "stored-stochastic"]
    rows = [row(*line) for line in read("e7m0/timeline.csv") if line[0] in shown]
    yield "| case | step | training loss | update sparsity | stall | gradient underflow |", rows


# Largest over smallest value of the formats of results/vocabulary; those of the host's curve first.
RANGES = {"E3M4": 1984, "E3M2": 448, "E2M5": 252, "E1M6": 127, "E2M3": 60, "E2M1": 12, "E4M3": 229376, "E5M2": 3758096384}


def between(points, at):
    """The increase at a load as the host's warning predicts it: linear in the logarithm, 0 below the points, the last one beyond."""
    if at < points[0][0]:
        return 0.0
    if at >= points[-1][0]:
        return points[-1][1]
    (low, first), (high, last) = next(pair for pair in itertools.pairwise(points) if pair[0][0] <= at < pair[1][0])
    return first + (last - first) * math.log(at / low) / math.log(high / low)


def monotone_error(pairs):
    """The root mean squared distance of increases from their isotonic fit on a predictor."""
    ordered = [measured for _, measured in sorted(pairs)]
    return math.sqrt(statistics.fmean((a - b) ** 2 for a, b in zip(ordered, isotonic(ordered))))


def mean_mass(name, key):
    """The mean over seeds of the zeroed mass over steps 20 to 180, by cell."""
    masses = {}
    for *cell, of in read(name):
        if key(*cell[:3]):
            masses.setdefault(key(*cell[:3]), []).append(float(of))
    return {cell: statistics.fmean(of) for cell, of in masses.items()}


def onset():
    found = family(losses("vocabulary/losses.csv"), lambda cell: (cell[0], "fp32"))
    cells = [(size, case) for size, case in found if case in RANGES]
    zeroed = {(size, case): float(later) for size, case, _, later in read("vocabulary/zeroed.csv")}
    in_fp32 = mean_mass("onset/observed.csv", lambda size, _, form: (size, form))
    load = {(size, case): int(size) / (2 * RANGES[case]) for size, case in cells}
    curve = [(load["256", case], found["256", case].mean) for case in list(RANGES)[:6]]
    runs = losses("onset/losses.csv")
    mass = mean_mass("onset/mass.csv", lambda case, _, form: (case,) if case == form else None)
    rows = []
    for case in sorted(mass, key=mass.get):
        at = 128 / int(case[0][1:])
        minus = [loss - runs["fp32",][seed] for seed, loss in runs[case].items()]
        (middle, half), p = mean_and_half(minus), sign_flip(minus)
        measured = f"{middle:+.3f} ± {half:.3f}".replace("-", "−")
        rows.append(row(f"{int(case[0][1:]):,}", f"{at:.2f}", f"{100 * mass[case]:.1f}", f"{between(curve, at):.3f}", measured, f"{p:.4f}"))
    yield "| largest / smallest | load | zeroed mass, % | predicted | measured | p |", rows
    rows = []
    for cell in sorted(cells, key=load.get):
        shown = f"{load[cell]:.2f}" if load[cell] >= 0.005 else f"{load[cell]:.1e}"
        predicted = "curve" if load[cell] in dict(curve) else f"{between(curve, load[cell]):.3f}"
        shares = (f"{100 * zeroed[cell]:.1f}", f"{100 * in_fp32[cell]:.1f}")
        rows.append(row(cell[1], f"{int(cell[0]):,}", shown, *shares, predicted, text(found[cell], 3)))
    yield "| format | vocabulary | load | zeroed elements, % | zeroed mass in fp32, % | predicted | measured |", rows
    rows = []
    for name, predictor in [("load", load), ("zeroed elements", zeroed), ("zeroed mass in fp32", in_fp32)]:
        errors = [monotone_error([(predictor[cell], found[cell].mean) for cell in cells if cell[0] in sizes]) for sizes in (["256"], ["256", "1024", "4096", "16384"])]
        rows.append(row(name, *(f"{error:.3f}" for error in errors)))
    yield "| predictor | 256 tokens | all vocabularies |", rows


def optimizers():
    cells, tried, chosen = losses("optimizers/losses.csv"), {}, {}
    for *cell, _, value, _, _, is_chosen in read("optimizers/rates.csv"):
        tried.setdefault(tuple(cell), []).append(float(value))
        if int(is_chosen):
            chosen[tuple(cell)] = float(value)
    exact = ("fp32", "fp32", "adamw")
    same = family(cells, lambda cell: (*cell[:2], "adamw"))
    to_exact = family(cells, lambda cell: cell if cell[0] == "fp32" else exact)
    unquantized = family(cells, lambda cell: ("fp32", "fp32", cell[2]))
    for form in ["fp32", "E4M3", "E5M2", "E3M4", "E2M1", "E7M0"]:
        rows = []
        for cell in (cell for cell in cells if cell[0] == form):
            rate = f"{chosen[cell]:g}" + (" (edge)" if chosen[cell] in (min(tried[cell]), max(tried[cell])) else "")
            differences = (*columns(same.get(cell)), columns(to_exact.get(cell))[0], *columns(unquantized.get(cell)))
            rows.append(row(*cell[1:], rate, mean(cells[cell]), *differences))
        head = "| storage | optimizer | rate | held-out loss | minus AdamW | detectable | minus AdamW in fp32 | minus itself in fp32 | detectable |"
        yield head, rows
    for own, other, title in [("stiffness", "madam", "StiffnessAdamW minus Madam"), ("muon", "soap", "Muon minus SOAP")]:
        found = family(cells, lambda cell: (*cell[:2], other) if cell[2] == own else cell)
        yield f"| format | storage | {title} | detectable |", [row(*cell[:2], *columns(of)) for cell, of in found.items()]
    kept = ("adamw", "muon")
    found = family(cells, lambda cell: (cell[0], "stochastic", cell[2]) if cell[1] == "feedback" and cell[2] in kept else cell)
    rows = [row(cell[0], cell[2], *columns(of)) for cell, of in found.items()]
    yield "| format | optimizer | feedback minus stochastic | detectable |", rows
    found = family(cells, lambda cell: (cell[0], "master", cell[2]))
    rows = [
        row(form, optimizer, *columns(found.get((form, "stochastic", optimizer))), *columns(found.get((form, "feedback", optimizer))))
        for form, storage, optimizer in cells
        if storage == "master"
    ]
    yield "| format | optimizer | stochastic minus master | detectable | feedback minus master | detectable |", rows


def designed():
    cells = losses("designed/losses.csv")
    found = family(cells, lambda _: ("fp32",))
    rows = [row(*cell, mean(of, spread=True), *columns(found.get(cell))) for cell, of in cells.items()]
    yield "| format | held-out loss | minus fp32 | detectable |", rows
    # The contrasts of the plan, and no other, are one family.
    contrasts = {("LLOYD4", other): (other,) for other in ("E2M1", "INT4")}
    both = cells | dict.fromkeys(contrasts, cells["LLOYD4",])
    found = family(both, lambda cell: contrasts.get(cell, cell))
    rows = [row(f"`LLOYD4` minus {other}", text(of), f"{of.p:.2g}", f"{of.detectable:.4f}") for (_, other), of in found.items()]
    yield "| contrast | difference | p | detectable |", rows


def ranges():
    rows = [row(role, site_name(site), *values) for role, site, *values in read("range/profile.csv")]
    yield f"| role | layer type | range, binades | kurtosis | {' | '.join(FORMATS)} |", rows
    zeroed = {(form, site): f"{100 * float(share):.1f}" for form, _, site, share in read("range/underflow.csv")}
    rows = [row(site_name(site), *(zeroed[form, site] for form in FORMATS)) for site in SITES]
    yield f"| layer type | {' | '.join(FORMATS)} |", rows
    shares = {case: f"{100 * float(share):.1f}" for case, share in read("range/head_underflow.csv")}
    _, found = to_fp32("range/head.csv")
    rows = [row(case, shares[case], *columns(of)) for case, of in found.items()]
    yield "| case | zeroed % | minus fp32 | smallest detectable difference |", rows
    rows = [row(case, *columns(of)) for case, of in to_fp32("range/remedy.csv")[1].items()]
    yield "| case | minus fp32 | smallest detectable difference |", rows


def recipe_losses():
    cells, _ = to_fp32("recipes/losses.csv")
    # These two have equal losses, and count as one test.
    twin, own = "torchao_mxfp8", "mxfp8"
    assert cells[twin] == cells[own]
    found = family({case: of for case, of in cells.items() if case != twin}, lambda _: "fp32")
    found[twin] = found[own]
    return cells, found


def recipes():
    cells, found = recipe_losses()
    casts = {}
    for recipe, _, *values in read("recipes/casts.csv"):
        casts.setdefault(recipe, []).append([float(value) if value else None for value in values])
    rows = []
    for recipe, seeds in casts.items():
        cosine, overflow, underflow, *sqnr = (average(column) for column in zip(*seeds))
        rates = ("-" if rate is None else f"{100 * rate:.3f}" for rate in (overflow, underflow))
        pairs = (", ".join(f"{of:.1f}" for of in pair if of is not None) or "-" for pair in zip(sqnr[::2], sqnr[1::2]))
        difference = columns(found[recipe]) if recipe in found else ("-", "-")
        rows.append(row(recipe, mean(cells[recipe], spread=True), *difference, f"{cosine:.5f}", *rates, *pairs))
    head = "| recipe | held-out loss | minus fp32 | detectable | gradient cosine | overflow % | underflow % | SQNR dB: weight, in dgrad | activation, in wgrad | gradient, in wgrad |"
    yield head, rows
    cells, found = recipes_2026()
    to_nvfp4 = family(cells, lambda _: "nvfp4")
    cost = {recipe: f"{float(ratio):.1f}" for recipe, _, ratio in read("recipes/cost-2026.csv")}
    head = "| recipe | held-out loss | minus fp32 | detectable | minus NVFP4 | detectable | time per step over fp32 |"
    yield head, [row(case, mean(of, spread=True), *columns(found.get(case)), *columns(to_nvfp4.get(case)), cost[case]) for case, of in cells.items()]


def recipes_2026():
    """The recipes of the second record whose seeds are complete, beside four of the first, whose losses it repeats for some seeds."""
    earlier, later = losses("recipes/losses.csv"), losses("recipes/losses-2026.csv")
    cells = {case: earlier[case,] for case in ("fp32", "mxfp4", "nvfp4", "quartet")}
    assert all(later[case,].items() <= of.items() for case, of in cells.items())
    cells |= {case: of for (case,), of in later.items() if case not in cells and len(of) == 5}
    return cells, family(cells, lambda _: "fp32")


def recipe_page(page):
    """The book's page with the measured difference in the last cell of each recipe's row: the later record, where it has the recipe."""
    found = recipe_losses()[1] | recipes_2026()[1]
    names = {path.stem for path in (HERE.parent / "configs/recipes").glob("*.toml")}

    def with_difference(line):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = cells[0].strip("`")
        if len(cells) != 4 or name not in names:
            return line
        names.discard(name)
        return row(*cells[:3], text(found[name]) if name in found else "not measured")

    page = "\n".join(map(with_difference, page.split("\n")))
    if names:
        sys.exit(f"docs/recipes.md lacks {', '.join(sorted(names))}")
    return page


def average(values):
    present = [value for value in values if value is not None]
    return statistics.fmean(present) if present else None


def reference():
    # Held-out loss, gradient cosine, unchanged codes and overflow by step, of each run; None where a step has no value.
    runs = {}
    for run, step, _, *values in read("reference/steps.csv"):
        runs.setdefault(run, {})[int(step)] = [float(value) if value else None for value in values]
    loss = {run: {step: values[0] for step, values in steps.items() if values[0] is not None} for run, steps in runs.items()}
    rows = []
    for run, steps in runs.items():
        # The last evaluation that the run shares with bf16.
        last = max(loss[run].keys() & loss["bf16"].keys())
        own, ratio = loss[run][last], loss[run][last] / loss["bf16"][last]
        _, cosines, stalls, overflows = ([of for of in column if of is not None] for column in zip(*(of for step, of in steps.items() if step <= last)))
        means = (f"{statistics.fmean(of):.4f}" if of else "" for of in (cosines, stalls))
        perplexity = f"{math.exp(own):.2f}" if math.exp(own) < 1e6 else f"{math.exp(own):.2e}".replace("e+", "e")
        overflow = f"{max(overflows):.2e}" if overflows else ""
        verdict = "baseline" if run == "bf16" else "within 10 %" if abs(ratio - 1) <= 0.1 else "outside 10 %"
        rows.append(row(run, str(last), f"{own:.4f}", perplexity, f"{ratio:.4f}", *means, overflow, verdict))
    yield "| run | step | held-out loss | perplexity | ratio | gradient cosine | codes unchanged | largest overflow | verdict |", rows
    zeroed = {}
    for run, layer_type, share in read("reference/zeroed.csv"):
        zeroed.setdefault(run, {})[layer_type] = f"{100 * float(share):.2f}"
    rows = [row(site, *(of.get(site, "") for of in zeroed.values())) for site in map(site_name, SITES)]
    yield f"| layer type | {' | '.join(zeroed)} |", rows
    head = {}
    for run, step, value in read("reference/head.csv"):
        head.setdefault(run, {})[int(step)] = float(value)
    runs = {run: loss[run] for run in ("bf16", "E3M4")} | head
    rows = [row(run, *(f"{of[step]:.4f}" for step in (100, 200))) for run, of in runs.items()]
    yield "| run | step 100 | step 200 |", rows


def stability():
    formats, optimizers = ["fp32", "E3M4", "E4M3", "E5M2", "E7M0", "E2M1"], ["adamw", "sgd", "muon"]
    ends, logarithms = {}, {}
    for form, optimizer, seed, stable, unstable in read("stability/rates.csv"):
        shown = "none" if not stable else stable if unstable else f"≥ {stable}"
        ends.setdefault((form, optimizer), []).append((float(stable or 0), shown))
        # Cells that bisection bounded for every seed are compared.
        bounded = math.log2(float(stable)) if stable and unstable else math.nan
        logarithms.setdefault((form, optimizer), {})[int(seed)] = bounded
    rows = []
    for form in formats:
        found = [sorted(ends[form, optimizer]) for optimizer in optimizers]
        rows.append(row(form, *(f"{of[2][1]} ({of[0][1]} to {of[4][1]})" for of in found)))
    yield "| format | AdamW | SGD | Muon |", rows
    found = family(logarithms, lambda cell: ("fp32", cell[1]))
    rows = []
    for optimizer, form in ((optimizer, form) for optimizer in optimizers for form in formats if (form, optimizer) in found):
        of = found[form, optimizer]
        factor = f"**{2**of.mean:.2f}**" if of.significant else f"{2**of.mean:.2f}"
        low, high = 2 ** (of.mean - of.half), 2 ** (of.mean + of.half)
        rows.append(row(optimizer, form, factor, f"{low:.2f} to {high:.2f}", f"{2**of.detectable:.2f}"))
    yield "| optimizer | format | factor | 95 % interval | detectable |", rows


def stored_scales():
    cells = sound(losses("stored-scales/losses.csv"))
    before = {"power_of_two": "fixed", "dynamic": "power_of_two"}
    found = family(cells, lambda cell: (*cell[:3], before.get(cell[3], cell[3])))
    axes = ["E1M6", "E3M4", "E4M3", "E5M2", "E7M0"], ["adamw", "stiffness", "manifold"], ["nearest-even", "stochastic"]
    rows = []
    for cell in itertools.product(*axes):
        own = [(*cell, rule) for rule in ("fixed", "power_of_two", "dynamic")]
        shown = (mean(cells[one], 3, spread=True) for one in own)
        differences = [found.get(cell) for cell in own[1:]]
        texts = (text(of, 3) if of else "" for of in differences)
        detectable = ", ".join(f"{of.detectable:.3f}" if of else "–" for of in differences)
        rows.append(row(*cell, *shown, *texts, detectable))
    yield "| format | optimizer | rounding | `fixed` | `power_of_two` | `dynamic` | `power_of_two` − `fixed` | `dynamic` − `power_of_two` | detectable |", rows


def vocabulary():
    sizes, head = ["256", "1024", "4096", "16384"], "| case | 256 | 1,024 | 4,096 | 16,384 |"
    cells = losses("vocabulary/losses.csv")
    found = family(cells, lambda cell: (cell[0], "fp32"))
    cases = list(dict.fromkeys(case for _, case in found))
    shares = {(size, case): f"{100 * float(first):.1f}, {100 * float(later):.1f}" for size, case, first, later in read("vocabulary/zeroed.csv")}
    fp32 = row("fp32", *(mean(cells[size, "fp32"]) for size in sizes))
    yield head, [fp32, *(row(case, *(text(found[size, case]) for size in sizes)) for case in cases)]
    yield head, [row(case, *(f"{found[size, case].detectable:.4f}" for size in sizes)) for case in cases]
    yield head, [row(case, *(shares[size, case] for size in sizes)) for case in cases]


def by_site(cells):
    return family({cell: of for cell, of in cells.items() if cell[0] != "INT8"}, lambda _: ("fp32", "none", "none"))


def picture():
    record = "where/losses.csv"
    return sensitivity(by_site(losses(record)), FORMATS, ROLES, {site: site_name(site) for site in SITES}, HERE / record)


def where():
    cells = losses("where/losses.csv")
    found = by_site(cells)
    # INT8 is E1M6's grid with another scale.
    found |= {cell: found["E1M6", *cell[1:]] for cell, of in cells.items() if cell[0] == "INT8" and of == cells["E1M6", *cell[1:]]}

    def cell(*key):
        return text(found[key]) if key in found else "not run"

    for form in ["E2M1", "E5M2", "E4M3", "E3M4", "E7M0", "E1M6"]:
        rows = [row(site_name(site), *(cell(form, role, site) for role in ROLES)) for site in SITES]
        yield "| layer type | weights | activations | gradients |", rows
    formats = ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6", "INT8", "E2M1"]
    rows = [row(form, *(cell(form, role, "all") for role in [*ROLES, "together"])) for form in formats]
    yield "| format | weights | activations | gradients | all three |", rows
    _, found_attention = to_fp32("where/attention.csv")
    operands = ["queries", "keys", "values", "probabilities", "scores_grad", "attention_grad", "all"]
    rows = [row(form, *(text(found_attention[f"{form}_{operand}"]) for operand in operands)) for form in FORMATS]
    yield "| format | queries | keys | values | softmax | scores' gradient | output's gradient | all six |", rows
    confirmed, found = to_fp32("where/confirm.csv")
    names = {
        "E3M4": "E3M4 everywhere",
        "E2M1_head_grad_E5M2": "E2M1; E5M2 for the logit gradient",
        "E2M1_head_grad_fp32": "E2M1; fp32 for the logit gradient",
        "E2M1": "E2M1 everywhere",
    }
    rows = []
    for case, name in names.items():
        of = found[case]
        p = "< 0.0001" if of.p < 0.0001 else f"{of.p:.4f}"
        rows.append(row(name, mean(confirmed[case]), text(of), p, f"{of.detectable:.4f}"))
    yield "| assignment | held-out loss | minus fp32 | p after Holm | smallest detectable difference |", rows


PAGES = {
    "alerts": alerts,
    "claims": claims,
    "designed": designed,
    "e7m0": e7m0,
    "four-bits": four_bits,
    "interaction": interaction,
    "onset": onset,
    "optimizers": optimizers,
    "parity": parity,
    "range": ranges,
    "recipes": recipes,
    "reference": reference,
    "stability": stability,
    "stored-scales": stored_scales,
    "vocabulary": vocabulary,
    "where": where,
}


def with_tables(page, tables):
    """The page with the rows of each table below the next header line that is its own."""
    lines, at = page.split("\n"), 0
    for head, rows in tables:
        at = lines.index(head, at) + 2
        end = next(number for number in range(at, len(lines)) if not lines[number].startswith("|"))
        lines[at:end] = rows
    return "\n".join(lines)


def main(check=None):
    outdated = []
    made = {HERE / folder / "README.md": lambda page, tables=tables: with_tables(page, tables()) for folder, tables in PAGES.items()}
    docs = HERE.parent / "docs"
    made |= {docs / "recipes.md": recipe_page, docs / "sensitivity.svg": lambda _: picture()}
    for path, make in made.items():
        before = path.read_text() if path.exists() else ""
        after = make(before)
        if after != before:
            outdated.append(str(path.relative_to(HERE.parent)))
            if check != "--check":
                path.write_text(after)
    if check == "--check" and outdated:
        sys.exit(f"{', '.join(outdated)}: not what the records give; run `python3 results/tables.py`")
    if digest(HERE / "where/losses.csv").encode() not in (docs / "report.png").read_bytes():
        sys.exit("docs/report.png is of another record: run `python3 results/page.py`")
    print("\n".join(outdated))


main(*sys.argv[1:])
