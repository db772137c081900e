"""The parts of the check, the most important first, and how one is run."""
import dataclasses
import signal
import time
import typing

from conformance import check_conformance, check_graphs
from failures import check_failures
from machine import check_machine
from performance import check_performance
from probe import check_probe
from pytorch import check_pytorch
from results import FAILED, PASSED, SKIPPED, UNEXPECTED, Failed, OutOfTime, Result, Skipped
from sanitizers import check_sanitizers

# A part that passes its limit by this time, although every step has one, is interrupted.
ALARM_S = 5


def check_service(check):
    """Starts the controller and the daemon, which registers with it."""
    environment = check.environment.cuda()
    begun = time.monotonic()
    check.service.start(environment)
    mccsctl = [check.package.program("mccsctl"), "--controller", check.service.controller_endpoint(), "get", "hosts"]
    while "ready" not in (hosts := check.run("mccsctl", mccsctl, environment, 5)).output:
        if time.monotonic() - begun > 10:
            raise Failed(f"the daemon did not register with the controller: {hosts.output.strip()}; "
                         f"log: {check.service.daemon.log}")
        time.sleep(0.1)
    check.figure("ready after", time.monotonic() - begun, "s")
    check.note(hosts.expect().strip().splitlines()[-1])
    return f"registered after {time.monotonic() - begun:.1f} s"


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    limit_s: float
    run: typing.Callable  # of a Check; returns the most important figures as text

    @property
    def purpose(self):
        return self.run.__doc__.splitlines()[0]


PARTS = (Part("machine", 15, check_machine),
         Part("cuda_probe", 90, check_probe),
         Part("service", 20, check_service),
         Part("conformance", 120, check_conformance),
         Part("performance", 100, check_performance),
         Part("pytorch", 60, check_pytorch),
         Part("graphs", 30, check_graphs),
         Part("failures", 45, check_failures),
         Part("sanitizers", 50, check_sanitizers))


def on_alarm(_signal, _frame):
    raise OutOfTime("the part did not end at its limit")


def outcome(part, check):
    """(result, text) of a part."""
    failure = []
    try:
        text = part.run(check)
    except Skipped as reason:
        return SKIPPED, str(reason)
    except Failed as error:
        failure = [str(error)]
    except UNEXPECTED as error:
        failure = [f"{type(error).__name__}: {error}"]
    if check.problems or failure:
        return FAILED, "; ".join([*(problem.splitlines()[0] for problem in check.problems), *failure])
    return PASSED, text


def run_part(part, check, budget):
    try:
        limit_s = budget.limit_of(part.limit_s)
    except Skipped as reason:
        return Result(part.name, SKIPPED, 0, part.limit_s, str(reason))
    check.begin(limit_s)
    logs = check.processes.count()
    daemon_ran = check.service.runs()
    begun = time.monotonic()
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, limit_s + ALARM_S)
    try:
        result, text = outcome(part, check)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        check.processes.kill_all(keep=check.service.processes())
    if daemon_ran and not check.service.runs():
        result, text = FAILED, f"mccsd ended during this part; log: {check.service.daemon.log}; {text}"
    if result == FAILED:
        check.service.stop()  # the next part begins with new daemons
    return Result(part.name, result, round(time.monotonic() - begun, 2), limit_s, text, check.figures, check.notes,
                  check.problems, check.processes.logs_since(logs))
