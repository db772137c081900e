#!/usr/bin/env python3
"""A pipe that is not read does not delay the daemon, which reports later how many lines of its log were lost."""
import fcntl
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

from lab_world import TIMEOUT_S, Lab, cases, environment, eventually, program

# Each leaves a line in the debug log, and more of them than the queue of the log holds.
VISITS = 20000


class UnreadLog(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=1, gpus=2, name="log")

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.socket = pathlib.Path(directory.name, "mccsd.sock")
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        self.daemon = subprocess.Popen(
            [program("mccsd"), "--host", "h9", "--socket", self.socket, "--listen", "127.0.0.1:0",
             "--state-dir", f"{directory.name}/state", "--log-level", "debug"], stderr=writer, env=environment())
        os.close(writer)
        self.addCleanup(self.stop)
        self.assertTrue(eventually(self.socket.exists, timeout=30))

    def stop(self):
        self.daemon.kill()
        self.daemon.wait(timeout=TIMEOUT_S)
        os.close(self.reader)

    def visit(self, times):
        for _ in range(times):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
                visitor.connect(str(self.socket))

    def read_until(self, pattern):
        text = b""
        while pattern not in text:
            part = os.read(self.reader, 1 << 16)
            self.assertTrue(part, f"the log ended without '{pattern.decode()}'")
            text += part
        return text.decode()

    def job(self):
        return self.lab.exec("h0", "/usr/bin/env", f"MCCS_SOCKET={self.socket}", program("one_process_all_gpus"))

    def test_the_daemon_serves_and_reports_the_lost_lines(self):
        self.visit(VISITS)
        result = self.job()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        text = self.read_until(b" lines dropped")
        notice = text[:text.index(" lines dropped")].rpartition(" ")[2]
        written = text.count(" has disconnected")
        self.assertGreater(int(notice), 0)
        # The job leaves lines too.
        self.assertGreaterEqual(int(notice) + written, VISITS)
        self.assertLess(int(notice) + written, VISITS + 100)

    def test_the_daemon_stops_in_time(self):
        self.visit(VISITS)
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(timeout=10), 0)


if __name__ == "__main__":
    cases.main()
