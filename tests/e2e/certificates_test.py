#!/usr/bin/env python3
"""Certificates: their ends and renewal, a new authority without a restart, and clients that the controller refuses."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import tempfile
import threading
import time
import unittest
import urllib.request

from lab_world import TIMEOUT_S, Lab, call, cases, eventually, json_of, program

DAY_S = 86400


class Ends(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=1, name="ends")

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    def issue(self, days, *holder):
        made = call(program("mccs-controller"), "issue-certificate", self.lab.directory / "certificates", *holder,
                    "--days", days)
        self.assertEqual(made.returncode, 0, made.stderr)

    def hosts(self):
        return json_of(*self.lab.mccsctl(), "get", "hosts", "-o", "json")

    def metric(self, daemon):
        with urllib.request.urlopen(f"http://{self.lab.daemons()[daemon]['metrics']}/metrics",
                                    timeout=TIMEOUT_S) as answer:
            line, = (line for line in answer.read().decode().splitlines()
                     if line.startswith("mccs_certificate_end_timestamp_seconds "))
        return float(line.split()[1])

    def test_a_certificate_that_ends_soon_is_shown_until_it_is_renewed(self):
        self.assertTrue(eventually(lambda: int(self.hosts()["hosts"][1]["certificate_end_s"]) > 0, timeout=30))
        self.assertNotIn("certificate", call(*self.lab.mccsctl(), "get", "hosts").stdout)

        self.issue(9, "--host", "h1")
        self.assertTrue(eventually(lambda: self.hosts()["hosts"][1]["certificate_problem"], timeout=30),
                        self.lab.logs())
        text = call(*self.lab.mccsctl(), "get", "hosts").stdout
        self.assertRegex(text, r"h1 .* ready, certificate ends in 8 d 23 h\n")
        self.assertIn("Note: host h1: certificate ends in 8 d 23 h; renew it: "
                      "mccs-controller issue-certificate PKI --host h1\n", text)
        self.assertNotIn("Note: host h0", text)

        self.issue(90, "--host", "h1")
        self.assertTrue(eventually(lambda: not self.hosts()["hosts"][1]["certificate_problem"], timeout=30))
        self.assertEqual({host["state"] for host in self.hosts()["hosts"]}, {"ready"})

    def test_so_is_the_controllers(self):
        self.issue(3, "--controller")
        self.assertTrue(eventually(lambda: self.hosts()["certificate_problem"], timeout=30), self.lab.logs())
        self.assertIn("Note: the controller's certificate ends in 2 d 23 h; renew it: ",
                      call(*self.lab.mccsctl(), "get", "hosts").stdout)
        self.issue(90, "--controller")
        self.assertTrue(eventually(lambda: not self.hosts()["certificate_problem"], timeout=30))

    def test_metrics_follow_a_renewal(self):
        for daemon, holder in (("h0", ("--host", "h0")), ("controller", ("--controller",))):
            self.issue(40, *holder)
            self.assertTrue(eventually(lambda: abs(self.metric(daemon) - time.time() - 40 * DAY_S) < 120, timeout=30),
                            f"{daemon}: {self.metric(daemon)}")


class EmptyFiles(unittest.TestCase):
    """Files that cannot be used, such as of a full disk, end no program and no connection."""

    def setUp(self):
        self.lab = Lab(hosts=2, gpus=1, name="empty")
        self.addCleanup(self.lab.down)

    def test_change_nothing(self):
        before = {name: daemon["pid"] for name, daemon in self.lab.daemons().items()}
        directory = self.lab.directory / "certificates"
        files = [directory / holder / file for holder in ("controller", "hosts/h0", "hosts/h1")
                 for file in ("tls.crt", "tls.key", "ca.crt")]
        contents = {path: path.read_text() for path in files}
        for path in files:
            path.write_text("")
        line = "the files of `tls` have changed and cannot be used, so the ones before stay: "
        for name in before:
            self.assertTrue(eventually(lambda: line in self.lab.command("logs", name).stdout, timeout=30), name)
        time.sleep(2)  # gRPC reads its copies every second
        done = self.lab.run(program("collective_perf"), "-b", "8", "-e", "8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(call(*self.lab.mccsctl(), "get", "hosts").returncode, 0)
        for path, text in contents.items():
            path.write_text(text)
        self.assertEqual(call(*self.lab.mccsctl(), "get", "hosts").returncode, 0)
        self.assertEqual({name: daemon["pid"] for name, daemon in self.lab.daemons().items()}, before)


class RefusedClients(unittest.TestCase):
    """The controller's log names each client whose certificate it refuses, with the remedy; metrics count them."""

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=1, gpus=1, name="refused")
        cls.addClassCleanup(cls.lab.down)
        cls.certificates = cls.lab.directory / "certificates"

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mccs-refused-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def log(self):
        return self.lab.command("logs", "controller").stdout

    def refused(self, reason):
        with urllib.request.urlopen(f"http://{self.lab.daemons()['controller']['metrics']}/metrics",
                                    timeout=TIMEOUT_S) as answer:
            counts = re.findall(r'mccs_controller_clients_refused_total\{reason="(\w+)"\} (\d+)',
                                answer.read().decode())
        return int(dict(counts)[reason])

    def connect(self, files=None, newest=ssl.TLSVersion.MAXIMUM_SUPPORTED):
        """A client that checks nothing, so that only the controller can refuse. Returns whether it did."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        context.maximum_version = newest
        if files:
            context.load_cert_chain(files / "tls.crt", files / "tls.key")
        host, port = self.lab.daemons()["controller"]["endpoint"].rsplit(":", 1)
        try:
            with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as plain, \
                    context.wrap_socket(plain) as secure:
                # With TLS 1.3 the client's handshake ends before the controller has seen its certificate.
                self.assertEqual(secure.version(), "TLSv1.3")
                return secure.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            return True

    def assert_refused(self, files, reason, *texts):
        before = self.refused(reason)
        self.assertTrue(self.connect(files), "the controller has answered")
        self.assertTrue(eventually(lambda: self.refused(reason) > before, timeout=30), self.log())
        for text in texts:
            self.assertTrue(eventually(lambda: text in self.log(), timeout=30), f"{text}\n{self.log()}")
        # Nobody else is affected.
        self.assertEqual(call(*self.lab.mccsctl(), "get", "hosts").returncode, 0)

    def test_a_foreign_certificate(self):
        made = call(program("mccs-controller"), "init-ca", self.directory / "pki", "--domain", "other", "--host", "h0")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assert_refused(self.directory / "pki/hosts/h0", "foreign",
                            "refused a client: the certificate of 'CN=host h0, O=other', issued by ",
                            "a certificate of this cluster's authority is needed; issue one with mccs-controller "
                            "issue-certificate")

    def test_a_client_of_another_authority_names_the_controllers_certificate(self):
        made = call(program("mccs-controller"), "init-ca", self.directory / "pki", "--domain", "other")
        self.assertEqual(made.returncode, 0, made.stderr)
        before = self.refused("foreign")
        asked = call(program("mccsctl"), "--controller", self.lab.daemons()["controller"]["endpoint"], "--tls",
                     self.directory / "pki/operators/admin", "get", "hosts")
        self.assertNotEqual(asked.returncode, 0)
        self.assertIn(f"cannot use mccs-controller at {self.lab.daemons()['controller']['endpoint']}: the server is "
                      "refused: the certificate of 'CN=the controller, O=lab', issued by ", asked.stderr)
        self.assertIn(f"is not one of the authority in {self.directory}/pki/operators/admin/ca.crt", asked.stderr)
        self.assertIn("issue one with mccs-controller issue-certificate", asked.stderr)
        self.assertTrue(eventually(lambda: self.refused("foreign") > before, timeout=30), self.log())
        self.assertIn("refused a client: the certificate of 'CN=operator admin, O=other'", self.log())

    def test_an_expired_certificate(self):
        if shutil.which("openssl") is None:
            self.skipTest("no openssl, which makes expired certificates")
        (self.directory / "extensions").write_text("subjectAltName=URI:spiffe://lab/host/h0\n"
                                                   "extendedKeyUsage=serverAuth,clientAuth\n")
        request, key = self.directory / "request", self.directory / "tls.key"
        for command in (("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", "/CN=host h0/O=lab",
                         "-out", request),
                        ("x509", "-req", "-in", request, "-CA", self.certificates / "ca.crt", "-CAkey",
                         self.certificates / "ca.key", "-set_serial", "7", "-days", "-1", "-extfile",
                         self.directory / "extensions", "-out", self.directory / "tls.crt")):
            made = call("openssl", *command)
            self.assertEqual(made.returncode, 0, made.stderr)
        self.assert_refused(self.directory, "expired",
                            "refused a client: the certificate of 'CN=host h0, O=lab' expired at ",
                            "a valid certificate of this cluster's authority is needed")

    def test_no_certificate(self):
        self.assert_refused(None, "missing", "refused a client: it has no certificate: one of this cluster's authority "
                                             "is needed, by `tls` in mccsd's configuration or --tls DIR of mccsctl")

    def test_an_operator_without_a_role(self):
        made = call(program("mccs-controller"), "issue-certificate", self.certificates, "--operator", "mallory")
        self.assertEqual(made.returncode, 0, made.stderr)
        before = self.refused("unauthorized")
        asked = call(program("mccsctl"), "--controller", self.lab.daemons()["controller"]["endpoint"], "--tls",
                     self.certificates / "operators/mallory", "get", "hosts")
        self.assertNotEqual(asked.returncode, 0)
        text = ("operator mallory (spiffe://lab/operator/mallory) has no role; one of viewer, tenant-admin and admin is "
                "needed: add it to `operators` in mccs-controller's configuration")
        self.assertIn(text, asked.stderr)
        self.assertTrue(eventually(lambda: f"refused a client: {text}" in self.log(), timeout=30), self.log())
        self.assertEqual(self.refused("unauthorized"), before + 1)

    def test_tls_1_2(self):
        files = self.certificates / "operators/admin"
        self.assertFalse(self.connect(files))
        self.assertTrue(self.connect(files, newest=ssl.TLSVersion.TLSv1_2))
        line = "refused a client: it offers no TLS 1.3, which is needed: "
        self.assertTrue(eventually(lambda: line in self.log(), timeout=30), self.log())

    def test_a_server_of_tls_1_2(self):
        """mccsctl and mccsd use the same code for the controller."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        context.load_cert_chain(self.certificates / "controller/tls.crt", self.certificates / "controller/tls.key")
        failures = []

        def accept():
            plain, _ = listener.accept()
            try:
                context.wrap_socket(plain, server_side=True).close()
            except ssl.SSLError as error:
                failures.append(error.reason)
            plain.close()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = threading.Thread(target=accept)
            server.start()
            asked = call(program("mccsctl"), "--controller", f"127.0.0.1:{listener.getsockname()[1]}", "--tls",
                         self.certificates / "operators/admin", "get", "hosts")
            server.join(TIMEOUT_S)
        self.assertNotEqual(asked.returncode, 0)
        self.assertEqual(failures, ["NO_SHARED_CIPHER"])

    def test_no_tls(self):
        before = self.refused("missing")
        asked = call(program("mccsctl"), "--controller", self.lab.daemons()["controller"]["endpoint"], "get", "hosts")
        self.assertNotEqual(asked.returncode, 0)
        self.assertGreater(self.refused("missing"), before)
        self.assertIn("refused a client: it does not use TLS", self.log())


class NewAuthority(unittest.TestCase):
    """The steps of "Replace the authority" in docs/operators/certificates.md."""

    def setUp(self):
        self.lab = Lab(hosts=2, gpus=1, name="authority")
        self.addCleanup(self.lab.down)
        self.old = self.lab.directory / "certificates"
        self.holders = ["controller", "hosts/h0", "hosts/h1", "operators/admin"]
        self.temporary = pathlib.Path(tempfile.mkdtemp(prefix="mccs-authority-"))
        self.addCleanup(shutil.rmtree, self.temporary)
        self.stolen = self.temporary / "stolen"
        shutil.copytree(self.old / "operators/admin", self.stolen)

    def install(self, holder, file, text):
        path = self.old / holder / file
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)

    def log_of(self, host):
        return self.lab.command("logs", host).stdout

    def await_new_files(self, hosts, change):
        """Makes a change of files and waits until the daemons of these hosts use them."""
        line = "new connections use the certificate of"
        before = {host: self.log_of(host).count(line) for host in hosts}
        change()
        for host in hosts:
            self.assertTrue(eventually(lambda: self.log_of(host).count(line) > before[host], timeout=30), host)

    def hosts(self, tls):
        return call(program("mccsctl"), "--controller", self.lab.daemons()["controller"]["endpoint"], "--tls", tls,
                    "get", "hosts", "-o", "json")

    def assert_the_lab_works(self):
        done = self.lab.run(program("collective_perf"), "-b", "8", "-e", "8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        hosts = json.loads(self.hosts(self.old / "operators/admin").stdout)["hosts"]
        self.assertEqual({host["state"] for host in hosts}, {"ready"})

    def reconnect(self, host):
        """The daemon connects to the controller again: it is stopped for longer than the controller waits for it."""
        connected = self.log_of(host).count("registered with the controller")
        pid = self.lab.daemons()[host]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            self.assertTrue(eventually(lambda: self.state(host).startswith("lost"), timeout=60))
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertTrue(eventually(lambda: self.state(host) == "ready", timeout=60), self.log_of(host))
        self.assertGreater(self.log_of(host).count("registered with the controller"), connected, self.log_of(host))

    def state(self, host):
        answer = self.hosts(self.old / "operators/admin")
        return {each["host"]["name"]: each["state"] for each in json.loads(answer.stdout)["hosts"]}[host]

    def test_replaces_the_authority_without_a_restart(self):
        pids = {name: daemon["pid"] for name, daemon in self.lab.daemons().items()}
        new = self.temporary / "new"
        made = call(program("mccs-controller"), "init-ca", new, "--domain", "lab", "--host", "h0", "h1")
        self.assertEqual(made.returncode, 0, made.stderr)
        new_authority = (new / "ca.crt").read_text()
        both = (self.old / "ca.crt").read_text() + new_authority

        def install_authority(text):
            for holder in self.holders:
                self.install(holder, "ca.crt", text)

        def install_certificate(holder):
            for file in ("tls.crt", "tls.key"):
                self.install(holder, file, (new / holder / file).read_text())

        self.await_new_files(["h0", "h1"], lambda: install_authority(both))
        self.assert_the_lab_works()
        # An operator and a host with new certificates, beside a controller and a host with old ones.
        self.await_new_files(["h0"], lambda: install_certificate("hosts/h0"))
        install_certificate("operators/admin")
        self.assertTrue(eventually(lambda: self.hosts(self.old / "operators/admin").returncode == 0, timeout=30))
        self.reconnect("h0")
        self.assert_the_lab_works()
        install_certificate("controller")
        self.await_new_files(["h1"], lambda: install_certificate("hosts/h1"))
        self.assert_the_lab_works()

        (self.stolen / "ca.crt").write_text(both)
        self.assertEqual(self.hosts(self.stolen).returncode, 0)
        self.await_new_files(["h0", "h1"], lambda: install_authority(new_authority))
        self.assertTrue(eventually(lambda: self.hosts(self.stolen).returncode != 0, timeout=30))
        self.reconnect("h1")
        self.assert_the_lab_works()
        self.assertEqual({name: daemon["pid"] for name, daemon in self.lab.daemons().items()}, pids)


if __name__ == "__main__":
    cases.main()
