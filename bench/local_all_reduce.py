#!/usr/bin/env python3
"""Compares MCCS's all-reduce with OpenMPI and a bare exchange over sockets, in alternating rounds.

Measures the whole stack ("ours"): a compiled NCCL program, the shim, mccsd of a lab and the emulation of CUDA. Prints a
table and one JSON line per figure. Exit status 0 even if a target is missed; 1 if a measurement fails.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "share/bench"))

from measuring import call, machine  # noqa: E402

BIN = pathlib.Path(__file__).resolve().parent
LO_COUNTER = pathlib.Path("/sys/class/net/lo/statistics/tx_bytes")
CHANNELS = 2  # default lanes per direction between two hosts; the bare exchange uses as many sockets
WARMUP = 5
LARGE = 16 << 20
LARGE_CALLS = 20
SMALL = 8
SMALL_CALLS = 2000
MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "-np", "2"]
# OpenMPI's default algorithm, and its ring.
ALGORITHMS = {"default": [], "ring": ["--mca", "coll_tuned_use_dynamic_rules", "1",
                                      "--mca", "coll_tuned_allreduce_algorithm", "4"]}
SHARED_MEMORY = ["--mca", "btl", "vader,self"]
TCP = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]


class Lab:
    def __init__(self):
        self.name = f"bench-{os.getpid()}"
        call(BIN / "mccs-lab", "up", "--name", self.name, "--hosts", 2, "--gpus", 2)

    def down(self):
        call(BIN / "mccs-lab", "down", "--name", self.name)

    def large(self, *place):
        """Microseconds of one large all-reduce with one process per rank."""
        table = call(BIN / "mccs-lab", "run", "--name", self.name, *place, "--", BIN / "collective_perf", "--min",
                     LARGE, "--max", LARGE, "--iters", LARGE_CALLS, "--warmup", WARMUP, "--out-of-place",
                     "--check", 0)
        row = re.search(rf"^(?:\[0\])?\s*{LARGE}\s.*$", table, re.MULTILINE)
        if row is None:
            raise RuntimeError(f"no row of {LARGE} bytes in\n{table}")
        return float(row.group().replace("[0]", "").split()[5])

    def small(self):
        """Microseconds of one small call waited for, and of one in a pipeline; two ranks in one process."""
        return map(float, call(BIN / "mccs-lab", "exec", "--name", self.name, "h0", "--",
                               BIN / "latency_all_reduce", SMALL, SMALL_CALLS).split())


def mpi(transport, size, calls):
    """Microseconds of one all-reduce, by algorithm; empty without MPI."""
    if shutil.which("mpirun") is None or not (BIN / "mpi_collective").exists():
        return {}
    return {name: float(call(*MPIRUN, *transport, *algorithm, BIN / "mpi_collective", size, calls))
            for name, algorithm in ALGORITHMS.items()}


def bare():
    """Microseconds of one exchange, by call size."""
    return dict(enumerate(map(float, call(BIN / "bare_exchange", LARGE, LARGE_CALLS, CHANNELS).split())))


def measure(rounds):
    """Medians by name, over rounds that measure everything once. For each peer, its algorithm with the best median."""
    series = {}

    def keep(name, values):
        for variant, value in (values if isinstance(values, dict) else {"": values}).items():
            series.setdefault(name, {}).setdefault(variant, []).append(value)

    lab = Lab()
    try:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            keep("shm ours", lab.large("--ranks", 2, "--ranks-per-host", 2))
            keep("shm OpenMPI", mpi(SHARED_MEMORY, LARGE, LARGE_CALLS))
            before = int(LO_COUNTER.read_text())
            keep("tcp ours", lab.large("--ranks", 2, "--ranks-per-host", 1))
            keep("lo bytes", int(LO_COUNTER.read_text()) - before)
            keep("tcp bare", bare())
            keep("tcp OpenMPI", mpi(TCP, LARGE, LARGE_CALLS))
            one_by_one, following = lab.small()
            keep("8 B ours", one_by_one)
            keep("8 B ours, following", following)
            keep("8 B OpenMPI", mpi(SHARED_MEMORY, SMALL, SMALL_CALLS))
    finally:
        lab.down()
    return {name: min(map(statistics.median, ways.values())) for name, ways in series.items()}


class Report:
    def __init__(self, rounds):
        self.rounds = rounds
        self.machine = machine()
        self.date = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self.lines = []

    def figure(self, name, who, value, unit, verdict=""):
        self.lines.append((name, who, value, unit, verdict))

    def print(self):
        print(f"{self.machine}; {self.date}; medians of {self.rounds} alternating rounds")
        for name, who, value, unit, verdict in self.lines:
            shown = "not measured" if value is None else f"{value:12.2f}"
            print(f"  {name:42} {who:28} {shown} {unit:5} {verdict}")
        for name, who, value, unit, verdict in self.lines:
            line = {"bench": "local_all_reduce", "figure": name, "who": who, "value": value, "unit": unit}
            if verdict:
                line["target"] = verdict
            print(json.dumps(line | {"rounds": self.rounds, "machine": self.machine, "date": self.date}))


def target(value, least=None, most=None):
    if value is None:
        return "not measured: MPI is missing (Debian: libopenmpi-dev, openmpi-bin)"
    met = value >= least if least is not None else value <= most
    bound = f">= {least}" if least is not None else f"<= {most}"
    return f"{'MET' if met else 'MISSED'} (target {bound})"


def report(median, rounds):
    ranks = 2
    out = Report(rounds)

    def busbw(name):
        time_us = median.get(name)
        return None if time_us is None else LARGE * 2 * (ranks - 1) / ranks / time_us / 1e3

    def ratio(ours, peer):
        return None if peer not in median else median[peer] / median[ours]

    shm = "16 MiB float32, 2 ranks, 1 host"
    out.figure(shm, "ours", busbw("shm ours"), "GB/s")
    out.figure(shm, "OpenMPI, shared memory", busbw("shm OpenMPI"), "GB/s")
    speedup = ratio("shm ours", "shm OpenMPI")
    out.figure(shm, "ours / OpenMPI", speedup, "x", target(speedup, least=2))

    tcp = "16 MiB float32, 2 hosts x 1 rank, loopback"
    out.figure(tcp, "ours", busbw("tcp ours"), "GB/s")
    out.figure(tcp, f"bare exchange, {CHANNELS}+{CHANNELS} sockets", busbw("tcp bare"), "GB/s")
    out.figure(tcp, "OpenMPI, tcp", busbw("tcp OpenMPI"), "GB/s")
    share = ratio("tcp ours", "tcp bare")
    out.figure(tcp, "ours / bare exchange", share, "x", target(share, least=0.8))
    out.figure(tcp, "ours / OpenMPI", ratio("tcp ours", "tcp OpenMPI"), "x")
    payload = 2 * LARGE * (LARGE_CALLS + WARMUP)
    passed = "MET" if median["lo bytes"] >= payload else "MISSED"
    out.figure(tcp, "through lo while ours ran", median["lo bytes"] / 1e6, "MB",
               f"{passed} (payload of {LARGE_CALLS + WARMUP} calls: {payload / 1e6:.0f} MB)")

    small = "8 B, 2 ranks, 1 process"
    out.figure(small, "ours, waited for one by one", median["8 B ours"], "us", target(median["8 B ours"], most=10))
    out.figure(small, "ours, following each other", median["8 B ours, following"], "us")
    out.figure(small, "OpenMPI, 2 processes", median.get("8 B OpenMPI"), "us")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = max(1, parser.parse_args().rounds)
    try:
        medians = measure(rounds)
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
        print(f"local_all_reduce: {error}", file=sys.stderr)
        return 1
    report(medians, rounds).print()
    return 0


sys.exit(main())
