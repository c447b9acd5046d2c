#!/usr/bin/env python3
"""Runs altgrad's GPU tests and benchmark on a machine without Rust.

The script lies in the unpacked bundle. It looks for CUDA's libnvrtc and headers in the environment (CUDA_PATH, LD_LIBRARY_PATH), beside
`nvcc`, in /usr/local/cuda*, and in PyTorch's wheels. Its parts, in this order: a first rounding on the device, without which nothing else
is tried; `bench`, the benchmark, each case alone; `start`, two processes of one step; `resume`, runs that are killed and resumed; `tests`, some at a time, those of rounding
first; `compare`, the cases in turn with a trainer in PyTorch, if the bundle has one. `--only` chooses among them. A part that fails or
takes too long does not keep others from running. A test that lacks a device or a tool is skipped, and counts as not run.

`results.json` has the outcome of each part and is replaced whenever a part ends; `log.txt` has the output of all parts. Both are
copied to $OUT if that is set. The last lines of the output are a summary. A call ends after `--limit` seconds. The next call with the same `--out` skips the parts that have
ended and repeats those that were interrupted; a part that was interrupted twice has failed. Where `--out` was lost,
`--continue FILE` begins with a copy of its `results.json`. Use another `--out` for other options. Exit code: 0 all parts passed (or
were skipped for another reason than the device), 1 a part failed or the device was missing, 3 the limit was reached.
"""

import argparse
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import machine
import parts
import summary
from processes import LimitReached, Part, PartFailed, PartSkipped

BUNDLE = Path(__file__).resolve().parent
# Values that each test of rounding compares by format: on a GPU they take no time.
ROUNDED = 1 << 22


class Bundle:
    """The parts' outcomes so far, the time that is left, and the variables of processes."""

    folder, host = BUNDLE, BUNDLE / "altgrad-host"

    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + options.limit
        self.lock = threading.RLock()
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.file, self.text = self.out / "results.json", self.out / "log.txt"
        before = self.file if self.file.exists() else options.before
        self.results = json.loads(before.read_text()) if before else {"parts": {}}
        own = {"ALTGRAD_STAGE": str(BUNDLE), "ALTGRAD_DEVICES": options.device}
        self.variables = {"ALTGRAD_ROUNDING_VALUES": str(ROUNDED), **os.environ, **own}
        python = machine.python()
        cuda = machine.use_cuda(python["folders"], self.out / "nvrtc", self.variables)
        self.results.setdefault("calls", []).append(machine.environment(BUNDLE, options.device, cuda, python))
        self.other_trainer = options.compare_with or self.packed_trainer(python)

    def packed_trainer(self, python):
        """The command of the bundle's trainer in PyTorch, if it has one and the machine has PyTorch."""
        file = BUNDLE / "other_trainer.py"
        has_both = file.exists() and python["torch"]
        return f"{python['path']} {file} --device {self.options.device}" if has_both else None

    def save(self):
        """Replaces the file of results, so that a killed call leaves the results before."""
        beside = self.file.with_suffix(".tmp")
        beside.write_text(json.dumps(self.results, indent=1) + "\n")
        beside.replace(self.file)
        if "OUT" in os.environ and Path(os.environ["OUT"]).resolve() != self.out:
            for file in filter(Path.exists, [self.file, self.text]):
                shutil.copy(file, os.environ["OUT"])

    def part(self, name, seconds, work, again=False):
        """Does a part in at most `seconds`, unless an earlier call did: its outcome. `work` returns the part's result."""
        before = self.results["parts"].get(name, {})
        if before.get("status", "interrupted") != "interrupted" and not again:
            return before
        if time.monotonic() >= self.end:
            raise LimitReached
        begun, outcome = time.monotonic(), {"status": "interrupted"}
        try:
            with Part(self, seconds) as part:
                outcome = {"status": "passed", "result": work(part)}
        except LimitReached:
            if before.get("status") == "interrupted":
                outcome = {"status": "failed", "reason": "interrupted in two calls"}
            raise
        except PartFailed as failure:
            status = "skipped" if isinstance(failure, PartSkipped) else "failed"
            outcome = {"status": status, "reason": str(failure), "result": failure.result}
        except Exception as failure:
            # Whatever it is, the parts after this one still count.
            outcome = {"status": "failed", "reason": repr(failure)}
        finally:
            outcome["seconds"] = round(time.monotonic() - begun, 3)
            with self.lock:
                self.results["parts"][name] = outcome
                self.log(f"== {name}: {outcome['status']}\n")
                self.save()
                print(f"{name}: {outcome['status']} ({outcome['seconds']:.1f} s)", flush=True)
        return outcome

    def log(self, text):
        with self.lock, open(self.text, "a", encoding="utf-8") as log:
            log.write(text)

    def missing(self, line):
        """Whether a line says that the device of this call is missing."""
        return f"device `{self.options.device}`" in line

    def exit_code(self):
        def is_good(part):
            return part["status"] == "passed" or part["status"] == "skipped" and not self.missing(part["reason"])

        return 0 if all(map(is_good, self.results["parts"].values())) else 1


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=BUNDLE / "results", help="folder of results (default: %(default)s)")
    parser.add_argument("--continue", dest="before", type=Path, metavar="FILE", help="results of earlier calls, where --out has none")
    parser.add_argument("--limit", type=float, default=540, help="seconds that this call may take (default: %(default)s)")
    parser.add_argument("--test-limit", type=float, default=200, help="seconds that a test may take (default: %(default)s)")
    parser.add_argument("--limit-factor", type=float, default=1, help="of the seconds that other parts may take, for a slow device (default: 1)")
    parser.add_argument("--device", default="cuda:0", help="device of all parts (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=list(parts.ALL), choices=parts.ALL, help="parts (default: all)")
    parser.add_argument("--compare-with", help="another trainer to time in turn, as `altgrad-host bench --help` says")
    parser.add_argument("--sizes", nargs="+", default=["seed"], choices=parts.SIZES, help="sizes of the benchmark (default: seed)")
    parser.add_argument("--cases", nargs="+", default=parts.CASES, help="cases of the benchmark (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="measured steps per case (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=20, help="steps before them (default: %(default)s)")
    parser.add_argument("--train-steps", type=int, default=100, help="steps of training runs (default: %(default)s)")
    return parser.parse_args(arguments)


def main(arguments):
    bundle = Bundle(parse(arguments))
    bundle.save()
    print(json.dumps(bundle.results["calls"][-1]), flush=True)
    try:
        if not parts.device(bundle):
            print(f"error: the device does not work: {bundle.results['parts']['device']['reason']}", flush=True)
            return 1
        for name, work in parts.ALL.items():
            if name in bundle.options.only:
                work(bundle)
    except LimitReached:
        print("The limit was reached: another call continues.", flush=True)
        return 3
    finally:
        print("\n".join(summary.lines(bundle.results)), flush=True)
    return bundle.exit_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
