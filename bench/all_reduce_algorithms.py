#!/usr/bin/env python3
"""All-reduce by ring, tree and direct plans, and by the algorithm that the cost model chooses, on several hosts.

Measures the whole stack: a compiled NCCL program with one rank per host, the shim, mccsd and the emulation of CUDA.
Alternates between numbers of hosts and algorithms. Prints a table per number of hosts, in microseconds, and one JSON
line per figure. Exit status 1 if a measurement fails.
"""
import argparse
import functools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "share/bench"))

import measuring  # noqa: E402

BIN = pathlib.Path(__file__).resolve().parent
ALGORITHMS = ["ring", "tree", "direct"]
CHOSEN = "chosen"

call = functools.partial(measuring.call, timeout_s=300)


def serves(algorithm, hosts):
    return algorithm != "tree" or hosts >= 3


def measure(hosts, algorithm, options):
    """Microseconds by size, for each run in one new lab."""
    lab = f"bench-{os.getpid()}"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        if algorithm != CHOSEN:
            config.write(f"algorithms: {{rules: [{{kind: {options.op}, algorithm: {algorithm}}}]}}\n")
        config.flush()
        call(BIN / "mccs-lab", "up", "--name", lab, "--hosts", hosts, "--gpus", 1, "--mccsd-config", config.name)
    try:
        return [perf(lab, options) for _ in range(options.runs)]
    finally:
        call(BIN / "mccs-lab", "down", "--name", lab)


def perf(lab, options):
    table = call(BIN / "mccs-lab", "run", "--name", lab, "--", BIN / "collective_perf", "--op", options.op, "--min",
                 options.min, "--max", options.max, "--factor", options.factor, "--iters", options.iters, "--warmup",
                 20, "--out-of-place", "--check", 0)
    rows = re.findall(r"^(?:\[0\])?\s*(\d+)\s+\d+\s+float\S*\s+\S+\s+\S+\s+([\d.]+)\s", table, re.MULTILINE)
    if not rows:
        raise RuntimeError(f"no figures in\n{table}")
    return {int(size): float(time_us) for size, time_us in rows}


def print_table(hosts, figures, options):
    algorithms = [algorithm for algorithm in ALGORITHMS + [CHOSEN] if (hosts, algorithm) in figures]
    print(f"\n{options.op}, {hosts} hosts, us\n\n| bytes | {' | '.join(algorithms)} |\n|{'---|' * (len(algorithms) + 1)}")
    for size in figures[hosts, CHOSEN]:
        print(f"| {size} | " + " | ".join(f"{figures[hosts, algorithm][size]:.1f}" for algorithm in algorithms) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="all_reduce", choices=["all_reduce", "broadcast", "reduce"])
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1, help="runs of the program per lab and round")
    parser.add_argument("--iters", type=int, default=300)
    parser.add_argument("--best", action="store_true",
                        help="report the best run instead of the median, for busy machines")
    parser.add_argument("--min", type=int, default=8)
    parser.add_argument("--max", type=int, default=1 << 20)
    parser.add_argument("--factor", type=int, default=4)
    options = parser.parse_args()
    algorithms = {hosts: [each for each in ALGORITHMS if serves(each, hosts)] + [CHOSEN] for hosts in options.hosts}
    if options.op != "all_reduce":
        algorithms = {hosts: [each for each in some if each != "direct"] for hosts, some in algorithms.items()}
    series = {}
    try:
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            for hosts in options.hosts:
                for algorithm in algorithms[hosts]:
                    series.setdefault((hosts, algorithm), []).extend(measure(hosts, algorithm, options))
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
        print(f"all_reduce_algorithms: {error}", file=sys.stderr)
        return 1
    count = min if options.best else statistics.median
    figures = {key: {size: count([run[size] for run in runs]) for size in runs[0]} for key, runs in series.items()}
    print(f"{measuring.machine()}; {'best' if options.best else 'median'} of {options.runs} runs in "
          f"each of {options.rounds} alternating rounds")
    for hosts in options.hosts:
        print_table(hosts, figures, options)
    print()
    for (hosts, algorithm), times in figures.items():
        for size, time_us in times.items():
            print(json.dumps({"bench": "all_reduce_algorithms", "op": options.op, "hosts": hosts, "algorithm": algorithm,
                              "bytes": size, "value": time_us, "unit": "us", "rounds": options.rounds, "best": options.best}))
    return 0


sys.exit(main())
