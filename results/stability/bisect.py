"""Largest stable learning rate by bisection: python3 results/stability/bisect.py HOST

HOST is the program altgrad-host. Weights, activations and gradients of all linear layers but the head have one format. A run of
results/where/base.toml is stable if it is completed and its held-out loss is below the corpus's unigram entropy. Bisection halves the
logarithm of an interval of 2^10 five times, so that rates are known within a factor of 2^(5/16), 1.24. Writes rates.csv beside this file
after each cell, and skips cells that it has.
"""

import concurrent.futures
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

FORMATS = ["fp32", "E3M4", "E4M3", "E5M2", "E7M0", "E2M1"]
# The lowest rate that is tried.
OPTIMIZERS = {"adamw": 1e-3, "sgd": 1e-2, "muon": 1e-2}
SEEDS = [1, 2, 3, 4, 5]
OCTAVES, HALVINGS = 10, 5
HEAD = ["format", "optimizer", "seed", "stable", "unstable"]


def is_stable(host, form, optimizer, seed, rate):
    with tempfile.TemporaryDirectory() as folder:
        keys = {"optimizer.name": optimizer, "run.seed": seed, "train.lr": rate, "train.min_lr": rate / 10}
        if form != "fp32":
            keys |= {"quant.weight": form, "quant.activation": form, "quant.grad": form, "quant.exclude": '["lm_head.weight"]'}
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        command = [host, "run", HERE.parent / "where" / "base.toml", "--quiet", "--out", f"{folder}/run", *settings]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL, env={"RAYON_NUM_THREADS": "1"})
        record = pathlib.Path(folder, "run", "run.json")
        if not record.exists():
            sys.exit(f"this run did not start: {command}")
        run = json.loads(record.read_text())
        if run["status"] != "completed" and not run["diverged"]:
            sys.exit(f"this run failed for another reason than its rate: {run['error']}: {command}")
        loss = run["final_val_loss"]
        return run["status"] == "completed" and loss is not None and loss < run["unigram_entropy"]


def bisect(host, form, optimizer, seed):
    """The largest rate that was stable and the smallest that was not; empty if the interval does not contain it."""
    def rate(octave):
        return OPTIMIZERS[optimizer] * 2**octave

    low, high = 0.0, float(OCTAVES)
    if not is_stable(host, form, optimizer, seed, rate(low)):
        return form, optimizer, seed, "", f"{rate(low):.4g}"
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(host, form, optimizer, seed, rate(middle)) else (low, middle)
    unstable = "" if high == OCTAVES else f"{rate(high):.4g}"
    return form, optimizer, seed, f"{rate(low):.4g}", unstable


def read():
    with open(HERE / "rates.csv", newline="") as file:
        return [(row["format"], row["optimizer"], int(row["seed"]), row["stable"], row["unstable"]) for row in csv.DictReader(file)]


def main(host):
    rows = read() if (HERE / "rates.csv").exists() else []
    done = {row[:3] for row in rows}
    cells = [(form, optimizer, seed) for seed in SEEDS for optimizer in OPTIMIZERS for form in FORMATS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(bisect, host, *cell) for cell in cells if cell not in done]
        for task in concurrent.futures.as_completed(tasks):
            rows = sorted([*rows, task.result()])
            with open(HERE / "rates.csv", "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])


main(*sys.argv[1:])
