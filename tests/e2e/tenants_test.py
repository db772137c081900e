#!/usr/bin/env python3
"""Tenants by control group: mapping of jobs to tenants, and quotas. Requires a writable control group hierarchy of
version 2."""
import json
import os
import pathlib
import unittest

from lab_world import Lab, cases, eventually, program


def hierarchy():
    """The mount point of control groups of version 2; None: no writable one."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, directory, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(directory, os.W_OK):
            return pathlib.Path(directory)
    return None


class Group:
    """A control group of this test; `command` starts a program in it."""

    def __init__(self, directory, name):
        self.path = f"/mccs-e2e-{os.getpid()}-{name}"
        self._directory = directory / self.path[1:]
        try:
            self._directory.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"cannot create {self._directory}: {error}") from error

    def command(self, *arguments):
        return ["sh", "-c", f'echo $$ > {self._directory}/cgroup.procs && exec "$@"', "sh", *arguments]

    def remove(self):
        # The group stays busy for a moment after its last process has ended.
        def gone():
            try:
                self._directory.rmdir()
            except FileNotFoundError:
                return True
            except OSError:
                return False
            return True
        return eventually(gone, timeout=10)


class ByControlGroup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = hierarchy()
        if directory is None:
            raise unittest.SkipTest("no writable control group hierarchy of version 2 is mounted")
        cls.groups = {}
        cls.addClassCleanup(lambda: [group.remove() for group in cls.groups.values()])
        for name in "ab":
            cls.groups[name] = Group(directory, name)
        cls.lab = Lab(hosts=2, gpus=2, name="tenants")
        cls.addClassCleanup(cls.lab.down)

    def mccsctl(self, *words):
        return self.lab.exec("h0", program("mccsctl"), *words)

    def apply(self, name, spec):
        document = {"apiVersion": "mccs/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
        file = self.lab.directory / f"{name}.json"
        file.write_text(json.dumps(document))
        output = self.mccsctl("apply", "-f", file)
        self.assertEqual(output.returncode, 0, output.stderr)

    def start(self, group):
        return self.lab.start(*self.groups[group].command(program("tests/steady_job"), "--seconds", 600))

    def tenants(self):
        output = json.loads(self.mccsctl("get", "communicators", "-o", "json").stdout)
        return sorted(each["tenant"] for each in output.get("communicators", []))

    def test_a_group_is_a_tenant_with_quotas(self):
        self.apply("team-a", {"selector": {"cgroups": [self.groups["a"].path]}, "quotas": {"communicators": 1}})
        self.apply("team-b", {"selector": {"uids": [os.getuid()]}})
        with self.start("a") as first, self.start("b") as neighbour:
            self.assertTrue(first.has_printed("running", times=4), first.output + self.lab.logs())
            self.assertTrue(neighbour.has_printed("running", times=4), neighbour.output + self.lab.logs())
            # Both jobs have the same user; the control group takes precedence.
            self.assertEqual(self.tenants(), ["team-a", "team-b"])
            with self.start("a") as second:
                self.assertTrue(second.has_printed("rejected"), second.output)
                self.assertIn("Tenant team-a has 1 communicator on this host, and quotas.communicators is 1; destroy "
                              "unused ones, or ask the operator to raise the quota", second.output)
                self.assertNotEqual(second.wait(), 0)
            self.assertFalse(first.has_ended() or neighbour.has_ended())
            self.apply("team-a", {"selector": {"cgroups": [self.groups["a"].path]}, "quotas": {"communicators": 2}})
            with self.start("a") as second:
                self.assertTrue(second.has_printed("running", times=4), second.output + self.lab.logs())

    def test_each_group_that_a_pattern_captures_has_the_quotas(self):
        self.mccsctl("delete", "tenant", "team-a")  # of another test: a path precedes a pattern
        pattern = self.groups["a"].path[:-1] + "{group}"
        self.apply("jobs", {"selector": {"cgroups": [pattern]}, "quotas": {"communicators": 1}})
        self.addCleanup(self.mccsctl, "delete", "tenant", "jobs")
        with self.start("a") as first, self.start("b") as second:
            self.assertTrue(first.has_printed("running", times=4), first.output + self.lab.logs())
            self.assertTrue(second.has_printed("running", times=4), second.output + self.lab.logs())
            self.assertEqual(self.tenants(), ["jobs", "jobs"])
            with self.start("a") as third:
                self.assertTrue(third.has_printed("Tenant jobs/a has 1 communicator on this host"), third.output)

    def test_a_call_beyond_the_memory_quota_is_rejected(self):
        self.apply("team-a", {"selector": {"cgroups": [self.groups["a"].path]}, "quotas": {"memory": "1MiB"}})
        too_much = self.lab.run(*self.groups["a"].command(program("collective_perf"), "--op", "all_reduce", "--min", "4M",
                                                          "--max", "4M", "--iters", "1"))
        self.assertNotEqual(too_much.returncode, 0)
        self.assertRegex(too_much.stdout + too_much.stderr,
                         r"Tenant team-a exceeds quotas.memory on this host: .* the quota is 1 MiB")
        enough = self.lab.run(*self.groups["b"].command(program("collective_perf"), "--op", "all_reduce", "--min", "4M",
                                                        "--max", "4M", "--iters", "1"))
        self.assertEqual(enough.returncode, 0, enough.stderr)


if __name__ == "__main__":
    cases.main()
