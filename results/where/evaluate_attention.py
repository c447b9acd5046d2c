"""Record and table of attention's products: python3 results/where/evaluate_attention.py RUNS

RUNS is the sweep's folder (`runs/where-attention`). Writes attention.csv beside this file, and prints the table of README.md; a test of
the project computes it again.
"""

import csv
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from paired import T_975, differences_to_fp32, losses_of, records  # noqa: E402

FORMATS = ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6", "E2M1"]
OPERANDS = ["queries", "keys", "values", "probabilities", "scores_grad", "attention_grad", "all"]


def main(runs):
    losses = losses_of(json.loads((pathlib.Path(runs) / "sweep.json").read_text())["runs"])
    with open(HERE / "attention.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["case", "seed", "held_out_loss"], *records(losses)])
    found, corrected, least = differences_to_fp32(losses)
    for form in FORMATS:
        cells = []
        for case in (f"{form}_{operand}" for operand in OPERANDS):
            if case not in found:
                cells.append("incomplete")
                continue
            text = f"{found[case][0]:+.4f} ± {T_975 * found[case][1]:.4f}".replace("-", "−")
            cells.append(f"**{text}**" if corrected[case] < 0.05 else text)
        print(f"| {form} | " + " | ".join(cells) + " |")
    detectable = sorted(least * error for _, error, _ in found.values())
    print(f"{len(found)} cells; detectable differences from {detectable[0]:.4f} to {detectable[-1]:.4f}")


main(*sys.argv[1:])
