"""Records of the range profile: python3 results/range/record.py RUNS

RUNS is the folder of `range`, the run folder of profile.toml, and of the sweeps `range-underflow` and `range-head`. Writes profile.csv,
underflow.csv and head_underflow.csv beside this file. Metrics are means over the steps from 20 on, over both blocks and over seeds.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from losses import ended, mean, rows_of, write  # noqa: E402

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
ZEROED = "quant/grad/underflow_rate"


def profile(run):
    """The values of each metric by its name without the site, and by site."""
    values = {}
    for row in rows_of(run / "layers.csv"):
        site = SITES.get(row["layer"].split(".", 2)[-1] if row["layer"].startswith("h.") else row["layer"])
        if site and int(row["step"]) >= 20:
            values.setdefault((row["metric"], site), []).append(float(row["value"]))
    return values


def main(runs):
    runs = pathlib.Path(runs)
    values = profile(runs / "range")
    means = {key: sum(of) / len(of) for key, of in values.items()}
    rows = [[role, site, *(f"{means[f'observe/{role}/{metric}', site]:.2f}" for metric in METRICS)] for role in ROLES for site in SITES.values()]
    write(HERE / "profile.csv", ["role", "site", *(metric.replace("sqnr_db/", "") for metric in METRICS)], rows)
    shares = {form: profile(runs / "range-underflow" / f"s1_{form}") for form in FORMATS}
    rows = [[form, "grad", site, mean(of[ZEROED, site])] for form, of in shares.items() for site in SITES.values()]
    write(HERE / "underflow.csv", ["format", "role", "site", "underflow"], rows)
    # The fraction of the elements of the logit gradient that become zero, by case.
    shares = {}
    for run in ended(runs / "range-head"):
        if run["axes"]["case"] != "fp32":
            shares.setdefault(run["axes"]["case"], []).extend(profile(run["folder"])[ZEROED, "head"])
    write(HERE / "head_underflow.csv", ["case", "underflow"], [[case, mean(of)] for case, of in shares.items()])


main(*sys.argv[1:])
