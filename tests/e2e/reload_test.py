#!/usr/bin/env python3
"""SIGHUP: the programs use what can change while they run, and say in one line what needs a restart."""
import pathlib
import signal
import socket
import subprocess
import tempfile
import unittest

from lab_world import TIMEOUT_S, call, cases, environment, eventually, program


class Reload(unittest.TestCase):
    """A program that runs with the file `config`, and its log."""

    def start(self, name, text):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.config = self.directory / "config.yaml"
        self.log = self.directory / "log"
        self.config.write_text(text.format(directory=directory.name))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([program(name), "--config", self.config], stderr=log, env=environment())
        self.addCleanup(self.stop)
        self.assertTrue(eventually(lambda: "ready" in self.log.read_text(), timeout=30), self.log.read_text())

    def stop(self):
        self.process.terminate()
        self.assertEqual(self.process.wait(timeout=TIMEOUT_S), 0)

    def hangup(self):
        """The lines that the reload logs: it ends with one that has "reload". The watch of certificates may log at the
        same time."""
        before = len(self.log.read_text())
        self.process.send_signal(signal.SIGHUP)
        lines = []

        def logged():
            text = self.log.read_text()[before:]
            lines[:] = text.splitlines()
            return "reload" in text and text.endswith("\n")
        self.assertTrue(eventually(logged, timeout=30), self.log.read_text())
        texts = [line.partition("] ")[2] for line in lines]
        of_watch = ("new connections use", "the files of `tls` have changed")
        return [text for text in texts if not text.startswith(of_watch)]


class Daemon(Reload):
    CONFIG = ("host: h9\nsocket: {directory}/mccsd.sock\nlisten: 127.0.0.1:0\nstate_dir: {directory}/state\n"
              "log_level: info\n")

    def setUp(self):
        self.start("mccsd", self.CONFIG)

    def visits(self):
        """Whether a visitor leaves a line of level debug."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
            visitor.connect(f"{self.directory}/mccsd.sock")
        return eventually(lambda: "has disconnected" in self.log.read_text(), timeout=2)

    def test_one_line_has_the_new_log_level_and_the_keys_that_need_a_restart(self):
        self.assertEqual(self.hangup(), [f"reloaded {self.config}: nothing has changed"])
        self.assertFalse(self.visits())
        text = self.config.read_text()
        self.config.write_text(text.replace("info", "debug") + "lanes: {slots: 8}\ngpus: 4\n")
        self.assertEqual(self.hangup(), [f"reloaded {self.config}: now log_level debug; a restart is needed for: "
                                        "gpus, lanes"])
        self.assertTrue(self.visits())
        self.assertEqual(self.hangup(), [f"reloaded {self.config}: nothing else has changed; a restart is needed for: "
                                        "gpus, lanes"])

    def test_an_invalid_file_changes_nothing(self):
        self.config.write_text(self.config.read_text().replace("info", "debug") + "lanse: {slots: 8}\n")
        line, = self.hangup()
        self.assertIn("cannot reload the configuration, and nothing has changed: ", line)
        self.assertIn("unknown key 'lanse'; did you mean 'lanes'?", line)
        self.assertFalse(self.visits())
        self.assertIsNone(self.process.poll())


class Controller(Reload):
    CONFIG = ("listen: 127.0.0.1:0\nstate_dir: {directory}/state\ntls:\n  authority: PKI/controller/ca.crt\n"
              "  certificate: PKI/controller/tls.crt\n  key: PKI/controller/tls.key\n")

    def setUp(self):
        pki = tempfile.TemporaryDirectory()
        self.addCleanup(pki.cleanup)
        self.pki = pathlib.Path(pki.name, "pki")
        self.issue("init-ca")
        self.issue("issue-certificate", "--operator", "alice")
        self.start("mccs-controller", self.CONFIG.replace("PKI", str(self.pki)))

    def issue(self, command, *options):
        made = call(program("mccs-controller"), command, self.pki, *options)
        self.assertEqual(made.returncode, 0, made.stderr)

    def ask(self, operator):
        return call(program("mccsctl"), "--controller", (self.directory / "state/endpoint").read_text().strip(),
                    "--tls", self.pki / "operators" / operator, "get", "hosts")

    def test_operators_get_roles_and_lose_them(self):
        self.assertNotEqual(self.ask("alice").returncode, 0)
        self.assertEqual(self.ask("admin").returncode, 0)
        self.config.write_text(self.config.read_text() + "operators: [{name: alice, role: viewer}]\n")
        self.assertEqual(self.hangup(), [f"reloaded {self.config}: now operators (1)"])
        self.assertEqual(self.ask("alice").returncode, 0)
        self.assertNotEqual(self.ask("admin").returncode, 0)

    def test_a_new_certificate_is_named_and_one_that_cannot_be_used_is_explained(self):
        self.issue("issue-certificate", "--controller", "--days", "9")
        line, = self.hangup()
        self.assertRegex(line, "^reloaded .*: now certificate of the controller until 20[0-9-]+ [0-9:]+ UTC$")
        (self.pki / "controller/tls.crt").write_text("no certificate\n")
        problem, line = self.hangup()
        self.assertIn("the files of `tls` cannot be used, so the ones before stay: ", problem)
        self.assertIn("there is no certificate in PEM", problem)
        self.assertEqual(line, f"reloaded {self.config}: nothing has changed")
        self.assertEqual(self.ask("admin").returncode, 0)

    def test_keys_that_need_a_restart_are_named(self):
        self.config.write_text(self.config.read_text() + "log_level: debug\nheartbeat_timeout: 9s\n")
        self.assertEqual(self.hangup(), [f"reloaded {self.config}: now log_level debug; a restart is needed for: "
                                        "heartbeat_timeout"])


if __name__ == "__main__":
    cases.main()
