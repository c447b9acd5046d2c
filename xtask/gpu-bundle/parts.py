"""The parts of the script: a first rounding, the benchmark, the start of a process, runs that are killed and resumed, the tests, and another trainer."""

import json
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import machine
from processes import PartFailed, PartSkipped

SIZES = ["tiny", "seed", "gpt2"]
# What follows an `@` is asked for by the variable below: the library for products, recorded passes.
CASES = ["fp32", "fp32+metrics", "bf16", "E5M2", "E5M2+metrics", "recipe:mxfp8", "recipe:nvfp4", "hybrid+metrics", "E5M2+metrics+shadow"]
CASES += [f"{case}@cublaslt" for case in ("fp32", "bf16", "E5M2+metrics", "recipe:mxfp8", "recipe:nvfp4")]
CASES += [f"{case}@graphs" for case in ("fp32", "bf16", "E5M2+metrics", "recipe:mxfp8", "recipe:nvfp4")]
CASES += ["bf16@cublaslt@graphs"]
VARIABLES = {"cublaslt": ("ALTGRAD_BLAS", "cublaslt"), "graphs": ("ALTGRAD_GRAPHS", "on")}
TESTS = ["devices", "gpu"]
# Tests at a time: most of their time goes to processes that compile kernels on one core.
AT_ONCE = 8
# Most seconds of the parts that are no tests, times `--limit-factor`.
DEVICE, CASE, LIST, RESUME, START = 60, 60, 30, 200, 120


def limited(bundle, name, seconds, work, **options):
    """A part that is no test."""
    return bundle.part(name, seconds * bundle.options.limit_factor, work, **options)


def device(bundle):
    """Whether the device rounds a few values. A part of every call: the next one may be on another machine."""
    values, rounded = [1.1, -2.7, 0.3], [1.0, -2.5, 0.3125]

    def work(part):
        source, result = bundle.out / "device.in", bundle.out / "device.out"
        source.write_bytes(struct.pack("<3f", *values))
        result.unlink(missing_ok=True)
        files = ["--input", source, "--output", result]
        part.call([bundle.host, "formats", "quantize", "E5M2", "--device", bundle.options.device, *files])
        found = list(struct.unpack("<3f", result.read_bytes()))
        if found != rounded:
            raise PartFailed(f"{values} became {found}, not {rounded}")
        return found

    return limited(bundle, "device", DEVICE, work, again=True)["status"] == "passed"


def bench(bundle):
    """A part per size and case."""
    for size, case in product(bundle.options.sizes, bundle.options.cases):
        limited(bundle, f"bench {size} {case}", CASE, lambda part: times(bundle, part, size, case, None))


def start(bundle):
    """A part with the seconds of two processes of one step: the first compiles all kernels, the second reads them from a file."""

    def work(part):
        variables = {"ALTGRAD_KERNEL_CACHE": str(fresh(bundle, "kernels"))}
        found = {}
        for which in ["first", "second"]:
            folder, begun = fresh(bundle, "start"), time.monotonic()
            command = [bundle.host, "run", bundle.folder / "exp.toml", "--device", bundle.options.device]
            part.call([*command, "--out", folder, "--max-steps", 1], variables)
            seconds = round(time.monotonic() - begun, 3)
            record = json.loads((folder / "run.json").read_text())
            found[which] = {"seconds": seconds, "kernels": record["environment"].get("kernels")}
        return found

    limited(bundle, "start", START, work)


def compare(bundle):
    """A part per size and case that is measured in turn with another trainer, which computes no metrics and no recipes."""
    other = bundle.other_trainer
    cases = [case for case in bundle.options.cases if other and not set("+:") & set(case)]
    for size, case in product(bundle.options.sizes, cases):
        limited(bundle, f"compare {size} {case}", CASE, lambda part: times(bundle, part, size, case, other))


def times(bundle, part, size, case, other):
    """The report of the host's benchmark."""
    options, (own, *asked) = bundle.options, case.split("@")
    command = [bundle.host, "bench", "--json", "--device", options.device, "--size", size, "--case", own]
    command += ["--steps", options.steps, "--warmup", options.warmup]
    command += ["--turns", 1, "--compare-with", other] if other else []
    report = json.loads(called(part, command, dict(VARIABLES[what] for what in asked)))
    report["cases"][0]["case"] = case
    return {**report, "gpu_after": machine.gpu()}


def called(part, command, variables):
    """The output of a host that must succeed, and use what `variables` asks for."""
    out, said = part.call(command, variables)
    if "libcublasLt cannot be loaded" in said:
        raise PartSkipped("libcublasLt cannot be loaded")
    if any(failure in said for failure in ("is not computed by cuBLASLt", "ALTGRAD_GRAPHS=on has no effect")):
        raise PartFailed(said.strip()[-500:])
    return out


def tests(bundle):
    """A part that lists the tests of each binary, and a part per test. Tests of rounding begin: they have figures."""
    listed = [(binary, name) for binary in TESTS for name in names(bundle, binary)]
    listed.sort(key=lambda test: not test[1].startswith("rounding::devices_round"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [pool.submit(one_test, bundle, *test) for test in listed]
    for test in begun:
        test.result()


def names(bundle, binary):
    def work(part):
        listed, _ = part.call([bundle.folder / "tests" / binary, "--list", "--format", "terse"])
        return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]

    return limited(bundle, f"tests of {binary}", LIST, work).get("result", [])


def one_test(bundle, binary, name):
    """A part whose result has the test's figures (lines of JSON), its skips, and the first line of its failure."""

    def work(part):
        command = [bundle.folder / "tests" / binary, "--exact", name, "--nocapture", "--test-threads", "1"]
        code, out, err = part.finish(part.start(command))
        lines = (out + err).splitlines()
        skips = [line for line in lines if line.startswith("SKIPPED") or " ... ignored" in line]
        result = {"figures": [json.loads(line) for line in lines if line.startswith('{"')], "skipped": skips}
        if code != 0:
            result["first_line"] = first_line(lines)
            raise PartFailed(f"exit code {code}: {(err or out).strip()[-500:]}", result)
        if skips:
            raise PartSkipped(skips[0], result)
        return result

    bundle.part(f"test {binary} {name}", bundle.options.test_limit, work)


def first_line(lines):
    """The first line of a failure: what a panic says, which follows its place."""
    after = [said for place, said in zip(lines, lines[1:]) if " panicked at " in place]
    return (after or [line for line in lines if line] or ["no output"])[0][:200]


def resume(bundle):
    """Runs that are killed and resumed: with and without master weights, with products by cuBLASLt, with graphs."""
    stored = ["--set", 'quant.master_weights="none"']
    runs = {"": ([], None), " without master weights": (stored, None), " with cuBLASLt": ([], dict([VARIABLES["cublaslt"]]))}
    runs[" with graphs"] = ([], dict([VARIABLES["graphs"]]))
    for name, (more, variables) in runs.items():
        limited(bundle, f"kill and resume{name}", RESUME, lambda part: kill_and_resume(bundle, part, more, variables))


def fresh(bundle, name):
    """The path of a run that does not exist yet: an interrupted part may have left one."""
    used = [path.name for path in bundle.out.glob(f"{name}-*")]
    return bundle.out / f"{name}-{len(used)}"


def kill_and_resume(bundle, part, more, variables):
    """Kills a run after a checkpoint and resumes it: the record of a whole run, whose weights and metrics it must have."""
    whole, killed = fresh(bundle, "whole"), fresh(bundle, "killed")
    steps = bundle.options.train_steps
    often = ["--max-steps", steps, "--set", f"checkpoint.every={max(1, steps // 10)}", *more]

    def run(folder, *more):
        command = [bundle.host, "run", bundle.folder / "exp.toml", "--device", bundle.options.device]
        return [*command, "--out", folder, *often, *more]

    called(part, run(whole), variables)
    process = part.start(run(killed), variables)
    while not list(killed.glob("checkpoints/step-*")) and process.poll() is None:
        part.check_time()
        time.sleep(0.02)
    if process.poll() is not None:
        part.finish(process)
        raise PartFailed("the run ended before it could be killed")
    part.kill(process)
    checkpoints = sorted(path.name for path in killed.glob("checkpoints/step-*"))
    part.call(run(killed, "--resume"), variables)
    same = {name: (whole / name).read_bytes() == (killed / name).read_bytes() for name in ("weights.safetensors", "metrics.csv")}
    result = {"bit_identical": same, "killed_after": checkpoints, "run": json.loads((whole / "run.json").read_text())}
    if not all(same.values()):
        raise PartFailed(f"bit-identical: {same}, killed after {checkpoints}", result)
    return result


# In this order: what a call that ends early should have comes first, and what may fail for another program's sake last.
ALL = {"bench": bench, "start": start, "resume": resume, "tests": tests, "compare": compare}
