"""The conformance suite, in the shapes that one GPU allows."""
import re

from processes import with_output
from results import Failed

TEST_LIMIT_S = 10
NOTED_FAILURES = 10  # of the real library
SHOWN_FAILURES = 5
# Need gigabytes, or wait half a minute for a rank that has left.
LONG = ("/large/", "/beyond_nccl/a_destroy_in_a_failed_group")
# With two ranks of a process on one GPU, calls that wait for the whole GPU and the legacy stream wait for the other
# rank's kernel. So does a copy whose stream shares a hardware queue with the other rank's
# (docs/decisions/0025-waiting-kernel.md). So one process runs only groups without them.
ONE_PROCESS = ("/all_reduce/", "/all_gather/", "/reduce_scatter/", "/all_to_all/", "/broadcast/", "/reduce/",
               "/point_to_point/", "/groups/", "/split/")
VERDICT = re.compile(r"^(passed|FAILED|skipped) +(\S+) \(", re.MULTILINE)
TOTALS = re.compile(r"^all +(\d+) +(\d+) +(\d+)(?:  (\d+) not run)?$", re.MULTILINE)
FAILURE = re.compile(r"^FAILED +(\S+) .*$", re.MULTILINE)


def counts_of(output):
    """(passed, failed, skipped), or None if the suite has not ended."""
    found = TOTALS.search(output)
    if not found:
        return None
    return tuple(int(found[i] or 0) for i in (1, 2, 3))


def progress_of(output):
    """Counts of a suite that has not ended, and its last test, as text."""
    verdicts = VERDICT.findall(output)
    count = {kind: sum(verdict == kind for verdict, _ in verdicts) for kind in ("passed", "FAILED", "skipped")}
    return (f"{count['passed']} passed, {count['FAILED']} failed, {count['skipped']} skipped, the last one "
            f"{verdicts[-1][1] if verdicts else 'none'}")


def failures_of(output):
    return [found[0] for found in FAILURE.finditer(output)]


def run_suite(check, name, ranks, environment, *options, limit_s, processes=True):
    """Runs the suite and reports its counts. Returns the output; raises Failed unless it ended."""
    command = [check.package.program("conformance"), "--verbose", "--limit", TEST_LIMIT_S, *options]
    log = "conformance-" + re.sub(r"\W+", "-", name.lower())
    if processes:
        ended = check.run_ranks(log, ranks, command, environment, limit_s)
    else:
        ended = check.run(log, [*command, "-g", ranks], environment, limit_s)
    counts = counts_of(ended.output)
    if counts is None:
        how = f"did not end in {limit_s} s" if ended.status is None else f"ended early with status {ended.status}"
        raise Failed(with_output(f"the suite {how}, {progress_of(ended.output)}", ended.output, ended.log))
    passed, failed, skipped = counts
    for unit, count in (("passed", passed), ("failed", failed), ("skipped", skipped)):
        check.figure(f"{name}: tests {unit}", count)
    return ended


def of_real_nccl(check):
    """Verifies the expectations of the tests. The real library's failures are notes: they are not MCCS's."""
    environment = check.environment
    if environment.emulated:
        check.note("SKIPPED NCCL: the real library needs a GPU")
        return
    if environment.nccl is None:
        check.note("SKIPPED NCCL: no libnccl.so.2 in LD_LIBRARY_PATH, PyTorch, the toolkit or the system")
        return
    for ranks, limit_s in ((1, 25), (2, 15)):
        name = f"NCCL, {ranks} {'rank' if ranks == 1 else 'processes'}"
        try:
            ended = run_suite(check, name, ranks, environment.real_nccl(), "--beyond-nccl", "off", "--exclude", *LONG,
                              limit_s=limit_s)
        except Failed as failure:
            check.note(f"SKIPPED {name}: it did not run to its end: {failure}")
            continue
        failures = failures_of(ended.output)
        if len(failures) > NOTED_FAILURES:
            check.note(f"{name}: {len(failures)} tests failed, such as the following ones; log: {ended.log}")
            failures = failures[:SHOWN_FAILURES]
        for line in failures:
            check.note(f"{name}: {line}")


def of_mccs(check, name, ranks, limit_s, *options, processes=True):
    # The emulation can have more queues than a GPU: enough for all streams.
    variables = {"MCCS_EMULATED_CONNECTIONS": "1024"} if check.emulated and not processes else {}
    ended = run_suite(check, name, ranks, check.environment.mccs(**variables), "--exclude", *LONG, *options,
                      limit_s=limit_s, processes=processes)
    failures = failures_of(ended.output)
    if counts_of(ended.output)[0] == 0:
        raise Failed(f"no test passed; log: {ended.log}")
    if failures or ended.status != 0:
        shown = "; ".join([f"tests failed: {len(failures)}", *failures[:SHOWN_FAILURES]])
        raise Failed(f"{shown}; log: {ended.log}")


def check_conformance(check):
    """The real library first, then ours: one rank, two ranks in one process, two processes."""
    check.service.require(check.environment.cuda())
    of_real_nccl(check)
    for name, ranks, limit_s, options, processes in (
            ("MCCS, 1 rank", 1, 25, (), True),
            ("MCCS, 1 process of 2 ranks", 2, 25, ("--filter", *ONE_PROCESS), False),
            ("MCCS, 2 processes", 2, 60, (), True)):
        check.attempt(name, of_mccs, check, name, ranks, limit_s, *options, processes=processes)
    return summary(check.figures)


def summary(figures):
    """The tests of each run of the suite, without those that were skipped."""
    counts = {}
    for figure in figures:
        name, _, unit = figure.name.partition(": tests ")
        counts.setdefault(name, {})[unit] = int(figure.value)
    return "; ".join(f"{name}: " + ", ".join(f"{count} {unit}" for unit, count in units.items()
                                             if unit in ("passed", "failed"))
                     for name, units in counts.items())


def check_graphs(check):
    """Captured collectives: the suite's group, and 1,000 replays of which each must count once."""
    check.service.require(check.environment.cuda())
    check.attempt("suite", of_mccs, check, "MCCS, graphs", 2, 15, "--filter", "/graphs/")
    replays = 1000

    def replay(name, processes, ranks_per_process):
        command = [check.package.program("graph_replays"), replays, "-g", ranks_per_process]
        output = check.run_ranks("graph_replays", processes, command, check.environment.mccs(), 15).expect()
        waited, pipelined = map(float, output.split()[:2])
        check.figure(f"{name}: replay, waited for", waited, "µs")
        check.figure(f"{name}: replay, pipelined", pipelined, "µs")
        return True

    right = [check.attempt(name, replay, name, processes, ranks) for name, processes, ranks in
             (("3 processes", 3, 1), ("1 process of 3 ranks", 1, 3))]
    return f"{replays:,} replays right in {sum(map(bool, right))} of {len(right)} layouts"
