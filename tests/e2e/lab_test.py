#!/usr/bin/env python3
"""mccs-lab with real daemons: its commands, and complete removal of its files and processes."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from lab_world import Lab, call, cases, environment, eventually, foreign_environment, process_has_ended, program


def traces(lab):
    """Files, sockets and processes of the lab that still exist."""
    found = [str(path) for path in pathlib.Path("/tmp").glob(lab.directory.name + "*")]
    found += [line for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if str(lab.directory) in line]
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid() or process_has_ended(process.name):
            continue
        try:
            if str(lab.directory) in (process / "cmdline").read_text() + (process / "environ").read_text():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def shared_memory():
    return sorted(os.listdir("/dev/shm"))


class LabCommands(unittest.TestCase):
    def test_down_leaves_nothing_behind(self):
        before = shared_memory()
        with Lab(hosts=2, gpus=2) as lab:
            job = lab.start(program("tests/steady_job"), "--seconds", 60)
            with job:
                self.assertTrue(job.has_printed("running", times=4), job.output + lab.logs())
                self.assertTrue(traces(lab))
                self.assertEqual(lab.down().returncode, 0)
                self.assertNotEqual(job.wait(), 0)
            self.assertTrue(eventually(lambda: not traces(lab), timeout=10), traces(lab))
            self.assertEqual(shared_memory(), before)

    def test_distinguishes_tenants_of_the_lab(self):
        with Lab(hosts=2, gpus=1) as lab:
            for tenant in ("a", "b"):
                job = lab.start(program("tests/steady_job"), "--seconds", 60, options=("--tenant", tenant))
                with job:
                    self.assertTrue(job.has_printed("running", times=2), job.output + lab.logs())
                    listed = lab.exec("h0", program("mccsctl"), "get", "communicators", "-o", "json")
                    self.assertEqual([c["tenant"] for c in json.loads(listed.stdout)["communicators"]][-1], tenant)
            unknown = lab.run(program("tests/steady_job"), options=("--tenant", "e"))
            self.assertEqual(unknown.returncode, 1)
            self.assertIn("host h0 has no socket of tenant 'e'", unknown.stderr)
            self.assertIn("invalid name 'A' for a tenant", lab.command("up", "--tenants", "A").stderr)

    def test_the_labs_death_leaves_nothing_behind(self):
        before = shared_memory()
        with Lab(hosts=2, gpus=1) as lab:
            job = lab.start(program("tests/steady_job"), "--seconds", 60)
            with job:
                self.assertTrue(job.has_printed("running", times=2), job.output + lab.logs())
                described, = json.loads(lab.command("status", "-o", "json").stdout)
                os.kill(described["supervisor_pid"], signal.SIGKILL)
                self.assertNotEqual(job.wait(), 0)
            self.assertTrue(eventually(lambda: not traces(lab), timeout=20), traces(lab))
            self.assertEqual(shared_memory(), before)

    def test_daemons_that_have_worked_stop_cleanly_on_sigterm(self):
        with Lab(hosts=2, gpus=1) as lab:
            self.assertEqual(lab.run(program("one_rank_per_process")).returncode, 0)
            for name, daemon in reversed(lab.daemons().items()):
                os.kill(daemon["pid"], signal.SIGTERM)
                self.assertTrue(eventually(lambda: lab.daemons()[name]["pid"] == 0, timeout=20))
                # A sanitizer that finds a leak changes the exit status.
                self.assertEqual(lab.daemons()[name]["condition"], "exited with status 0",
                                 lab.command("logs", name).stdout)
                self.assertFalse((lab.directory / name / "mccsd.sock").exists())

    def test_two_labs_work_side_by_side(self):
        with Lab(hosts=1, gpus=2, name="one") as one, Lab(hosts=2, gpus=1, name="two") as two:
            with one.start(program("tests/steady_job"), "--seconds", 2) as first, \
                    two.start(program("tests/steady_job"), "--seconds", 2) as second:
                self.assertEqual(first.wait(), 0, first.output)
                self.assertEqual(second.wait(), 0, second.output)
            listed = call(program("mccs-lab"), "status").stdout
            self.assertIn(one.name, listed)
            self.assertIn(two.name, listed)
            one.down()
            self.assertEqual(two.run(program("one_rank_per_process")).returncode, 0)

    def test_a_variable_of_the_caller_reaches_the_program(self):
        with Lab(hosts=1, gpus=1) as lab:
            env = foreign_environment(OWN_WORD="it passes")
            result = lab.run("/bin/sh", "-c", "echo $OWN_WORD $RANK/$WORLD_SIZE", env=env)
            self.assertEqual(result.stdout, "[0] it passes 0/1\n")

    def test_hosts_resolve_their_own_name_and_the_others(self):
        script = ("import socket; own = socket.gethostname(); "
                  "print(own, *map(socket.gethostbyname, (own, 'h0', 'h1', 'localhost')))")
        env = foreign_environment()
        machines = pathlib.Path("/etc/hosts").read_bytes()
        with Lab(hosts=2, gpus=1) as lab:
            for host, address in (("h0", "127.0.0.1"), ("h1", "127.0.0.2")):
                looked_up = lab.exec(host, sys.executable, "-c", script, env=env)
                self.assertEqual(looked_up.stdout, f"{host} {address} 127.0.0.1 127.0.0.2 127.0.0.1\n",
                                 looked_up.stderr)
            ranks = lab.run(sys.executable, "-c", script, env=env)
            self.assertEqual(sorted(ranks.stdout.splitlines()), ["[0] h0 127.0.0.1 127.0.0.1 127.0.0.2 127.0.0.1",
                                                                 "[1] h1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1"],
                             ranks.stderr)
            self.assertEqual(pathlib.Path("/etc/hosts").read_bytes(), machines)

    def test_env_sets_up_a_shell_for_a_host(self):
        with Lab(hosts=1, gpus=2) as lab:
            lines = lab.command("env", "h0")
            self.assertEqual(lines.returncode, 0, lines.stderr)
            shell = subprocess.run(["/bin/sh", "-c", f"{lines.stdout} exec {program('one_process_all_gpus')}"],
                                   capture_output=True, text=True, env=environment())
            self.assertEqual(shell.returncode, 0, shell.stderr)

    def test_exit_statuses_and_errors(self):
        with Lab(hosts=1, gpus=2) as lab:
            env = foreign_environment()
            failing = lab.run("/bin/sh", "-c", "exit $((RANK * 9))", env=env)
            self.assertEqual(failing.returncode, 9)
            self.assertEqual(lab.run("no-such-program").returncode, 127)
            self.assertIn("not found", lab.exec("h0", "no-such-program").stderr)
            self.assertIn("'h5'; it has controller, h0", lab.exec("h5", "true").stderr)
            self.assertIn("at most 2", lab.run("true", options=("--ranks", 3)).stderr)
            again = lab.command("up", "--hosts", 1)
            self.assertEqual(again.returncode, 1)
            self.assertIn("already running", again.stderr)
        unknown = lab.command("down")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("does not exist", unknown.stderr)


if __name__ == "__main__":
    cases.main()
