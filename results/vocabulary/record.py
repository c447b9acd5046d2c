"""The zeroed gradients of the vocabularies: python3 results/vocabulary/record.py RUNS

RUNS is the sweep's folder (`runs/vocabulary`). Writes zeroed.csv beside this file: of the logit gradient, the fraction of non-zero
elements that become zero, at step 0 and as a mean over steps 20 to 180, over seeds.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, mean, rows_of, write  # noqa: E402


def zeroed(runs):
    shares = {}
    for run in ended(runs):
        if run["axes"]["case"] != "fp32":
            rows = rows_of(run["folder"] / "layers.csv")
            found = [float(row["value"]) for row in rows if row["metric"] == "quant/grad/underflow_rate"]
            first, later = shares.setdefault((run["axes"]["vocabulary"], run["axes"]["case"]), ([], []))
            first.append(found[0])
            later.extend(found[1:])
    sizes = sorted({size for size, _ in shares}, key=int)
    for size, case in sorted(shares, key=lambda key: sizes.index(key[0])):
        yield size, case, *map(mean, shares[size, case])


write(HERE / "zeroed.csv", ["vocabulary", "case", "step_0", "steps_20_to_180"], zeroed(sys.argv[1]))
