#!/usr/bin/env python3
"""Daemons that are not of the cluster, beside a lab whose daemons have certificates."""
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from lab_world import TIMEOUT_S, Lab, Running, call, cases, environment, eventually, foreign_environment, program

STRANGER = "h9"
FORGER = pathlib.Path(__file__).with_name("forge_unique_id.py")


class Stranger:
    """A daemon that the test starts itself."""

    def __init__(self, directory, tls=None, controller=None):
        """tls: a directory with ca.crt, tls.crt and tls.key."""
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "s.sock"
        config = self.directory / "config.yaml"
        config.write_text(f"host: {STRANGER}\nlisten: 127.0.0.1:0\nsocket: {self.socket}\n"
                          f"gpus: 2\nstate_dir: {self.directory / 'state'}\n"
                          + (f"tls: {{authority: {tls}/ca.crt, certificate: {tls}/tls.crt, key: {tls}/tls.key}}\n"
                             if tls else "")
                          + (f"controller: {controller}\n" if controller else ""))
        self.log = self.directory / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program("mccsd"), "--config", config], stderr=log,
                                            stdin=subprocess.DEVNULL, env=environment())

    def is_ready(self):
        return eventually(lambda: self.socket.exists() or self.process.poll() is not None) and \
            self.process.poll() is None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)


class PeerCertificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=1, name="certificates")
        cls.addClassCleanup(cls.lab.down)
        cls.certificates = cls.lab.directory / "certificates"

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mccs-certificates-")
        self.addCleanup(shutil.rmtree, self.directory)

    def start_stranger(self, tls=None, controller=None):
        stranger = Stranger(self.directory, tls, controller)
        self.addCleanup(stranger.stop)
        self.assertTrue(stranger.is_ready(), stranger.log.read_text())
        return stranger

    def foreign_certificate(self):
        directory = pathlib.Path(self.directory) / "foreign"
        made = call(program("mccs-controller"), "init-ca", directory, "--domain", "lab", "--host",
                    STRANGER)
        self.assertEqual(made.returncode, 0, made.stderr)
        return directory / "hosts" / STRANGER

    def lab_certificate(self):
        """Of the stranger's host: it becomes one of the cluster."""
        issued = call(program("mccs-controller"), "issue-certificate", self.certificates, "--host", STRANGER)
        self.assertEqual(issued.returncode, 0, issued.stderr)
        return self.certificates / "hosts" / STRANGER

    def absent_controller(self):
        """The address of a socket that does not listen."""
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"

    def exec_on(self, stranger, *command, **options):
        return self.lab.exec("h0", "env", f"MCCS_SOCKET={stranger.socket}", f"MCCS_EMULATED_HOST={STRANGER}", *command,
                             **options)

    def run_job_with(self, stranger, succeeds=False):
        """Two ranks: the first one on h0 of the lab, the second one on the stranger's host. Returns the output of the
        second, which ends first if the job fails."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        job = [program("collective_perf"), "-b", "8", "-e", "8"]
        variables = ["WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={port}",
                     "MCCS_INIT_TIMEOUT=20"]
        on_lab = [program("mccs-lab"), "exec", "--name", self.lab.name, "h0", "--", "env", *variables]
        with Running([*on_lab, "RANK=0", *job], environment()):
            with Running([*on_lab, "RANK=1", f"MCCS_SOCKET={stranger.socket}", f"MCCS_EMULATED_HOST={STRANGER}", *job],
                         environment()) as second:
                self.assertEqual(second.wait() == 0, succeeds, second.output)
                return second.output

    def assert_the_lab_works(self):
        done = self.lab.run(program("collective_perf"), "-b", "8", "-e", "8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_daemon_without_certificate_is_no_peer(self):
        output = self.run_job_with(self.start_stranger())
        self.assertIn("accepts only daemons with a certificate of its cluster; set `tls`", output)
        self.assertIn("without a certificate", self.lab.logs())
        self.assert_the_lab_works()

    def test_a_daemon_of_another_cluster_is_no_peer(self):
        output = self.run_job_with(self.start_stranger(self.foreign_certificate()))
        self.assertIn("rejected the certificate of 'CN=host h0, O=lab'", output)
        self.assertIn("mccs-controller issue-certificate", output)
        self.assert_the_lab_works()

    def test_a_daemon_needs_the_certificate_of_its_own_host(self):
        for holder, reason in (("hosts/h1", "the certificate of host h1, and this is host h9"),
                               ("operators/admin", "that of operator admin: mccsd needs one of spiffe://lab/host/NAME")):
            stranger = Stranger(self.directory, self.certificates / holder)
            self.assertEqual(stranger.process.wait(TIMEOUT_S), 1)
            self.assertIn(reason, stranger.log.read_text())

    def listener(self):
        """A socket that listens, as somebody's whom a daemon must not connect to, and its port."""
        victim = socket.create_server(("127.0.0.1", 0))
        victim.settimeout(0.2)
        self.addCleanup(victim.close)
        return victim, victim.getsockname()[1]

    def assert_not_connected(self, victim):
        self.assertRaises(TimeoutError, victim.accept)

    def test_an_address_of_the_tenants_choice_is_not_dialed(self):
        victim, port = self.listener()
        forged = self.lab.exec("h0", sys.executable, FORGER, "127.0.0.1", port, env=foreign_environment())
        self.assertEqual(forged.returncode, 0, forged.stderr)
        self.assertTrue(forged.stdout.startswith("5 "), forged.stdout)  # ncclInvalidUsage
        self.assertIn(f"no daemon of this cluster made the unique id, which names the rendezvous address 127.0.0.1 port "
                      f"{port}", forged.stdout)
        self.assert_not_connected(victim)
        self.assert_the_lab_works()

    def test_no_port_of_the_tenants_choice_is_opened(self):
        victim, port = self.listener()  # A daemon that opened this port would fail, one that dialed it would connect.
        done = self.lab.run("env", f"NCCL_COMM_ID=127.0.0.1:{port}", program("collective_perf"), "-b", "8", "-e", "8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_not_connected(victim)

    def test_until_the_key_arrives_no_address_or_port_of_the_tenants_choice_is_used(self):
        no_key = "mccsd of this host has no key of the cluster"
        victim, port = self.listener()
        stranger = self.start_stranger(self.lab_certificate(), self.absent_controller())
        self.assertTrue(eventually(lambda: "the controller has not sent the key of unique ids yet" in
                                   stranger.log.read_text()))
        self.assertIn(no_key, self.run_job_with(stranger))
        forged = self.exec_on(stranger, sys.executable, FORGER, "127.0.0.1", port, env=foreign_environment())
        self.assertEqual(forged.returncode, 0, forged.stderr)
        self.assertTrue(forged.stdout.startswith("6 "), forged.stdout)  # ncclRemoteError
        self.assertIn(no_key, forged.stdout)
        job = [program("collective_perf"), "-b", "8", "-e", "8"]
        named = self.exec_on(stranger, f"NCCL_COMM_ID=127.0.0.1:{port}", *job)
        self.assertNotEqual(named.returncode, 0)
        self.assertIn(no_key, named.stdout + named.stderr)
        self.assert_not_connected(victim)
        alone = self.exec_on(stranger, *job)
        self.assertEqual(alone.returncode, 0, alone.stdout + alone.stderr)

    def test_the_key_holds_after_a_restart_without_a_controller(self):
        certificate = self.lab_certificate()
        stranger = self.start_stranger(certificate, self.lab.daemons()["controller"]["endpoint"])
        self.assertTrue(eventually((stranger.directory / "state/tenants.table").exists), stranger.log.read_text())
        stranger.stop()
        self.run_job_with(self.start_stranger(certificate, self.absent_controller()), succeeds=True)

    def test_encrypted_lanes(self):
        config = pathlib.Path(self.directory) / "mccsd.yaml"
        config.write_text("lanes: {encryption: on}\n")
        with Lab(hosts=2, gpus=2, name="encrypted", mccsd_config=config) as lab:
            done = lab.run(program("collective_perf"), "-b", "8", "-e", "16M", "-f", "128")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            hosts = call(*lab.mccsctl(), "get", "hosts")
            self.assertIn("tcp, encrypted", hosts.stdout, hosts.stderr)

    def test_a_renewed_certificate_is_used_without_restart(self):
        pids = {name: daemon["pid"] for name, daemon in self.lab.daemons().items()}
        renewed = call(program("mccs-controller"), "issue-certificate", self.certificates, "--host", "h0", "--days", "3")
        self.assertEqual(renewed.returncode, 0, renewed.stderr)
        self.assertTrue(eventually(lambda: "new connections use the certificate of 'CN=host h0, O=lab'" in
                                   self.lab.command("logs", "h0").stdout))
        self.assert_the_lab_works()
        self.assertEqual({name: daemon["pid"] for name, daemon in self.lab.daemons().items()}, pids)


if __name__ == "__main__":
    cases.main()
