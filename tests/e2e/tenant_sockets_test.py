#!/usr/bin/env python3
"""Sockets that Tenants declare: they appear on all hosts and go, without a restart of mccsd, and hold while the
controller is away."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import unittest

from lab_world import Lab, call, cases, environment, eventually, program


def tenant(name, path, **socket):
    return {"apiVersion": "mccs/v1", "kind": "Tenant", "metadata": {"name": name},
            "spec": {"sockets": [{"path": path, **socket}]}}


class OfALab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=2, name="sockets")
        cls.addClassCleanup(cls.lab.down)

    def mccsctl(self, *words):
        return self.lab.exec("h0", program("mccsctl"), *words)

    def apply(self, *documents):
        file = self.lab.directory / "tenants.json"
        file.write_text("\n---\n".join(map(json.dumps, documents)))
        return self.mccsctl("apply", "-f", file)

    def delete(self, name):
        self.mccsctl("delete", "tenant", name)

    def file(self, host, path):
        return self.lab.directory / host / "tenants" / path

    def exists(self, path, hosts=("h0", "h1")):
        return all(self.file(host, path).is_socket() for host in hosts)

    def communicator(self):
        output = json.loads(self.mccsctl("get", "communicators", "-o", "json").stdout)
        only, = output.get("communicators", [])
        return only

    def test_a_socket_comes_and_goes_with_its_tenant(self):
        self.assertIn("has no socket of tenant 'team-x'",
                      self.lab.run("true", options=("--tenant", "team-x")).stderr)
        applied = self.apply(tenant("team-x", "team-x.sock", mode="0600", uid=os.getuid()))
        self.assertEqual(applied.returncode, 0, applied.stderr)
        self.assertTrue(eventually(lambda: self.exists("team-x.sock"), timeout=20), self.lab.logs())
        self.assertEqual(stat.S_IMODE(self.file("h0", "team-x.sock").stat().st_mode), 0o600)
        with self.lab.start(program("tests/steady_job"), "--seconds", 600, options=("--tenant", "team-x")) as job:
            self.assertTrue(job.has_printed("running", times=4), job.output + self.lab.logs())
            self.assertEqual(self.communicator()["tenant"], "team-x")
            self.delete("team-x")
            self.assertTrue(eventually(lambda: not self.exists("team-x.sock", ["h0"]) and
                                       not self.exists("team-x.sock", ["h1"]), timeout=20), self.lab.logs())
            # Processes that are connected go on.
            operations = int(self.communicator()["operations"])
            self.assertTrue(eventually(lambda: int(self.communicator()["operations"]) > operations, timeout=20))
            self.assertFalse(job.has_ended())
        self.assertNotEqual(self.lab.run("true", options=("--tenant", "team-x")).returncode, 0)

    def test_a_read_only_mount_of_the_sockets_directory_is_enough(self):
        """As in a container: the directory of the Tenant's socket is all that the program sees of mccsd's."""
        if call("unshare", "-m", "mount", "--make-rprivate", "/").returncode != 0:
            self.skipTest("this user may not make mount namespaces")
        self.assertEqual(self.apply(tenant("boxed", "boxed/mccsd.sock")).returncode, 0)
        self.addCleanup(self.delete, "boxed")
        self.assertTrue(eventually(lambda: self.exists("boxed/mccsd.sock", ["h0"]), timeout=20), self.lab.logs())
        with tempfile.TemporaryDirectory(prefix="mccs-box-") as box:
            script = (f"mount --make-rprivate / && mount --bind {self.file('h0', 'boxed')} {box} && "
                      f"mount -o remount,bind,ro,nosuid,nodev,noexec {box} && ! touch {box}/x && "
                      f'MCCS_SOCKET={box}/mccsd.sock exec "$@"')
            job = (program("collective_perf"), "--op", "all_reduce", "--min", "4K", "--max", "4K", "--iters", "1")
            run = self.lab.run("unshare", "-m", "sh", "-c", script, "sh", *job, options=("--hosts", "h0"))
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("Out of bounds values : 0 OK", run.stdout)

    def test_a_path_in_use_affects_no_other_socket(self):
        self.file("h1", "").mkdir(exist_ok=True)
        self.file("h1", "taken.sock").write_text("a file")
        self.assertEqual(self.apply(tenant("taken", "taken.sock"), tenant("free", "free.sock")).returncode, 0)
        self.addCleanup(self.delete, "free")
        self.addCleanup(self.delete, "taken")
        self.assertTrue(eventually(lambda: self.exists("free.sock") and self.exists("taken.sock", ["h0"]), timeout=20))
        self.assertRegex(self.lab.command("logs", "h1").stdout, "cannot open socket taken.sock of Tenant taken: .*taken"
                         ".sock exists and is not a socket; choose another path, or move it away")
        self.file("h1", "taken.sock").unlink()
        self.assertTrue(eventually(lambda: self.exists("taken.sock"), timeout=20), "mccsd tries again")

    def test_the_controller_rejects_paths_that_no_host_may_have(self):
        outside = self.apply(tenant("x", "../x.sock"))
        self.assertNotEqual(outside.returncode, 0)
        self.assertIn("invalid socket path '../x.sock': expected a path within `socket_dir`", outside.stderr)
        same = self.apply(tenant("x", "x.sock"), tenant("y", "x.sock"))
        self.assertIn("socket path 'x.sock' is in use by Tenant 'x'", same.stderr)


class UnknownTenants(unittest.TestCase):
    def test_are_denied_until_a_tenant_has_them(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write("unknown_tenants: deny\n")
            config.flush()
            lab = Lab(hosts=1, gpus=2, name="unknown", mccsd_config=config.name)
        self.addCleanup(lab.down)
        job = (program("collective_perf"), "--op", "all_reduce", "--min", "4K", "--max", "4K", "--iters", "1")
        denied = lab.run(*job)
        self.assertNotEqual(denied.returncode, 0)
        self.assertRegex(denied.stdout + denied.stderr,
                         f"uid {os.getuid()} belongs to no Tenant, and this host denies unknown tenants: ask the "
                         "operator .*; the control group is /")
        self.assertIn("denied process", lab.command("logs", "h0").stdout)
        file = lab.directory / "tenant.json"
        file.write_text(json.dumps({"apiVersion": "mccs/v1", "kind": "Tenant", "metadata": {"name": "us"},
                                    "spec": {"selector": {"uids": [os.getuid()]}}}))
        self.assertEqual(lab.exec("h0", program("mccsctl"), "apply", "-f", file).returncode, 0)
        self.assertTrue(eventually(lambda: lab.run(*job).returncode == 0, timeout=20))


    def test_a_reload_denies_them_and_admits_them_again(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write("unknown_tenants: allow\n")
            config.flush()
            lab = Lab(hosts=1, gpus=2, name="reload", mccsd_config=config.name)
        self.addCleanup(lab.down)
        job = (program("collective_perf"), "--op", "all_reduce", "--min", "4K", "--max", "4K", "--iters", "1")
        file = lab.directory / "h0/config.yaml"
        text = file.read_text()
        for before, after, code in (("allow", "deny", 1), ("deny", "allow", 0)):
            text = text.replace(f"unknown_tenants: {before}", f"unknown_tenants: {after}")
            file.write_text(text)
            os.kill(lab.daemons()["h0"]["pid"], signal.SIGHUP)
            expected = f"now unknown_tenants {after}, for processes that connect"
            self.assertTrue(eventually(lambda: expected in lab.command("logs", "h0").stdout, timeout=20))
            self.assertEqual(min(lab.run(*job).returncode, 1), code)


class OfAHost(unittest.TestCase):
    """mccsd and its controller without a lab, so that each can be stopped."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mccs-sockets-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def start(self, name, binary, config):
        """Returns the process and its endpoint, when it is ready."""
        state = self.directory / name
        file = self.directory / f"{name}.yaml"
        file.write_text(json.dumps({"state_dir": str(state), **config}))
        log = open(self.directory / f"{name}.log", "ab")
        process = subprocess.Popen([program(binary), "--config", str(file)], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, env=environment())
        log.close()
        self.addCleanup(self.stop, process)
        endpoint = state / "endpoint"
        self.assertTrue(eventually(lambda: endpoint.exists() or process.poll() is not None, timeout=30))
        self.assertIsNone(process.poll(), (self.directory / f"{name}.log").read_text())
        return process, endpoint.read_text().strip()

    def start_mccsd(self, controller):
        return self.start("h0", "mccsd", {"host": "h0", "listen": "127.0.0.1:0", "controller": controller,
                                          "socket": str(self.directory / "mccsd.sock"),
                                          "socket_dir": str(self.directory / "tenants")})[0]

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)

    def test_sockets_hold_after_a_restart_without_a_controller(self):
        controller, endpoint = self.start("controller", "mccs-controller", {"listen": "127.0.0.1:0"})
        mccsd = self.start_mccsd(endpoint)
        file = self.directory / "tenant.json"
        file.write_text(json.dumps(tenant("team-x", "x/mccsd.sock")))
        self.assertEqual(call(program("mccsctl"), "--controller", endpoint, "apply", "-f", file).returncode, 0)
        socket = self.directory / "tenants/x/mccsd.sock"
        self.assertTrue(eventually(socket.is_socket, timeout=20), (self.directory / "h0.log").read_text())
        self.stop(controller)
        self.stop(mccsd)
        self.assertFalse(socket.exists())
        self.start_mccsd(endpoint)
        self.assertTrue(eventually(socket.is_socket, timeout=20), (self.directory / "h0.log").read_text())


if __name__ == "__main__":
    cases.main()
