"""The state of a run, as its parts see it: programs to run, figures to report, the time that is left."""
import socket
import time

from processes import with_output
from results import UNEXPECTED, Deadline, Failed, Figure, OutOfTime

POLL_S = 0.01
# The other ranks of a job have this time after the first one has failed.
GRACE_S = 3.0


class Finished:
    """The output of a program that has ended. `status`: None if the limit ended it."""

    def __init__(self, status, output, log, reason=""):
        self.status = status
        self.output = output
        self.log = log
        self.reason = reason

    def expect(self, status=0):
        if self.status is None:
            raise OutOfTime(self.reason)
        if self.status != status:
            raise Failed(with_output(f"exit status {self.status}, expected {status}", self.output, self.log))
        return self.output


class Check:
    def __init__(self, package, environment, service, processes, say=print):
        self.package = package
        self.environment = environment
        self.service = service
        self.processes = processes
        self.machine = {}
        self.begin(0)
        self._say = say

    @property
    def emulated(self):
        return self.environment.emulated

    def begin(self, limit_s):
        self.deadline = Deadline(limit_s)
        self.figures, self.notes, self.problems = [], [], []

    def figure(self, name, value, unit=""):
        figure = Figure(name, value, unit)
        self.figures.append(figure)
        self._say(f"    {figure}")
        return figure

    def note(self, text):
        """Something that was skipped within the part, or observed."""
        self.notes.append(text)
        self._say(f"    {text}")

    def attempt(self, name, function, *arguments, **options):
        """One of the steps of a part: a failure is reported, and the next step runs. Returns None after a failure."""
        try:
            return function(*arguments, **options)
        except (Failed, *UNEXPECTED) as failure:
            kind = "" if isinstance(failure, Failed) else f"{type(failure).__name__}: "
            problem = f"{name}: {kind}{failure}"
            self.problems.append(problem)
            self._say("    FAILED: " + problem.replace("\n", "\n      "))
            if self.deadline.left() <= 0:
                raise OutOfTime(f"the part's limit of {self.deadline.limit_s:.0f} s has passed") from failure
            return None

    def run(self, name, command, environment, limit_s):
        """Runs a program to its end."""
        process = self.processes.start(name, command, environment)
        try:
            status = process.wait(self.deadline.limit_of(limit_s))
        except OutOfTime as late:
            return Finished(None, process.output, process.log, str(late))
        return Finished(status, process.output, process.log)

    def start_ranks(self, name, count, command, environment):
        """One process for each rank, all on the same GPU."""
        port = str(free_port())
        return [self.processes.start(
            f"{name}-rank{rank}", command,
            {**environment, "RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": "0",
             "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in range(count)]

    def run_ranks(self, name, count, command, environment, limit_s):
        """Runs a job to its end; returns rank 0's output, or that of the first rank that failed. A rank that fails ends
        the others after a short time."""
        ranks = self.start_ranks(name, count, command, environment)
        end = time.monotonic() + self.deadline.limit_of(limit_s)
        first_failure = None
        try:
            while any(rank.poll() is None for rank in ranks) and time.monotonic() < end:
                if first_failure is None and any(rank.poll() for rank in ranks):
                    first_failure = time.monotonic()
                    end = min(end, first_failure + GRACE_S)
                time.sleep(POLL_S)
            failed = [rank for rank in ranks if rank.poll()]
            late = [rank for rank in ranks if rank.poll() is None]
        finally:
            for rank in ranks:
                rank.kill()
        shown = (failed or late or ranks)[0]
        if failed or not late:
            return Finished(shown.poll(), shown.output, shown.log)
        reason = f"{len(late)} of {count} ranks did not end in {limit_s:.0f} s"
        return Finished(None, shown.output, shown.log, with_output(reason, shown.output, shown.log))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
