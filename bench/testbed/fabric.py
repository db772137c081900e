"""The testbed's lab: policies, runs of MCCS and of peers, and the links' limits."""
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile

import measuring

BIN = pathlib.Path(__file__).resolve().parents[2] / "bin"
PYTORCH = BIN.parent / "pytorch/bin/python"
GLOO = BIN.parent / "share/bench/gloo_collective.py"
MIB = 1 << 20
# As in the published testbed: hosts 1 and 5 are in one rack, 2 and 3 in the other.
LIBRARY_ORDER = ["h2", "h1", "h3", "h5"]
LINK_BPS = 100e6  # of every link, per direction (tests/testbeds/mccs.yaml)
SPINES = 2

# Spec of a Policy.
PLACED = {"type": "fair_flow"}

call = functools.partial(measuring.call, timeout_s=900)


def random_ports(seed):
    """Policy with the best order and random ports: flows are not placed."""
    return {"type": "locality_ring", "parameters": {"port_seed": seed}}


def library_order(seed):
    """Policy with hosts in the order of their ranks and random ports."""
    return {"type": "rank_order", "parameters": {"port_seed": seed}}


class Fabric:
    """A lab with a network, to which `mccs-lab up` has applied its Topology."""

    def __init__(self, lab):
        self.lab = lab

    def in_host(self, host, *arguments, **options):
        return call(BIN / "mccs-lab", "exec", "--name", self.lab, host, "--", *arguments, **options)

    def control(self, *arguments, **options):
        return self.in_host("h1", BIN / "mccsctl", *arguments, **options)

    def apply_object(self, document):
        self.control("apply", "-f", "-", text_in=json.dumps(document))

    def apply(self, spec, name="testbed"):
        self.apply_object({"apiVersion": "mccs/v1", "kind": "Policy", "metadata": {"name": name}, "spec": spec})

    def apply_tenant(self, name, **spec):
        """Applies a Tenant for the lab's socket of that name."""
        self.apply_object({"apiVersion": "mccs/v1", "kind": "Tenant", "metadata": {"name": name},
                           "spec": {"selector": {"sockets": [name]}, **spec}})

    def communicators(self):
        return json.loads(self.control("get", "communicators", "-o", "json"))["communicators"]

    def explained(self, communicator, seconds):
        """Output of `mccsctl explain`, measured over `seconds`."""
        return json.loads(self.control("explain", "communicator", communicator, "--interval", seconds, "-o", "json"))

    def flows(self, communicator, seconds):
        return self.explained(communicator, seconds)["flows"]

    def command(self, hosts, ranks_per_host, op, size, iterations, warmup=0, gpu=None, tenant="a"):
        """Command of collective_perf as a job of a tenant of the lab, for Popen or call."""
        program = [BIN / "collective_perf", "--op", op, "--min", size, "--max", size, "--iters", iterations,
                   "--warmup", warmup, "--check", 0, "--out-of-place"]
        if gpu is not None:
            program = ["env", f"CUDA_VISIBLE_DEVICES={gpu}", *program]
        return [BIN / "mccs-lab", "run", "--name", self.lab, "--tenant", tenant, "--hosts", ",".join(hosts),
                "--ranks-per-host", ranks_per_host, "--", *program]

    def ours(self, ranks_per_host, op, size, iterations):
        """Microseconds of one call of MCCS."""
        table = call(*self.command(LIBRARY_ORDER, ranks_per_host, op, size, iterations,
                                   warmup=0 if iterations == 1 else 1))
        row = re.search(r"^\[0\]\s+\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)", table, re.MULTILINE)
        if row is None:
            raise RuntimeError(f"no row in\n{table}")
        return float(row.group(1))

    def open_mpi(self, ranks_per_host, op, size, iterations):
        """Microseconds of one call of OpenMPI's ring, in the library's order, over all NICs of the hosts."""
        ranks = ranks_per_host * len(LIBRARY_ORDER)
        ring = {"all_reduce": ["--mca", "coll_tuned_allreduce_algorithm", 4],
                "all_gather": ["--mca", "coll_tuned_allgather_algorithm", 4]}[op]
        with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as agent:
            agent.write(f'#!/bin/sh\nhost=$1; shift\nexec "{BIN}/mccs-lab" exec --name {self.lab} "$host" -- '
                        'env -u LD_PRELOAD sh -c "$*"\n')
        os.chmod(agent.name, 0o700)
        try:
            return float(self.in_host(
                LIBRARY_ORDER[0], "env", "-u", "LD_PRELOAD", "mpirun", "--allow-run-as-root", "--bind-to", "none",
                "--oversubscribe", "-np", ranks, "--host",
                ",".join(f"{host}:{ranks_per_host}" for host in LIBRARY_ORDER), "--map-by", "slot",
                "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent.name, "--mca", "btl", "vader,tcp,self",
                "--mca", "btl_tcp_if_include", "10.0.0.0/16", "--mca", "oob_tcp_if_include", "10.0.0.0/16",
                "--mca", "coll_tuned_use_dynamic_rules", 1, *ring, BIN / "mpi_collective", iterations, size,
                "--warmup", 0 if iterations == 1 else 1, "--op", op))
        finally:
            os.unlink(agent.name)


    def gloo(self, ranks_per_host, op, size, iterations):
        """Microseconds of one call of Gloo's ring, in the library's order, each rank over its own NIC."""
        output = call(BIN / "mccs-lab", "run", "--name", self.lab, "--hosts", ",".join(LIBRARY_ORDER), "--ranks-per-host",
                    ranks_per_host, "--", "env", "-u", "LD_PRELOAD", PYTORCH, GLOO, iterations, size,
                    "--warmup", 0 if iterations == 1 else 1, "--op", op, "--interface", "nic{}")
        return float(re.search(r"^\[0\] ([\d.]+)$", output, re.MULTILINE).group(1))

    def peers(self, report):
        """Installed peers, by name; reports missing ones to `report`."""
        here = {}
        for name, program, remedy, run in (
                ("OpenMPI ring", BIN / "mpi_collective", "libopenmpi-dev", self.open_mpi),
                ("Gloo ring", PYTORCH, "scripts/setup_pytorch", self.gloo)):
            if program.exists():
                here[name] = run
            else:
                report(f"{name}: not measured: {program} does not exist; install it with {remedy}")
        return here

    def training(self, tenant, hosts, ranks_per_host, gpu, size, compute_ms):
        """Starts a background job that alternates compute and all-reduce until it is terminated; parse its output with
        steps_of."""
        program = [BIN / "training_job", "--bytes", size, "--compute", compute_ms]
        if gpu is not None:
            program = ["env", f"CUDA_VISIBLE_DEVICES={gpu}", *program]
        return subprocess.Popen(
            [str(a) for a in [BIN / "mccs-lab", "run", "--name", self.lab, "--tenant", tenant, "--hosts", ",".join(hosts),
                              "--ranks-per-host", ranks_per_host, "--", *program]],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def end(jobs):
    """Terminates the jobs and returns the output of each; None if it is not captured."""
    for job in jobs:
        job.terminate()
    return [job.communicate(timeout=60)[0] for job in jobs]


def steps_of(lines):
    """(end time, duration) of each step, in seconds."""
    return [(float(ended), float(took)) for ended, took in re.findall(r"^\[0\] ([\d.]+) ([\d.]+)$", lines, re.MULTILINE)]


def limit_us(ranks_per_host, op, size):
    """Lower bound of a ring's time by the links' rates: each host sends over one NIC per participating GPU."""
    hosts = len(LIBRARY_ORDER)
    passes = {"all_reduce": 2, "all_gather": 1}[op]
    return passes * (hosts - 1) / hosts * size * 8 / (ranks_per_host * LINK_BPS) * 1e6
