"""Record and table of the range profile: python3 results/range/evaluate.py RUN

RUN is the run folder of profile.toml. Writes profile.csv beside this file and prints the table of README.md: by role and site, means
over the steps from 20 on and over both blocks.
"""

import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
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
    """Mean of each metric by role and site."""
    values = {}
    with open(pathlib.Path(run) / "layers.csv") as file:
        for row in csv.DictReader(file):
            site = SITES.get(row["layer"].split(".", 2)[-1] if row["layer"].startswith("h.") else row["layer"])
            kind, _, rest = row["metric"].partition("/")
            role, _, metric = rest.partition("/")
            if site and kind == "observe" and role in ROLES and metric in METRICS and int(row["step"]) >= 20:
                values.setdefault((role, site, metric), []).append(float(row["value"]))
    return {key: sum(of) / len(of) for key, of in values.items()}


def main(run):
    means = profile(run)
    rows = [[role, site, *(f"{means[role, site, metric]:.2f}" for metric in METRICS)] for role in ROLES for site in SITES.values()]
    with open(HERE / "profile.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["role", "site", *(metric.replace("sqnr_db/", "") for metric in METRICS)], *rows])
    for row in rows:
        print("| " + " | ".join(row).replace("_", " ").replace("mlp", "MLP") + " |")


main(*sys.argv[1:])
