"""Programs that the check starts: each in a process group of its own, with its output in a log."""
import os
import re
import subprocess
import time

from guard import Guard, kill_group
from results import Failed, OutOfTime

TAIL_LINES = 8
POLL_S = 0.02
# A process in a call of the driver may outlive SIGKILL for a time, or for ever.
KILL_LIMIT_S = 5


def with_output(reason, output, log):
    """An error message: the reason with the last line of the output, then the lines before it and the log."""
    lines = [line for line in output.splitlines() if line.strip()][-TAIL_LINES:] or ["no output"]
    return "\n".join([f"{reason}: {lines[-1]}", *lines[:-1], f"log: {log}"])


class Process:
    """A program that runs. kill() also ends the processes that it has started."""

    def __init__(self, command, environment, log, guard):
        self.name = os.path.basename(str(command[0]))
        self.log = log
        self._guard = guard
        self._group_ended = False
        with log.open("wb") as output:
            output.write(("$ " + " ".join(map(str, command)) + "\n").encode())
            output.flush()
            self._process = subprocess.Popen(
                [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=guard.add_this_process)

    @property
    def pid(self):
        return self._process.pid

    @property
    def output(self):
        """Everything that it has printed so far, without the command in the first line."""
        return self.log.read_text(encoding="utf-8", errors="replace").partition("\n")[2]

    def poll(self):
        return self._process.poll()

    def wait(self, limit_s):
        """Returns the exit status. Raises OutOfTime at the limit, after it has ended the whole process group."""
        try:
            status = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise OutOfTime(with_output(f"{self.name} did not end in {limit_s:.0f} s", self.output, self.log)) from None
        self.kill()
        return status

    def await_output(self, pattern, limit_s):
        """Waits until the output matches the pattern, and returns the match."""
        end = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.output, re.MULTILINE)):
            if self.poll() is not None:
                raise Failed(with_output(f"{self.name} ended with status {self.poll()}", self.output, self.log))
            if time.monotonic() > end:
                reason = f"{self.name} printed no line like {pattern} in {limit_s:.0f} s"
                raise OutOfTime(with_output(reason, self.output, self.log))
            time.sleep(POLL_S)
        return found

    def signal(self, number):
        """Only to the program itself."""
        self._process.send_signal(number)

    def kill(self):
        """Ends the process group. A process that the kernel cannot end is left."""
        if self._group_ended:
            return
        kill_group(self.pid)
        try:
            self._process.wait(KILL_LIMIT_S)
            self._guard.remove(self.pid)
            self._group_ended = True
        except subprocess.TimeoutExpired:
            print(f"gpu-check: {self.name}, process {self.pid}, does not end after SIGKILL", flush=True)


class Processes:
    """All programs of the check."""

    def __init__(self, logs):
        self.logs = logs
        self._guard = Guard()
        self._all = []
        self._number = 0

    def start(self, name, command, environment):
        self._number += 1
        process = Process(command, environment, self.logs / f"{self._number:03d}-{name}.log", self._guard)
        self._all.append(process)
        return process

    def count(self):
        return len(self._all)

    def logs_since(self, count):
        return [str(process.log) for process in self._all[count:]]

    def kill_all(self, keep=()):
        for process in self._all:
            if process not in keep:
                process.kill()
