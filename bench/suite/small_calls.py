"""All-reduces of 8 bytes: in one process, between processes, between hosts, and in groups."""
import programs
from figures import Measurement, Row, at_most, of, ratio
from measuring import call
from paths import BIN

SIZE = 8
CALLS = 2000
CALLS_BETWEEN_PROCESSES = 1000
GROUP = 16


def measurements(lab):
    def one_process():
        waited, p99, pipelined = lab.latency(1, 1, SIZE, CALLS, "-g", 2)
        return {"8 B/process/waited": waited, "8 B/process/p99": p99, "8 B/process/pipelined": pipelined}

    def group():
        waited, _, _ = lab.latency(1, 1, SIZE, CALLS, "-g", 2, "--per-group", GROUP)
        return {"8 B/process/group": waited}

    def group_between_hosts():
        waited, _, _ = lab.latency(2, 2, SIZE, CALLS_BETWEEN_PROCESSES, "--per-group", GROUP)
        return {"8 B/2 hosts x 1/group": waited}

    def processes(place, ranks, hosts):
        waited, p99, pipelined = lab.latency(ranks, hosts, SIZE, CALLS_BETWEEN_PROCESSES)
        return {f"8 B/{place}/waited": waited, f"8 B/{place}/p99": p99, f"8 B/{place}/pipelined": pipelined}

    def open_mpi(place, transport, ranks):
        times = programs.open_mpi(transport, ranks, "all_reduce", [SIZE], CALLS)
        return {f"8 B/{place}/OpenMPI": times[SIZE]} if times else {}

    yield Measurement("8 B, one process", 1, one_process)
    yield Measurement(f"8 B, groups of {GROUP}", 1, group)
    yield Measurement("hop of an all-gather", 1, lambda: {"8 B/hop": float(call(BIN / "gather_hop"))})
    yield Measurement("8 B, two processes", 2, lambda: processes("two processes", 2, 1))
    yield Measurement(f"{SIZE} B through a chain of four processes", 1,
                      lambda: {"8 B/chain": float(call(BIN / "bare_chain", CALLS))})
    yield Measurement("OpenMPI 8 B, shared memory", 2,
                      lambda: open_mpi("two processes", programs.SHARED_MEMORY, 2))
    for per_host in (1, 2):
        place = f"2 hosts x {per_host}"
        yield Measurement(f"8 B, {place}", 2, lambda place=place, n=per_host: processes(place, 2 * n, 2))
        yield Measurement(f"OpenMPI 8 B, TCP, {2 * per_host} ranks", 2,
                          lambda place=place, n=per_host: open_mpi(place, programs.TCP, 2 * n))
    yield Measurement(f"8 B, 2 hosts x 1, groups of {GROUP}", 2, group_between_hosts)


def rows():
    lower = {"higher_is_better": False}
    yield Row("all_reduce 8 B, 2 ranks in a process: waited for", "us", of("8 B/process/waited"), at_most(1.5), **lower)
    yield Row("all_reduce 8 B, 2 ranks in a process: 99th percentile", "us", of("8 B/process/p99"), **lower)
    yield Row("all_reduce 8 B, 2 ranks in a process: time over OpenMPI's", "x",
              ratio("8 B/process/waited", "8 B/two processes/OpenMPI"), at_most(4), **lower)
    yield Row("all_reduce 8 B, 2 ranks in a process: pipelined", "us", of("8 B/process/pipelined"), at_most(3), **lower)
    yield Row(f"{GROUP} all_reduces of 8 B in a group over one", "x", ratio("8 B/process/group", "8 B/process/waited"),
              at_most(2), **lower)
    yield Row("all_reduce 8 B, 2 ranks in two processes: waited for", "us", of("8 B/two processes/waited"), at_most(10),
              **lower)
    yield Row("all_reduce 8 B, 2 ranks in two processes: 99th percentile", "us", of("8 B/two processes/p99"), **lower)
    yield Row("all_reduce 8 B, 2 ranks in two processes: pipelined", "us", of("8 B/two processes/pipelined"), **lower)
    for per_host in (1, 2):
        place = f"2 hosts x {per_host}"
        yield Row(f"all_reduce 8 B, {place}: waited for", "us", of(f"8 B/{place}/waited"), **lower)
        yield Row(f"all_reduce 8 B, {place}: time over OpenMPI's", "x",
                  ratio(f"8 B/{place}/waited", f"8 B/{place}/OpenMPI"), at_most(1.5), **lower)
    yield Row("all_reduce 8 B, 2 hosts x 1: time over a bare chain of as many processes", "x",
              ratio("8 B/2 hosts x 1/waited", "8 B/chain"), at_most(2.5), **lower)
    yield Row(f"{GROUP} all_reduces of 8 B in a group over one, 2 hosts x 1", "x",
              ratio("8 B/2 hosts x 1/group", "8 B/2 hosts x 1/waited"), at_most(2), **lower)
    yield Row("all_gather 8 B between two hosts: hop", "us", of("8 B/hop"), at_most(11), **lower)
