#!/usr/bin/env python3
"""Runs targets of coverage-guided fuzzing (tests/fuzz/targets/) and prints a table. scripts/fuzz builds and calls it.

A target starts from its kept inputs, tests/fuzz/corpus/TARGET, and from those of earlier runs, build/fuzz/corpus/TARGET,
where it also writes new ones. A run of a target ends with its first crash, whose input lies in build/fuzz/crashes/TARGET.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ROOT / "tests/fuzz/targets"
KEPT = ROOT / "tests/fuzz/corpus"
BUILD = ROOT / "build/fuzz"

# Limits of one input: longer, larger or slower is a finding. The inputs are short, so an allocation of this size comes
# from a length that the input claims.
LIMITS = {"timeout": 20, "rss_limit_mb": 2048, "malloc_limit_mb": 64}
# Longest input; most messages of these protocols are shorter.
MOST_BYTES = 4096
PROGRESS_SECONDS = 10
ENVIRONMENT = {
    # A small quarantine: inputs are short-lived, and filling caches costs more than it finds.
    "ASAN_OPTIONS": "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:malloc_context_size=8:detect_odr_violation=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}

interrupted = threading.Event()
running = set()


@dataclasses.dataclass
class Result:
    target: str
    inputs: int = 0
    processor_seconds: float = 0.0
    lines: int = 0  # of the code under test that were reached
    all_lines: int = 0
    new: int = 0  # inputs that reach something new
    crash: str = ""  # how to repeat it
    error: str = ""  # the target did not run


def target_names():
    return sorted(path.stem for path in TARGETS.glob("*.cc") if "const FuzzTarget kTarget(" in path.read_text())


def files_under_test(target):
    """Patterns of the files whose coverage counts: the lines `// FUZZES: pattern...` of the target."""
    found = re.findall(r"^// FUZZES: (.*)$", (TARGETS / f"{target}.cc").read_text(), re.MULTILINE)
    return [pattern for line in found for pattern in line.split()]


def tool(name):
    """A program of LLVM 19."""
    if path := shutil.which(f"{name}-19"):
        return path
    sys.exit(f"fuzz: no {name}-19: run scripts/setup, which installs it")


def start(target, options, directories, output, profile="/dev/null"):
    environment = {**os.environ, **ENVIRONMENT, "ASAN_SYMBOLIZER_PATH": tool("llvm-symbolizer"),
                   "LLVM_PROFILE_FILE": str(profile)}
    options = {"artifact_prefix": f"build/fuzz/crashes/{target}/", **LIMITS, **options}
    process = subprocess.Popen(
        [BUILD / "bin/fuzz" / target, *(f"-{name}={value}" for name, value in options.items()), *directories],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    running.add(process)
    return process


def wait(process, each_moment=lambda: None):
    """Returns the exit status and the processor time in seconds."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            running.discard(process)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        each_moment()
        time.sleep(0.1)


def last_inputs(log):
    """The number of inputs in the last status line of a log."""
    found = re.findall(rb"^#(\d+)\t", log.read_bytes()[-65536:], re.MULTILINE)
    return int(found[-1]) if found else 0


def progress_of(target, log, seconds):
    """A function that prints the progress of a target every PROGRESS_SECONDS."""
    begin = time.monotonic()
    shown = begin

    def show():
        nonlocal shown
        now = time.monotonic()
        if now - shown >= PROGRESS_SECONDS:
            shown = now
            # One write: several targets print.
            sys.stdout.write(f"fuzz: {target}: {last_inputs(log):,} inputs, {now - begin:.0f} s of {seconds:.0f} s\n")
            sys.stdout.flush()

    return show


def fuzz(target, arguments):
    result = Result(target)
    program = BUILD / "bin/fuzz" / target
    if not program.exists():
        result.error = f"{program.relative_to(ROOT)} does not exist; run scripts/fuzz, which builds it"
        return result
    log = BUILD / "logs" / f"{target}.log"
    found = BUILD / "corpus" / target
    crashes = BUILD / "crashes" / target
    kept = KEPT / target
    for directory in (log.parent, found, crashes, kept):
        directory.mkdir(parents=True, exist_ok=True)
    before = set(crashes.iterdir())
    with tempfile.TemporaryDirectory() as scratch:
        new = pathlib.Path(scratch) if arguments.keep_corpus else found
        options = {"max_total_time": max(1, round(arguments.seconds)), "max_len": MOST_BYTES, "print_final_stats": 1,
                   "reload": 0, "print_funcs": 0}
        if arguments.seed:
            options["seed"] = arguments.seed
        with log.open("wb") as output:
            process = start(target, options, [new, kept], output)
            status, result.processor_seconds = wait(process, progress_of(target, log, arguments.seconds))
    text = log.read_text(errors="replace")
    statistics = dict(re.findall(r"^stat::(\w+): +(\d+)", text, re.MULTILINE))
    result.inputs = int(statistics.get("number_of_executed_units", last_inputs(log)))
    result.new = int(statistics.get("new_units_added", 0))
    crashed = sorted(set(crashes.iterdir()) - before)
    if crashed:
        path = crashed[0].relative_to(ROOT)
        result.crash = f"{path}\n  repeat: LLVM_PROFILE_FILE=/dev/null {program.relative_to(ROOT)} {path}\n  log: {log.relative_to(ROOT)}"
    elif status != 0 and not interrupted.is_set():
        result.error = f"exit status {status}; see {log.relative_to(ROOT)}"
    if not arguments.no_coverage and not result.error and not interrupted.is_set():
        measure_coverage(result, [found, kept])
    return result


def measure_coverage(result, directories):
    """Counts the lines of the code under test, and those that the inputs reach."""
    base = BUILD / "logs" / result.target
    raw, data, log = base.with_suffix(".profraw"), base.with_suffix(".profdata"), base.with_suffix(".coverage")
    program = BUILD / "bin/fuzz" / result.target
    with log.open("wb") as output:
        status, _ = wait(start(result.target, {"runs": 0, "verbosity": 0}, directories, output, raw))
        if status == 0:
            status = subprocess.call([tool("llvm-profdata"), "merge", "-sparse", raw, "-o", data], stdout=output,
                                     stderr=output)
        if status != 0:
            if not result.crash and not interrupted.is_set():
                result.error = f"coverage: exit status {status}; see {log.relative_to(ROOT)}"
            return
        exported = subprocess.run([tool("llvm-cov"), "export", "-summary-only", f"-instr-profile={data}", program],
                                  stdout=subprocess.PIPE, stderr=output, check=True)
    patterns = files_under_test(result.target)
    for file in json.loads(exported.stdout)["data"][0]["files"]:
        path = pathlib.PurePath(os.path.normpath(file["filename"]))
        if any(path.match(pattern) for pattern in patterns):
            result.lines += file["summary"]["lines"]["covered"]
            result.all_lines += file["summary"]["lines"]["count"]
    raw.unlink()


def save(target):
    """Adds to the kept inputs those that reach code which they do not reach."""
    found = BUILD / "corpus" / target
    kept = KEPT / target
    kept.mkdir(parents=True, exist_ok=True)
    if not found.is_dir():
        return
    log = BUILD / "logs" / f"{target}.merge"
    with tempfile.TemporaryDirectory() as merged, log.open("wb") as output:
        # The few that reach all edges replace the kept ones. How often they reach an edge does not count.
        options = {"set_cover_merge": 1, "use_counters": 0, "max_len": MOST_BYTES}
        status, _ = wait(start(target, options, [merged, kept, found], output))
        if status != 0:
            sys.exit(f"fuzz: cannot merge the inputs of {target}: see {log.relative_to(ROOT)}")
        for path in kept.iterdir():
            path.unlink()
        for path in pathlib.Path(merged).iterdir():
            shutil.copyfile(path, kept / path.name)
    print(f"fuzz: {target}: {len(list(kept.iterdir()))} inputs kept in {kept.relative_to(ROOT)}", flush=True)


def print_table(results):
    rows = [("TARGET", "INPUTS", "PER CPU S", "LINES", "COVERAGE", "NEW", "CRASHES")]
    for each in results:
        coverage = (f"{each.lines}/{each.all_lines}", f"{100 * each.lines / each.all_lines:.0f} %") if each.all_lines else (
            "-", "-")
        rows.append((each.target, f"{each.inputs:,}", f"{each.inputs / max(each.processor_seconds, 0.001):,.0f}", *coverage,
                     str(each.new), "1" if each.crash else "0"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]))


def stop(_signal, _frame):
    interrupted.set()
    for process in list(running):
        process.send_signal(signal.SIGINT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--minutes", type=float, default=1, help="for each target (1)")
    parser.add_argument("--seconds", type=float, help="the same in seconds; MCCS_FUZZ_TARGET_SECONDS overrides it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time (one per core)")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; default: random")
    parser.add_argument("--keep-corpus", action="store_true", help="start from the kept inputs only, and write no new ones")
    parser.add_argument("--no-coverage", action="store_true", help="do not measure the coverage")
    parser.add_argument("--save", action="store_true", help="then add inputs that reach more code to tests/fuzz/corpus")
    parser.add_argument("--list", action="store_true", help="print the targets and end")
    arguments = parser.parse_args()
    if arguments.seconds is not None:
        arguments.seconds = float(os.environ.get("MCCS_FUZZ_TARGET_SECONDS", arguments.seconds))
    else:
        arguments.seconds = 60 * arguments.minutes
    known = target_names()
    if arguments.list:
        print("\n".join(known))
        return 0
    for target in arguments.targets:
        if target not in known:
            parser.error(f"unknown target '{target}': expected {', '.join(known)}")
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        wanted = arguments.targets or known
        results = list(pool.map(lambda target: Result(target) if interrupted.is_set() else fuzz(target, arguments), wanted))
    print_table(results)
    for each in results:
        if each.crash:
            print(f"fuzz: {each.target}: crash: {each.crash}", file=sys.stderr)
        if each.error:
            print(f"fuzz: {each.target}: {each.error}", file=sys.stderr)
    crashes = sum(bool(each.crash) for each in results)
    print(f"fuzz: {len(results)} targets, {sum(each.inputs for each in results):,} inputs, {crashes} crashes")
    if interrupted.is_set():
        return 130
    if arguments.save and not crashes:
        for target in wanted:
            save(target)
    return 1 if crashes or any(each.error for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
