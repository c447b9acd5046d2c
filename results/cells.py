"""Cells of committed records, and how tables show them."""

import csv
import math
import pathlib
import statistics

from paired import family

HERE = pathlib.Path(__file__).parent


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.reader(file))[1:]


def losses(name):
    """Loss by seed, of each cell: the columns of the record but the last two, seed and loss."""
    cells = {}
    for *cell, seed, loss in read(name):
        cells.setdefault(tuple(cell), {})[int(seed)] = float(loss)
    return cells


def sound(cells):
    """The cells with NaN for each run that diverged: one above the loss of a uniform guess over bytes enters no mean."""
    return {cell: {seed: loss if loss <= math.log(256) else math.nan for seed, loss in of.items()} for cell, of in cells.items()}


def row(*cells):
    return f"| {' | '.join(cells)} |"


def mean(seeds, digits=4, spread=False):
    """The mean, with the standard deviation on request; the number of diverged runs, if there are any."""
    diverged = sum(math.isnan(loss) for loss in seeds.values())
    if diverged:
        return f"{diverged} of {len(seeds)} diverged"
    deviation = f" ± {statistics.stdev(seeds.values()):.{digits}f}" if spread else ""
    return f"{statistics.fmean(seeds.values()):.{digits}f}{deviation}"


def text(of, digits=4):
    """A difference and its interval, bold where it is significant."""
    shown = f"{of.mean:+.{digits}f} ± {of.half:.{digits}f}".replace("-", "−")
    return f"**{shown}**" if of.significant else shown


def columns(of):
    """A difference and its smallest detectable size; empty without one."""
    return (text(of), f"{of.detectable:.4f}") if of else ("", "")


def to_fp32(name):
    """The cells of a record with one column of names, and their differences to fp32 by this name."""
    cells = losses(name)
    return {case: of for (case,), of in cells.items()}, {case: of for (case,), of in family(cells, lambda _: ("fp32",)).items()}
