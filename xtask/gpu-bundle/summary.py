"""The results in at most ten lines: counts, device, figures, and the first lines of failures."""

MOST = 10


def lines(results):
    """The summary of all parts so far."""
    parts = results["parts"]
    said = [counts(parts), device(results["calls"][-1]), *bench(parts), *checks(parts)]
    failed = [f"failed: {name}: {first_line(part)}" for name, part in parts.items() if part["status"] == "failed"]
    room = MOST - len(said)
    if len(failed) > room:
        failed[room - 1 :] = [f"and {len(failed) - room + 1} more failed"]
    return said + failed


def number(parts, status):
    return sum(part["status"] == status for part in parts.values())


def counts(parts):
    passed, failed, skipped = (number(parts, status) for status in ("passed", "failed", "skipped"))
    seconds = sum(part["seconds"] for part in parts.values())
    return f"summary: {passed} parts passed, {failed} failed, {skipped} were skipped; {seconds:.0f} s"


def device(call):
    gpu = (call["gpu"] or [{}])[0]
    version = call["nvrtc_version"]
    facts = [
        call["device"],
        gpu.get("name"),
        gpu.get("driver_version") and f"driver {gpu['driver_version']}",
        version and f"NVRTC {version[0]}.{version[1]}",
        call["build"] and f"commit {call['build']['commit']}"[:19],
        call["date"],
    ]
    return "device: " + ", ".join(filter(None, facts))


def reports(parts, kind):
    """The report of each part of a benchmark, with its size and its only case."""
    passed = [part["result"] for name, part in parts.items() if name.startswith(f"{kind} ") and part["status"] == "passed"]
    return [(report["size"], report["cases"][0], report) for report in passed]


def bench(parts):
    """The figures by size and case: milliseconds, launches, utilization, memory, the ratio to another trainer, and seconds of the start."""
    alone = [f"{size} {case['case']} {case['median_ms']:.1f} ({figures(case, report)})" for size, case, report in reports(parts, "bench")]
    if alone:
        yield "ms per step (launches, % of the rate measured / of the data sheet, MB): " + ", ".join(alone)
    ratios = [f"{size} {case['case']} {case['other']['median_ratio']:.2f}" for size, case, _ in reports(parts, "compare")]
    if ratios:
        yield "times the other trainer's: " + ", ".join(ratios)
    begun = parts.get("start", {})
    if begun.get("status") == "passed":
        seconds = [f"{begun['result'][which]['seconds']:.1f}" for which in ("first", "second")]
        yield f"seconds of a process of one step: {seconds[0]}, with the kernels of the first {seconds[1]}"


def figures(case, report):
    """Launches, utilization at both rates, and memory; `-` for what is missing."""

    def shown(value, factor=1):
        return "-" if value is None else f"{factor * value:.1f}"

    shares = " / ".join(shown(case.get(key), 100) for key in ("mfu", "mfu_data_sheet"))
    return f"{case['launches']}, {shares}, {shown(report.get('device_memory_mb'))}"


def checks(parts):
    runs = {name: part for name, part in parts.items() if name.startswith("kill and resume")}
    tests = {name: part for name, part in parts.items() if name.startswith("test ")}
    skipped = number(tests, "skipped")
    said = [
        runs and f"{number(runs, 'passed')} of {len(runs)} resumed runs are bit-identical",
        tests and f"{number(tests, 'passed')} of {len(tests) - skipped} tests passed, {skipped} were not run",
    ]
    if runs or tests:
        yield "checks: " + "; ".join(filter(None, said))


def first_line(part):
    first = (part.get("result") or {}).get("first_line")
    return (first or part["reason"].partition("\n")[0])[:200]
