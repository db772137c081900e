"""Ranks, tenants and a daemon that end: what the others see, and that the next job works."""
import re
import signal
import time

from results import Failed, OutOfTime

DETECTION_LIMIT_S = 1.0
DAEMON_LIMIT_S = 5.0
IDLE_PERCENT = 10
IDLE_LIMIT_S = 5
JOB_S = 60  # longer than any step: the steady job runs until it fails
# A rank of the steady job: the communicator failed at this second of CLOCK_MONOTONIC.
FAILED_AT = re.compile(r"^failed ([\d.]+) (.*)$", re.MULTILINE)


def next_job_works(check):
    """Small all-reduces of two new processes; proves that no kernel of the former job holds the GPU."""
    command = [check.package.program("collective_perf"), "-b", 8, "-e", "1M", "-f", 64, "-n", 3]
    check.run_ranks("next-job", 2, command, check.environment.mccs(), 15).expect()


def steady_ranks(check, name):
    command = [check.package.program("steady_job"), "--seconds", JOB_S]
    ranks = check.start_ranks(name, 2, command, check.environment.mccs())
    for rank in ranks:
        rank.await_output("^running$", check.deadline.limit_of(10))
    return ranks


def await_failure(check, rank, killed_at, limit_s):
    """Waits until a rank has reported the failure of its communicator; returns the seconds from the death to then."""
    # The time limit of the wait is longer than that of the check, so that a late report shows its time.
    found = rank.await_output(FAILED_AT.pattern, check.deadline.limit_of(limit_s + 5))
    delay = float(found[1]) - killed_at
    if delay > limit_s:
        raise Failed(f"the error came after {delay:.2f} s, at most {limit_s:g} s allowed: {found[2]}")
    return delay


def rank_leaves(check):
    """A rank exits; the other one gets an error and aborts, which releases its stream."""
    output = check.run_ranks("dead_peer", 2, [check.package.program("dead_peer"), "--blocked", 1],
                             check.environment.mccs(), 15).expect()
    found = re.search(r"^async: .* after ([\d.]+) s", output, re.MULTILINE)
    if not found or "released: by abort" not in output:
        raise Failed(f"unexpected output of dead_peer: {output.strip()[-400:]}")
    check.figure("rank left: error after", float(found[1]), "s")
    next_job_works(check)
    return float(found[1])


def rank_aborts(check):
    """ncclCommAbort with work in flight, and its effects on others."""
    command = [check.package.program("conformance"), "--limit", 10, "--filter", "abort"]
    output = check.run_ranks("aborts", 2, command, check.environment.mccs(), 20).expect()
    check.figure("aborts: tests passed", int(re.search(r"^all +(\d+)", output, re.MULTILINE)[1]))
    next_job_works(check)


def tenant_is_killed(check):
    ranks = steady_ranks(check, "tenant-killed")
    try:
        killed_at = time.monotonic()
        ranks[1].signal(signal.SIGKILL)
        delay = check.figure("tenant killed: peer's error after", await_failure(check, ranks[0], killed_at,
                                                                              DETECTION_LIMIT_S), "s").value
    finally:
        for rank in ranks:
            rank.kill()
    next_job_works(check)
    await_idle_gpu(check)
    return delay


def await_idle_gpu(check):
    """A kernel that spins on would keep the GPU busy."""
    if check.emulated:
        return
    command = ["nvidia-smi", "-i", check.environment.gpu, "--query-gpu=utilization.gpu,memory.used",
               "--format=csv,noheader,nounits"]
    end = time.monotonic() + IDLE_LIMIT_S
    while True:
        shown = check.run("nvidia-smi-use", command, check.environment.cuda(), 10).expect()
        use, memory = (value.strip() for value in shown.strip().splitlines()[-1].split(","))
        if not use.isdigit():
            check.note(f"SKIPPED GPU busy afterwards: nvidia-smi reports {use}")
            return
        if int(use) <= IDLE_PERCENT or time.monotonic() > end:
            break
        time.sleep(0.5)
    check.figure("afterwards: GPU busy", int(use), "%")
    check.figure("afterwards: GPU memory in use", float(memory), "MiB")
    if int(use) > IDLE_PERCENT:
        raise Failed(f"the GPU is {use} % busy {IDLE_LIMIT_S} s after the last job: does a kernel spin?")


def daemon_is_killed(check):
    ranks = steady_ranks(check, "daemon-killed")
    try:
        killed_at = time.monotonic()
        check.service.daemon.signal(signal.SIGKILL)
        delays = [await_failure(check, rank, killed_at, DAEMON_LIMIT_S) for rank in ranks]
        for rank in ranks:
            if rank.wait(check.deadline.limit_of(5)) != 3:
                raise Failed(f"a rank ended with status {rank.poll()}, expected 3; log: {rank.log}")
    except OutOfTime as late:
        raise OutOfTime(f"a tenant hangs after its daemon was killed: {late}") from late
    finally:
        for rank in ranks:
            rank.kill()
        check.service.daemon.kill()
        check.service.start(check.environment.cuda())
    check.figure("daemon killed: tenants' errors after", max(delays), "s")
    next_job_works(check)
    return max(delays)


def check_failures(check):
    """A rank leaves, ranks abort, a tenant is killed, the daemon is killed; a new job works after each."""
    check.service.require(check.environment.cuda())
    left = check.attempt("a rank leaves", rank_leaves, check)
    check.attempt("ranks abort", rank_aborts, check)
    killed = check.attempt("a tenant is killed", tenant_is_killed, check)
    daemon = check.attempt("the daemon is killed", daemon_is_killed, check)
    delays = {"rank left": left, "tenant killed": killed, "daemon killed": daemon}
    return "errors after: " + ", ".join(f"{name} {delay:.3f} s" for name, delay in delays.items() if delay is not None)
