"""Recorded trainings: weights, batches, and the losses of altgrad-host and of PyTorch, for several tables `[quant]`."""

import csv
import json
import shutil
import tempfile
from pathlib import Path

import altgrad
import numpy as np

from tests import host

HERE = Path(__file__).parent
# Shared with the tests of `altgrad-host replay`.
MODEL = Path(__file__).resolve().parents[3] / "tests/end-to-end/fixtures/trajectory"
CASES = json.loads((HERE / "recorded.json").read_text())["cases"]
# In the case `tie` one rounding turns in PyTorch.
FOLLOWING = [case for case in CASES if case != "tie"]
EMBEDDING, HEADS, BLOCK, LAYERS = 16, 2, 16, 2
LEARNING_RATE, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 0.76


def weights():
    """The initial weights, by nanoGPT's names without `transformer.`."""
    data = (MODEL / "init.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, found = json.loads(data[8 : 8 + length]), {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            array = np.frombuffer(data[8 + length + start : 8 + length + end], dtype=np.float32)
            found[name.removeprefix("transformer.")] = array.reshape(about["shape"]).copy()
    return found


def batches(case):
    """Inputs and targets of each step of a case, int64, shape `(4, 16)`."""
    text = (MODEL / "text.txt").read_bytes()
    rank = {byte: index for index, byte in enumerate(sorted(set(text)))}
    tokens = np.array([rank[byte] for byte in text])
    for starts in CASES[case]["starts"]:
        yield tuple(np.stack([tokens[s + shift : s + shift + BLOCK] for s in starts]) for shift in (0, 1))


def recipe(case):
    """The casts of a case."""
    return altgrad.Recipe.from_toml(CASES[case]["quant"])


def host_losses(case):
    """The training losses of a run of altgrad-host."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (MODEL / "text.txt", MODEL / "init.safetensors"):
            shutil.copy(file, folder)
        run_file = (HERE / "run.toml").read_text() + "\n" + CASES[case]["quant"]
        (Path(folder) / "run.toml").write_text(run_file)
        seed = f"run.seed={CASES[case]['seed']}"
        host("run", "run.toml", "--out", "out", "--quiet", "--set", seed, folder=folder)
        with open(Path(folder) / "out/metrics.csv") as file:
            # The row of the final evaluation has no training loss.
            return [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
