"""Bandwidth and latency of all-reduces of several ranks on one GPU, beside a copy kernel and the real NCCL."""
import os
import pathlib
import re

from probe import run_probe
from results import Failed

MIB = 1 << 20
RANKS = (2, 4, 8)
SMALL_BYTES = 8
SMALL_CALLS = 2000  # of the ranks of one process
SHARED_CALLS = 300  # of processes, for each of which the GPU may need time slices of milliseconds
INITS = 10
COPY = re.compile(r"(kernel|cudaMemcpyAsync) ([\d.]+) GB/s")
INIT = re.compile(r"takes ([\d.]+) ms .*, ([\d.]+) ms at most")
GOAL_RATIO = 0.8


def memory_rate(ranks, size_bytes, microseconds):
    """GB/s that all ranks have read and written together at least: each input once, each output once."""
    return 2 * ranks * size_bytes / microseconds / 1e3


def rows_of(output):
    """(bytes, µs out of place) of each line of collective_perf."""
    rows = []
    for line in output.splitlines():
        words = line.split()
        if len(words) > 5 and not line.startswith("#"):
            rows.append((int(words[0]), float(words[5])))
    return rows


def copy_rate(check):
    """The bandwidth of a copy kernel, reads and writes, in GB/s."""
    one = run_probe(check, "copy", 20, ["bandwidth_of_copies"]).get("bandwidth_of_copies")
    if one is None or one["outcome"] != "PASS":
        raise Failed(f"cuda_probe has no figure: {one and one['text']}")
    rates = {name: float(value) for name, value in COPY.findall(one["text"])}
    for name, rate in rates.items():
        check.figure(f"copy by {name}, read + written", rate, "GB/s")
    return rates.get("kernel") or rates["cudaMemcpyAsync"]


def rate_of(check, name, processes, per_process, environment, size, *options):
    """Times all-reduces of one size and reports them; returns GB/s, read and written."""
    command = [check.package.program("collective_perf"), "--op", "all_reduce", "-b", size, "-e", size,
               "-n", 3 if check.emulated else 10, "-w", 2, "-g", per_process, "--out-of-place", *options]
    log = "perf-" + re.sub(r"\W+", "-", f"{name}-{size}".lower())
    rows = rows_of(check.run_ranks(log, processes, command, environment, 15).expect())
    if not rows:
        raise Failed("collective_perf printed no figures")
    size_bytes, microseconds = rows[-1]
    rate = memory_rate(processes * per_process, size_bytes, microseconds)
    check.figure(f"{name}, {size_bytes // MIB} MiB: time", microseconds, "µs")
    check.figure(f"{name}, {size_bytes // MIB} MiB: read + written", rate, "GB/s")
    return rate


def measure(check, name, processes, per_process, environment):
    """The bandwidth of large all-reduces, of which every element is checked. Returns GB/s, the best of the sizes."""
    rate = rate_of(check, name, processes, per_process, environment, "64M")
    if not check.emulated:
        # The check of this size takes long: only the time.
        larger = check.attempt(name, rate_of, check, name, processes, per_process, environment, "256M", "--check", 0)
        rate = max(rate, larger or 0)
    return rate


def latency(check, name, processes, per_process, environment):
    """Of 8 bytes: plain calls, then replays of a graph."""
    log = re.sub(r"\W+", "-", name.lower())
    calls = SMALL_CALLS if processes == 1 else SHARED_CALLS
    command = [check.package.program("call_latency"), SMALL_BYTES, calls, "-g", per_process]
    words = check.run_ranks(f"latency-{log}", processes, command, environment, 10).expect().split()
    check.figure(f"{name}, 8 B: median", float(words[0]), "µs")
    check.figure(f"{name}, 8 B: 99th percentile", float(words[1]), "µs")
    check.figure(f"{name}, 8 B: pipelined", float(words[2]), "µs")
    command = [check.package.program("graph_replays"), calls, "-g", per_process]
    words = check.run_ranks(f"captured-{log}", processes, command, environment, 10).expect().split()
    check.figure(f"{name}, 8 B captured: mean", float(words[0]), "µs")
    check.figure(f"{name}, 8 B captured: pipelined", float(words[1]), "µs")
    return True


def time_of_init(check, name, environment):
    """Of ncclCommInitRank on all of 8 processes."""
    ranks = max(RANKS)
    command = [check.package.program("communicator_init"), INITS]
    log = "init-" + re.sub(r"\W+", "-", name.lower())
    found = INIT.search(check.run_ranks(log, ranks, command, environment, 15).expect())
    check.figure(f"{name}, init of {ranks} ranks: median", float(found[1]), "ms")
    check.figure(f"{name}, init of {ranks} ranks: longest", float(found[2]), "ms")


def of_mccs(check, copy):
    """Returns the ratios to the copy by the number of ranks."""
    ratios = {}
    for layout in ("1 process", "processes"):
        for ranks in RANKS:
            processes, per_process = (1, ranks) if layout == "1 process" else (ranks, 1)
            name = f"MCCS, {ranks} ranks, {layout}"
            rate = check.attempt(name, measure, check, name, processes, per_process, check.environment.mccs())
            if rate and copy:
                ratio = check.figure(f"{name}: ratio to the copy", rate / copy, "x").value
                ratios[ranks] = max(ratio, ratios.get(ranks, 0))
    return ratios


def of_real_nccl(check):
    environment = check.environment
    if environment.emulated or environment.nccl is None:
        check.note("SKIPPED NCCL: " + ("it needs a GPU" if environment.emulated else "no libnccl.so.2"))
        return
    for ranks in RANKS:
        name = f"NCCL, {ranks} ranks, 1 process"
        try:
            rate_of(check, name, 1, ranks, environment.real_nccl(), "64M")
        except Failed as failure:
            check.note(f"SKIPPED {name}: NCCL did not run {ranks} ranks on one GPU: {failure}")
            break
    for name, ranks in (("NCCL, 1 rank", 1), ("NCCL, 2 ranks, 1 process", 2)):
        try:
            latency(check, name, 1, ranks, environment.real_nccl())
        except Failed as failure:
            check.note(f"SKIPPED {name}, 8 B: {failure}")


def daemon_has_context(check):
    """Every CUDA context opens this device; NVML does not."""
    links = pathlib.Path(f"/proc/{check.service.daemon.pid}/fd").iterdir()
    return any(os.path.realpath(link) == "/dev/nvidia-uvm" for link in links)


def check_performance(check):
    """All-reduces of 2, 4 and 8 ranks on the GPU as a part of a copy kernel's bandwidth; 8 B plain and captured."""
    check.service.require(check.environment.cuda())
    copy = check.attempt("copy", copy_rate, check)
    for name, processes, per_process in (("MCCS, 1 rank", 1, 1), ("MCCS, 2 ranks, 1 process", 1, 2),
                                         ("MCCS, 2 ranks, 2 processes", 2, 1)):
        check.attempt(name, latency, check, name, processes, per_process, check.environment.mccs())
    ratios = of_mccs(check, copy)
    check.attempt("init", time_of_init, check, "MCCS", check.environment.mccs())
    of_real_nccl(check)
    if check.figure("CUDA contexts of the daemon", int(daemon_has_context(check))).value:
        check.problems.append("the daemon has a CUDA context, expected none")
    below = [ranks for ranks in RANKS if ratios.get(ranks, 0) < GOAL_RATIO]
    if below and not check.emulated:
        check.note(f"below the goal of {GOAL_RATIO} with {', '.join(map(str, below))} ranks")
    small = next((one for one in check.figures if one.name == "MCCS, 2 ranks, 1 process, 8 B: median"), None)
    return "; ".join([*(f"{ranks} ranks {ratio:.2f} x copy" for ranks, ratio in ratios.items()),
                      *([f"8 B of 2 ranks {small.value:.3g} µs"] if small else [])])
