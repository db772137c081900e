"""Tenants that share a host: 8-byte all-reduces of one tenant, of many, and beside a tenant with much more work."""
import os
import pathlib
import signal
import statistics
import subprocess
import time

from figures import Measurement, Row, at_most, of, ratio
from measuring import call
from paths import BIN

TENANTS = 64
COMMUNICATORS = 8
# Of the tenant with many communicators, beside a tenant with one.
MANY = 64
# Calls posted on a communicator before they are waited for, so that the engine always has work.
DEPTH = 16
SECONDS = 3
START_S = 0.2  # time to pass the start to all processes
TIMEOUT_S = 120
NEIGHBOUR_GIB = 4
IDLE_TENANTS = 8
IDLE_S = 5  # time in which the wake-ups of an idle daemon are counted
SETTLE_S = 2  # for reports and clocks after the communicators were formed
AFTERMATH_S = 3  # time for the kernel and the daemon to release the neighbour's memory


class Lab:
    """A lab of one host with sockets of tenants t0, t1, …"""

    def __init__(self, tenants):
        self.name = f"bench-tenants-{os.getpid()}"
        names = ",".join(f"t{i}" for i in range(tenants))
        call(BIN / "mccs-lab", "up", "--name", self.name, "--hosts", 1, "--gpus", 2, "--tenants", names)
        engines = self.processes("/mccsd")
        if len(engines) != 1:
            raise RuntimeError(f"found {len(engines)} processes of mccsd in lab {self.name}, expected 1")
        self.engine = engines[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        call(BIN / "mccs-lab", "down", "--name", self.name)

    def processes(self, program):
        """Pids of the program's processes in this lab."""
        found = []
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (directory / "cmdline").read_bytes()
                known = line + (directory / "environ").read_bytes()
            except OSError:
                continue
            if line.split(b"\0")[0].endswith(program.encode()) and self.name.encode() in known:
                found.append(int(directory.name))
        return found

    def start(self, tenant, program, *arguments):
        return subprocess.Popen([str(a) for a in (BIN / "mccs-lab", "exec", "--name", self.name, "--tenant",
                                                  f"t{tenant}", "h0", "--", BIN / program, *arguments)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def engine_cpu_ns(self):
        """Processor time of the daemon's engine, its main thread."""
        return int(pathlib.Path(f"/proc/{self.engine}/task/{self.engine}/schedstat").read_text().split()[0])

    def engine_use(self):
        """(how often the engine began to wait, its processor time in ns)"""
        status = pathlib.Path(f"/proc/{self.engine}/task/{self.engine}/status").read_text()
        waits = next(line.split()[1] for line in status.splitlines() if line.startswith("voluntary_ctxt_switches"))
        return int(waits), self.engine_cpu_ns()


def expect(process, line):
    found = process.stdout.readline().strip()
    if found != line:
        raise RuntimeError(f"{process.args}: expected '{line}', got '{found}'")


def calls_per_tenant(communicators):
    """(completed calls by tenant, the engine's processor time per call in microseconds); by tenant, its number of
    communicators."""
    with Lab(len(communicators)) as lab:
        tenants = [lab.start(t, "tenant_calls", "--communicators", own, "--depth", DEPTH, "--seconds", SECONDS)
                   for t, own in enumerate(communicators)]
        try:
            for tenant in tenants:
                expect(tenant, "ready")
            start = time.monotonic_ns() + int(START_S * 1e9)
            for tenant in tenants:
                tenant.stdin.write(f"{start}\n")
                tenant.stdin.flush()
            time.sleep(max(0.0, start / 1e9 - time.monotonic()))
            before = lab.engine_cpu_ns()
            time.sleep(SECONDS)
            used = lab.engine_cpu_ns() - before
            calls = [int(tenant.communicate(timeout=TIMEOUT_S)[0]) for tenant in tenants]
        finally:
            for tenant in tenants:
                tenant.kill()
                tenant.wait()
    if sum(calls) == 0:
        raise RuntimeError("tenant_calls completed no call")
    return calls, used / 1e3 / sum(calls)


def one_tenant():
    _, cost = calls_per_tenant([COMMUNICATORS])
    return {"tenants/1/cpu": cost}


def many_tenants():
    calls, cost = calls_per_tenant([COMMUNICATORS] * TENANTS)
    mean = statistics.mean(calls)
    unfair = max(max(calls) - mean, mean - min(calls)) / mean
    return {f"tenants/{TENANTS}/cpu": cost, f"tenants/{TENANTS}/unfairness": 100 * unfair}


def idle_daemon():
    """Of a daemon whose tenants have communicators and make no calls."""
    with Lab(IDLE_TENANTS) as lab:
        tenants = [lab.start(t, "tenant_calls", "--communicators", COMMUNICATORS, "--depth", DEPTH, "--seconds", SECONDS)
                   for t in range(IDLE_TENANTS)]
        try:
            for tenant in tenants:
                expect(tenant, "ready")
            time.sleep(SETTLE_S)
            waits, used = lab.engine_use()
            time.sleep(IDLE_S)
            waits_after, used_after = lab.engine_use()
        finally:
            for tenant in tenants:
                tenant.kill()
                tenant.wait()
    return {"idle/waits": (waits_after - waits) / IDLE_S, "idle/cpu": (used_after - used) / IDLE_S / 1e7}


def beside_many_communicators():
    (many, one), _ = calls_per_tenant([MANY, 1])
    return {"tenants/share": many / max(one, 1)}


def neighbour():
    """8-byte calls alone, and beside a tenant that registers memory, reduces 1 GiB at a time and is killed."""
    with Lab(2) as lab:
        found = {}
        begun = time.monotonic()
        calls = lab.start(0, "small_calls", TIMEOUT_S, "--engine", lab.engine)
        expect(calls, "begun")
        large = lab.start(1, "large_neighbour", NEIGHBOUR_GIB, "--call-mib", 1024)
        expect(large, "registered")
        expect(large, "worked")
        for process in lab.processes("/large_neighbour"):
            os.kill(process, signal.SIGKILL)
        large.wait(timeout=TIMEOUT_S)
        time.sleep(AFTERMATH_S)
        for process in lab.processes("/small_calls"):
            os.kill(process, signal.SIGTERM)
        found |= gaps("beside", calls)
        calls = lab.start(0, "small_calls", time.monotonic() - begun, "--engine", lab.engine)
        expect(calls, "begun")
        return found | gaps("alone", calls)


def gaps(name, calls):
    """Figures of small_calls in milliseconds; its last lines have the longest gap and the quantiles."""
    _, longest, _, quantiles = calls.communicate(timeout=TIMEOUT_S)[0].strip().split("\n")
    gap, caller, engine, stolen, _ = map(float, longest.split())
    median, p99 = map(float, quantiles.split())
    return {f"gap/{name}/longest": gap, f"gap/{name}/served": max(0.0, gap - max(caller + engine, stolen)),
            f"gap/{name}/p50": 1e3 * median, f"gap/{name}/p99": 1e3 * p99}


def measurements(_):
    yield Measurement(f"8 B, 1 tenant x {COMMUNICATORS}", 6, one_tenant)
    yield Measurement(f"8 B, {TENANTS} tenants x {COMMUNICATORS}", 20, many_tenants)
    yield Measurement(f"8 B, {MANY} communicators beside 1", 8, beside_many_communicators)
    yield Measurement("8 B beside a large tenant", 40, neighbour)
    yield Measurement(f"idle daemon, {IDLE_TENANTS} tenants x {COMMUNICATORS}", 10, idle_daemon)


def rows():
    lower = {"higher_is_better": False}
    many = f"{TENANTS} tenants x {COMMUNICATORS} communicators"
    yield Row(f"{many}: calls of a tenant, most from the mean", "%", of(f"tenants/{TENANTS}/unfairness"), at_most(10),
              **lower)
    yield Row(f"{many}: processor time per call over one tenant's", "x",
              ratio(f"tenants/{TENANTS}/cpu", "tenants/1/cpu"), at_most(1.25), **lower)
    yield Row(f"1 tenant x {COMMUNICATORS} communicators: processor time per call", "us", of("tenants/1/cpu"), **lower)
    yield Row(f"calls of a tenant with {MANY} communicators over those of one with 1", "x", of("tenants/share"), **lower)
    for name in ("alone", "beside"):
        where = "alone" if name == "alone" else f"beside {NEIGHBOUR_GIB} GiB"
        yield Row(f"8 B {where}: median", "us", of(f"gap/{name}/p50"), **lower)
        yield Row(f"8 B {where}: 99th percentile", "us", of(f"gap/{name}/p99"), **lower)
        yield Row(f"8 B {where}: longest", "ms", of(f"gap/{name}/longest"), **lower)
        yield Row(f"8 B {where}: longest, less waits for a processor", "ms", of(f"gap/{name}/served"), **lower)
    yield Row("8 B: 99th percentile beside over alone", "x", ratio("gap/beside/p99", "gap/alone/p99"), at_most(2),
              **lower)
    yield Row("8 B: longest beside less alone", "ms",
              lambda values: values["gap/beside/longest"] - values["gap/alone/longest"], at_most(5), **lower)
    where = f"idle daemon, {IDLE_TENANTS} tenants x {COMMUNICATORS} communicators"
    yield Row(f"{where}: wake-ups of the engine", "/s", of("idle/waits"), at_most(1), **lower)
    yield Row(f"{where}: processor time of the engine", "%", of("idle/cpu"), **lower)
