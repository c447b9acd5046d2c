"""Records and tables of the range profile: python3 results/range/evaluate.py RUNS

RUNS is the folder of `range`, the run folder of profile.toml, and of the sweeps `range-underflow`, `range-head` and `range-remedy`.
Writes the CSV files beside this file and prints the tables of README.md. Metrics are means over the steps from 20 on, over both blocks
and over seeds.
"""

import csv
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from paired import SEEDS, T_975, differences_to_fp32, losses_of, records  # noqa: E402

FORMATS = ["E4M3", "E5M2", "E3M4", "E7M0", "E1M6", "E2M1"]
METRICS = ["range", "kurtosis", *(f"sqnr_db/{format}" for format in FORMATS)]
ROLES = ["weight", "activation", "grad"]
SITES = {
    "attn.c_attn.weight": "qkv",
    "attn.c_proj.weight": "attention_output",
    "mlp.c_fc.weight": "mlp_up",
    "mlp.c_proj.weight": "mlp_down",
    "wte.weight": "head",
}


def profile(run):
    """Mean of each metric by its name without the site, and by site."""
    values = {}
    with open(pathlib.Path(run) / "layers.csv") as file:
        for row in csv.DictReader(file):
            site = SITES.get(row["layer"].split(".", 2)[-1] if row["layer"].startswith("h.") else row["layer"])
            if site and int(row["step"]) >= 20:
                values.setdefault((row["metric"], site), []).append(float(row["value"]))
    return {key: sum(of) / len(of) for key, of in values.items()}


def write(name, rows):
    with open(HERE / name, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def runs_of(sweep):
    return json.loads((sweep / "sweep.json").read_text())["runs"]


def losses(sweep, name):
    """Writes the losses of a sweep. Text of each case's difference to fp32, and the smallest detectable difference."""
    cells = losses_of(runs_of(sweep))
    write(name, [["case", "seed", "held_out_loss"], *records(cells)])
    found, corrected, least = differences_to_fp32(cells)
    columns = {case: "incomplete | " for case in cells if case != "fp32"}
    for case, (mean, error, _) in found.items():
        text = f"{mean:+.4f} ± {T_975 * error:.4f}".replace("-", "−")
        columns[case] = f"{f'**{text}**' if corrected[case] < 0.05 else text} | {least * error:.4f}"
    return columns


def underflow_at_head(sweep):
    """The fraction of the elements of the gradient at the head that become zero, by case."""
    shares = {}
    for run in runs_of(sweep):
        if run["axes"]["case"] != "fp32":
            shares.setdefault(run["axes"]["case"], []).append(profile(sweep / run["name"])["quant/grad/underflow_rate", "head"])
    return {case: f"{sum(of) / SEEDS:.4f}" for case, of in shares.items()}


def main(runs):
    means = profile(pathlib.Path(runs) / "range")
    rows = [[role, site, *(f"{means[f'observe/{role}/{metric}', site]:.2f}" for metric in METRICS)] for role in ROLES for site in SITES.values()]
    write("profile.csv", [["role", "site", *(metric.replace("sqnr_db/", "") for metric in METRICS)], *rows])
    shares = {form: profile(pathlib.Path(runs) / "range-underflow" / f"s1_{form}") for form in FORMATS}
    zeroed = [[form, "grad", site, f"{means['quant/grad/underflow_rate', site]:.4f}"] for form, means in shares.items() for site in SITES.values()]
    write("underflow.csv", [["format", "role", "site", "underflow"], *zeroed])
    for site in SITES.values():
        print(f"| {site} | " + " | ".join(f"{100 * float(row[3]):.1f}" for row in zeroed if row[2] == site) + " |")
    for row in rows:
        print("| " + " | ".join(row).replace("_", " ").replace("mlp", "MLP") + " |")
    shares = underflow_at_head(pathlib.Path(runs) / "range-head")
    write("head_underflow.csv", [["case", "underflow"], *shares.items()])
    for case, columns in losses(pathlib.Path(runs) / "range-head", "head.csv").items():
        print(f"| {case} | {100 * float(shares[case]):.1f} | {columns} |")
    for case, columns in losses(pathlib.Path(runs) / "range-remedy", "remedy.csv").items():
        print(f"| {case} | {columns} |")


main(*sys.argv[1:])
