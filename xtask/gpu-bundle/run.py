#!/usr/bin/env python3
"""Runs altgrad's GPU tests and benchmark on a machine without Rust.

The script lies in the unpacked bundle. CUDA_PATH names the CUDA toolkit's folder, and the loader must find libnvrtc.
`results.json` has the outcome of each part and is replaced whenever a part ends; `log.txt` has the output of all parts. Both are
copied to $OUT if that is set. A call ends after `--limit` seconds. The next call with the same `--out` skips the parts that have
ended and repeats the one that was interrupted; a part that was interrupted twice has failed. Where `--out` was lost,
`--continue FILE` begins with a copy of its `results.json`. Use another `--out` for other options. Exit code: 0 all parts passed,
1 a part failed, 3 the limit was reached.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

BUNDLE = Path(__file__).resolve().parent
HOST = BUNDLE / "altgrad-host"
RUN_FILE = BUNDLE / "exp.toml"
TESTS = ["gpu", "devices"]
SIZES = ["tiny", "seed", "gpt2"]
# Cases of the benchmark; each but the first is a part, and is timed in turn with the first.
CASES = ["fp32", "fp32+metrics", "bf16", "E5M2", "E5M2+metrics", "hybrid+metrics", "E5M2+metrics+shadow"]


class LimitReached(Exception):
    """The call's time is over."""


class PartFailed(Exception):
    """A part failed, for the reason in the text."""


class Bundle:
    """The parts' outcomes so far, and the time that is left."""

    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + options.limit
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.file, self.text = self.out / "results.json", self.out / "log.txt"
        before = self.file if self.file.exists() else options.before
        self.results = json.loads(before.read_text()) if before else {"parts": {}}
        self.results.setdefault("calls", []).append(environment(options.device))

    def save(self):
        """Replaces the file of results, so that a killed call leaves the results before."""
        beside = self.file.with_suffix(".tmp")
        beside.write_text(json.dumps(self.results, indent=1) + "\n")
        beside.replace(self.file)
        if "OUT" in os.environ and Path(os.environ["OUT"]).resolve() != self.out:
            for file in filter(Path.exists, [self.file, self.text]):
                shutil.copy(file, os.environ["OUT"])

    def part(self, name, work):
        """Does a part, unless an earlier call did. `work` returns the part's result."""
        before = self.results["parts"].get(name, {}).get("status")
        if before in ("passed", "failed"):
            return
        begun, outcome = time.monotonic(), {"status": "interrupted"}
        self.log(f"== {name}\n")
        try:
            outcome = {"status": "passed", "result": work()}
        except (PartFailed, OSError, ValueError) as failure:
            outcome = {"status": "failed", "reason": str(failure)}
        except LimitReached:
            if before == "interrupted":
                outcome = {"status": "failed", "reason": "interrupted in two calls"}
            raise
        finally:
            outcome["seconds"] = round(time.monotonic() - begun, 3)
            self.results["parts"][name] = outcome
            self.save()
            print(f"{name}: {outcome['status']} ({outcome['seconds']:.1f} s)", flush=True)

    def log(self, text):
        with open(self.text, "a", encoding="utf-8") as log:
            log.write(text)

    def start(self, command):
        """Starts a process in a group of its own, without waiting."""
        self.log(f"$ {' '.join(map(str, command))}\n")
        variables = {**os.environ, "ALTGRAD_STAGE": str(BUNDLE)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        return subprocess.Popen(list(map(str, command)), env=variables, start_new_session=True, **pipes)

    def finish(self, process):
        """Waits for a process: its exit code and both outputs. At the limit its whole group is killed."""
        try:
            out, err = process.communicate(timeout=max(0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill(process)
            raise LimitReached from None
        self.log(out + err)
        return process.returncode, out, err

    def kill(self, process):
        """Kills a process with its group, as a crash of both of the host's processes."""
        os.killpg(process.pid, signal.SIGKILL)
        self.log("".join(process.communicate()) + "killed\n")

    def call(self, command):
        """Runs a command that must succeed: both outputs."""
        code, out, err = self.finish(self.start(command))
        if code != 0:
            raise PartFailed(f"exit code {code}: {(err or out).strip()[-500:]}")
        return out, err


def said(command):
    """The output of a command, or None without one."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def environment(device):
    """Device, driver, versions and date of a call."""
    query = "--query-gpu=name,driver_version,memory.total"
    torch = "import torch; print(torch.__version__)"
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": device,
        "host": said([HOST, "--version"]),
        "gpu": said(["nvidia-smi", query, "--format=csv,noheader"]),
        "torch": said([sys.executable, "-c", torch]),
        "CUDA_PATH": os.environ.get("CUDA_PATH"),
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"),
    }


def tests(bundle, binary):
    """A part that lists the tests of a binary, and a part per test."""
    part = f"tests of {binary.name}"
    bundle.part(part, lambda: names(bundle, binary))
    for name in bundle.results["parts"][part].get("result", []):
        bundle.part(f"test {binary.name} {name}", lambda name=name: test(bundle, binary, name))


def names(bundle, binary):
    listed, _ = bundle.call([binary, "--list", "--format", "terse"])
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


def test(bundle, binary, name):
    """The lines of a test about skipped devices, or that it is ignored. They do not show whether it ran on some device; the log does."""
    out, err = bundle.call([binary, "--exact", name, "--nocapture", "--test-threads", "1"])
    lines = (out + err).splitlines()
    return {"skipped": [line for line in lines if line.startswith("SKIPPED") or " ... ignored" in line]}


def run(bundle, folder, *more):
    """The arguments of a training run into a folder."""
    steps = ["--max-steps", bundle.options.train_steps]
    device = ["--device", bundle.options.device]
    return [HOST, "run", RUN_FILE, *device, *steps, "--out", folder, *more]


def fresh(bundle, name):
    """The path of a run that does not exist yet: an interrupted part may have left one."""
    used = [path.name for path in bundle.out.glob(f"{name}-*")]
    return bundle.out / f"{name}-{len(used)}"


def train(bundle):
    """Trains: the record of the run."""
    folder = fresh(bundle, "run")
    bundle.call(run(bundle, folder))
    return json.loads((folder / "run.json").read_text())


def kill_and_resume(bundle, *more):
    """Kills a run after a checkpoint and resumes it: whether weights and metrics are those of a whole run."""
    whole, killed = fresh(bundle, "whole"), fresh(bundle, "killed")
    often = ["--set", f"checkpoint.every={max(1, bundle.options.train_steps // 10)}", *more]
    bundle.call(run(bundle, whole, *often))
    process = bundle.start(run(bundle, killed, *often))
    while not list(killed.glob("checkpoints/step-*")) and process.poll() is None:
        if time.monotonic() > bundle.end:
            bundle.kill(process)
            raise LimitReached
        time.sleep(0.02)
    if process.poll() is not None:
        bundle.finish(process)
        raise PartFailed("the run ended before it could be killed")
    bundle.kill(process)
    checkpoints = sorted(path.name for path in killed.glob("checkpoints/step-*"))
    bundle.call(run(bundle, killed, *often, "--resume"))
    same = {name: (whole / name).read_bytes() == (killed / name).read_bytes() for name in ("weights.safetensors", "metrics.csv")}
    if not all(same.values()):
        raise PartFailed(f"bit-identical: {same}, killed after {checkpoints}")
    return {"bit_identical": same, "killed_after": checkpoints}


def bench(bundle, size, case):
    """Times a case of a size and the first case in turn, and with another trainer if one is given."""
    options = bundle.options
    cases = [option for name in (CASES[0], case) for option in ("--case", name)]
    steps = ["--steps", options.steps, "--warmup", options.warmup]
    other = ["--compare-with", options.compare_with] if options.compare_with else []
    command = [HOST, "bench", "--device", options.device, "--size", size, "--json", *cases, *steps, *other]
    out, _ = bundle.call(command)
    return json.loads(out)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=BUNDLE / "results", help="folder of results (default: %(default)s)")
    parser.add_argument("--continue", dest="before", type=Path, metavar="FILE", help="results of earlier calls, where --out has none")
    parser.add_argument("--limit", type=float, default=570, help="seconds that this call may take (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0", help="device of training and benchmark (default: %(default)s)")
    parser.add_argument("--compare-with", help="another trainer to time in turn, as `altgrad-host bench --help` says")
    parser.add_argument("--sizes", nargs="+", default=SIZES[:1], choices=SIZES, help="sizes of the benchmark (default: tiny)")
    parser.add_argument("--cases", nargs="+", default=CASES[1:], help="cases of the benchmark (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="measured steps per case (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them (default: %(default)s)")
    parser.add_argument("--train-steps", type=int, default=500, help="steps of training runs (default: %(default)s)")
    return parser.parse_args(arguments)


def main(arguments):
    bundle = Bundle(parse(arguments))
    bundle.save()
    print(json.dumps(bundle.results["calls"][-1]), flush=True)
    try:
        for name in TESTS:
            tests(bundle, BUNDLE / "tests" / name)
        bundle.part("train", lambda: train(bundle))
        bundle.part("kill and resume", lambda: kill_and_resume(bundle))
        stored = ["--set", 'quant.master_weights="none"']
        bundle.part("kill and resume without master weights", lambda: kill_and_resume(bundle, *stored))
        for size, case in ((size, case) for size in bundle.options.sizes for case in bundle.options.cases):
            bundle.part(f"bench {size} {case}", lambda size=size, case=case: bench(bundle, size, case))
    except LimitReached:
        print("The limit was reached: another call continues.", flush=True)
        return 3
    return 0 if all(part["status"] == "passed" for part in bundle.results["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
