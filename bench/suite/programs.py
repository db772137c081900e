"""Runs MCCS, its peers and the lower limits. Each function returns microseconds per call."""
import os
import re
import shutil
import socket
import subprocess

from measuring import call
from paths import BIN, GLOO, PYTORCH

WARMUP = 5
CHANNELS = 2  # lanes per direction between two hosts, by default; a bare exchange has as many sockets
MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]
SHARED_MEMORY = ["--mca", "btl", "vader,self"]
TCP = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
MPI_TIMEOUT_S = 300


class Lab:
    """A lab of hosts on this machine, for one run of the suite."""

    def __init__(self, hosts, gpus):
        self.name = f"bench-{os.getpid()}"
        call(BIN / "mccs-lab", "up", "--name", self.name, "--hosts", hosts, "--gpus", gpus)

    def down(self):
        call(BIN / "mccs-lab", "down", "--name", self.name)

    def run(self, ranks, ranks_per_host, *program):
        return call(BIN / "mccs-lab", "run", "--name", self.name, "--ranks", ranks, "--ranks-per-host", ranks_per_host,
                    "--", *program, timeout_s=300)

    def collectives(self, ranks, ranks_per_host, op, sizes, iterations):
        """By (collective, size). `op` may be "all"; `sizes` is a range (smallest, largest, factor)."""
        smallest, largest, factor = sizes
        table = self.run(ranks, ranks_per_host, BIN / "collective_perf", "--op", op, "--min",
                         smallest, "--max", largest, "--factor", factor, "--iters", iterations, "--warmup", WARMUP,
                         "--out-of-place", "--check", 0)
        found = {}
        for line in table.splitlines():
            line = line.removeprefix("[0] ")
            if heading := re.match(r"# (\w+), \d+ ranks", line):
                collective = heading.group(1)
            elif row := re.match(r"\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s", line):
                found[collective, int(row.group(1))] = float(row.group(2))
        if not found:
            raise RuntimeError(f"collective_perf printed no figures:\n{table}")
        return found

    def latency(self, processes, hosts, size, groups, *options):
        """(median of waited calls, their 99th percentile, mean of pipelined calls)."""
        output = self.run(processes, processes // hosts, BIN / "call_latency", size, groups, *options)
        return tuple(map(float, output.removeprefix("[0] ").split()))


def open_mpi(transport, ranks, op, sizes, iterations):
    """By size; for each size the best of OpenMPI's choice and its ring. Empty without OpenMPI."""
    if shutil.which("mpirun") is None or not (BIN / "mpi_collective").exists():
        return {}
    algorithms = [[]]
    if op == "all_reduce":
        algorithms.append(["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"])
    tables = [call(*MPIRUN, "-np", ranks, *transport, *algorithm, BIN / "mpi_collective",
                   iterations, *sizes, "--op", op, timeout_s=MPI_TIMEOUT_S).split()
              for algorithm in algorithms]
    return {size: min(map(float, times)) for size, *times in zip(sizes, *tables)}


def gloo(ranks, op, sizes, iterations):
    """By size. Empty without PyTorch."""
    if not PYTORCH.exists():
        return {}
    common = os.environ | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                           "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen([PYTORCH, GLOO, "--op", op, *map(str, [iterations, *sizes])],
                                  env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                 for rank in range(ranks)]
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(process.returncode != 0 for process in processes):
        raise RuntimeError("gloo_collective failed:\n" + "\n".join(outputs))
    times = re.findall(r"^[\d.]+$", outputs[0], re.MULTILINE)
    if len(times) != len(sizes):
        raise RuntimeError(f"gloo_collective printed {len(times)} figures, expected {len(sizes)}:\n{outputs[0]}")
    return dict(zip(sizes, map(float, times)))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def bare_exchange(size, iterations):
    """Best of three sizes of system calls."""
    return min(map(float, call(BIN / "bare_exchange", size, iterations, CHANNELS).split()))


def memory_limit(reads, writes, size, iterations):
    return float(call(BIN / "memory_limit", reads, writes, size, iterations))
