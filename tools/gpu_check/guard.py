"""A process that kills the process groups of the check when the check itself has ended, even by SIGKILL.

The guard reads "+GROUP" and "-GROUP" lines from a pipe. The end of the check closes it.
"""
import os
import signal


class Guard:
    def __init__(self):
        reading, self._writing = os.pipe()
        if os.fork() == 0:
            os.close(self._writing)
            _watch(reading)
            os._exit(0)
        os.close(reading)

    def add_this_process(self):
        """In a new process, before it runs its program: the check may be killed at any time."""
        os.write(self._writing, f"+{os.getpid()}\n".encode())

    def remove(self, group):
        os.write(self._writing, f"-{group}\n".encode())


def _watch(reading):
    """The guard's own process. It ignores the terminal's signals: the check ends first."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    groups = set()
    with os.fdopen(reading) as lines:
        for line in lines:
            group = int(line[1:])
            (groups.add if line[0] == "+" else groups.discard)(group)
    for group in groups:
        kill_group(group)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
