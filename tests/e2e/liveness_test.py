#!/usr/bin/env python3
"""An engine that takes no turns: the controller reports the host as STUCK, and the service manager gets no sign of life.

ptrace stops the engine's thread alone: a signal would stop the daemon's other threads too."""
import contextlib
import ctypes
import os
import pathlib
import select
import socket
import subprocess
import tempfile
import time
import unittest

from lab_world import TIMEOUT_S, Lab, call, cases, environment, eventually, json_of, program

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WATCHDOG_S = 2


@contextlib.contextmanager
def stopped_engine(pid):
    """Stops the first thread of process `pid`, which is its engine."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long

    def ptrace(request):
        if libc.ptrace(request, pid, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    try:
        ptrace(PTRACE_SEIZE)
    except PermissionError as error:
        raise unittest.SkipTest(f"ptrace is not permitted here: {error}") from error
    ptrace(PTRACE_INTERRUPT)
    os.waitpid(pid, 0x40000000)  # __WALL: until it has stopped
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH)


class StuckHost(unittest.TestCase):
    def setUp(self):
        self.lab = Lab(hosts=2, gpus=1, name="stuck")
        self.addCleanup(self.lab.down)
        self.mccsctl = self.lab.mccsctl()

    def states(self):
        hosts = json_of(*self.mccsctl, "get", "hosts", "-o", "json")["hosts"]
        return [host["state"] for host in hosts]

    def test_the_controller_reports_it_until_it_takes_turns_again(self):
        time.sleep(7)  # longer than the heartbeat timeout: engines without work are not stuck
        self.assertEqual(self.states(), ["ready", "ready"])
        with stopped_engine(self.lab.daemons()["h1"]["pid"]):
            self.assertTrue(eventually(lambda: self.states()[1].startswith("STUCK"), timeout=30), self.lab.logs())
            self.assertRegex(self.states()[1], "STUCK: no turn of its engine for [0-9]+ s")
            self.assertEqual(self.states()[0], "ready")
            self.assertIn("STUCK: no turn of its engine", call(*self.mccsctl, "get", "hosts").stdout)
        self.assertTrue(eventually(lambda: self.states() == ["ready", "ready"], timeout=30), self.lab.logs())
        log = self.lab.command("logs", "controller").stdout
        self.assertIn("host h1 is stuck: its daemon sends heartbeats, but its engine has taken no turn", log)
        self.assertIn("host h1 is no longer stuck", log)


class Watchdog(unittest.TestCase):
    """The daemon as systemd would start it with WatchdogSec=2."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(f"{directory.name}/notify")
        self.log = pathlib.Path(directory.name, "log")
        with self.log.open("wb") as log:
            self.daemon = subprocess.Popen(
                [program("mccsd"), "--host", "h9", "--socket", f"{directory.name}/mccsd.sock", "--listen",
                 "127.0.0.1:0", "--state-dir", f"{directory.name}/state"], stderr=log,
                env=environment(NOTIFY_SOCKET=f"{directory.name}/notify", WATCHDOG_USEC=str(WATCHDOG_S * 1000000)))
        self.addCleanup(self.stop)
        self.assertEqual(self.notification(30), "READY=1", self.log.read_text())

    def stop(self):
        self.daemon.terminate()
        self.daemon.wait(timeout=TIMEOUT_S)

    def notification(self, timeout):
        """The next one; None: none within the time."""
        if not select.select([self.manager], [], [], timeout)[0]:
            return None
        return self.manager.recv(4096).decode()

    def test_an_engine_without_work_gives_signs_of_life_in_time(self):
        for _ in range(4):
            self.assertEqual(self.notification(WATCHDOG_S), "WATCHDOG=1")

    def test_a_stuck_engine_gives_none(self):
        self.assertEqual(self.notification(WATCHDOG_S), "WATCHDOG=1")
        with stopped_engine(self.daemon.pid):
            while self.notification(0):
                pass  # from before
            self.assertIsNone(self.notification(2 * WATCHDOG_S))
        self.assertEqual(self.notification(WATCHDOG_S), "WATCHDOG=1")

    def test_the_end_is_announced(self):
        self.daemon.terminate()
        received = iter(lambda: self.notification(WATCHDOG_S), None)
        self.assertIn("STOPPING=1", received)
        self.assertEqual(self.daemon.wait(timeout=TIMEOUT_S), 0)


if __name__ == "__main__":
    cases.main()
