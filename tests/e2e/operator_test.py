#!/usr/bin/env python3
"""Operators' objects from file to store: mccsctl against a real mccs-controller, with restarts."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from lab_world import TIMEOUT_S, ROOT, Lab, call, cases, environment, eventually, program

TENANT = """\
apiVersion: mccs/v1
kind: Tenant
metadata:
  name: {name}
spec:
  selector:
    uids: [{uid}]
  guarantee: 10Gbit/s
  cap: {cap}
  quotas: {{communicators: 16}}
"""

POLICY = """\
apiVersion: mccs/v1
kind: Policy
metadata:
  name: {name}
spec:
  type: locality_ring
  parameters:
    order: [{order}]
  selector:
    tenants: [{tenant}]
"""

TOPOLOGY = """\
apiVersion: mccs/v1
kind: Topology
metadata:
  name: lab
spec:
  racks:
    - name: r0
  switches:
    - name: leaf0
  hosts:
    - name: "h[0-1]"
      rack: r0
      gpus: 1
      nics: [{name: nic0, switch: leaf0, capacity: 100Gbit/s}]
"""


def tenant(name="team-a", uid=1000, cap="40Gbit/s"):
    return TENANT.format(name=name, uid=uid, cap=cap)


def policy(name="gold", order="h1, h0", tenant="team-a"):
    return POLICY.format(name=name, order=order, tenant=tenant)


class Controller:
    """A controller for one test, with its state in `directory`."""

    def __init__(self, directory, *arguments):
        self.state = pathlib.Path(directory) / "state"
        self.log = open(pathlib.Path(directory) / "log", "ab")
        self.process = subprocess.Popen(
            [program("mccs-controller"), "--listen", "127.0.0.1:0", "--state-dir", self.state, *arguments],
            stderr=self.log, stdin=subprocess.DEVNULL, env=environment())
        if not eventually(lambda: (self.state / "endpoint").exists() or self.process.poll() is not None, 60) \
                or self.process.poll() is not None:
            raise AssertionError("mccs-controller did not start")
        self.endpoint = (self.state / "endpoint").read_text().strip()

    def mccsctl(self, *words, text=None):
        return subprocess.run([program("mccsctl"), "--controller", self.endpoint, *map(str, words)], text=True,
                              input=text, capture_output=True, timeout=TIMEOUT_S, env=environment())

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(TIMEOUT_S)
        (self.state / "endpoint").unlink(missing_ok=True)
        self.log.close()
        return status


class Objects(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.store = self.directory / "store.db"
        self.start()
        self.addCleanup(lambda: self.controller.stop())

    def start(self):
        self.controller = Controller(self.directory, "--store", self.store)

    def run_ok(self, *words, text=None):
        result = self.controller.mccsctl(*words, text=text)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stdout}{result.stderr}")
        return result.stdout

    def rejected(self, *words, text=None, status=1):
        result = self.controller.mccsctl(*words, text=text)
        self.assertEqual(result.returncode, status, f"{words}: {result.stdout}{result.stderr}")
        return result.stderr

    def names(self, kind):
        listed = json.loads(self.run_ok("get", kind, "-o", "json"))
        return [item["metadata"]["name"] for item in (listed if isinstance(listed, list) else [listed])]

    def count(self, kind):
        return len(self.names(kind))

    def test_files_folders_and_standard_input_are_applied_once(self):
        directory = self.directory / "objects"
        directory.mkdir()
        (directory / "1.yaml").write_text(tenant())
        (directory / "2.yml").write_text(TOPOLOGY + "---\n" + policy())
        self.assertIn("policy/gold created", self.run_ok("apply", "-f", directory))
        self.assertIn("tenant/team-b created", self.run_ok("apply", "-f", "-", text=tenant("team-b", 2000)))
        again = self.run_ok("apply", "-f", directory)
        self.assertEqual(again, "tenant/team-a unchanged\ntopology/lab unchanged\npolicy/gold unchanged\n")
        self.assertEqual(self.names("tenants"), ["team-a", "team-b"])

    def test_the_examples_are_valid_together(self):
        policies, testbed = ROOT / "examples/policies", ROOT / "examples/topologies/paper-testbed.yaml"
        self.assertIn("unknown link 'leaf0-spine1'", self.rejected("apply", "--dry-run", "-f", policies))
        self.run_ok("apply", "-f", testbed)
        self.assertIn("policy/production-first would be created", self.run_ok("apply", "--dry-run", "-f", policies))
        self.run_ok("apply", "-f", policies)
        self.assertRegex(self.run_ok("get", "policies"), r"production-first +priority_flow .* True")

    def test_a_rejection_names_object_field_and_line_and_changes_nothing(self):
        self.run_ok("apply", "-f", "-", text=tenant())
        cases_ = [
            (tenant("team-b", 2000, cap="5Gbit/s"),
             "<stdin>:9:8: Tenant 'team-b', spec.cap: the cap of 5 Gbit/s is below the guarantee of 10 Gbit/s"),
            (TOPOLOGY + "---\n" + policy(tenant="team-x"),
             "<stdin>:25:15: Policy 'gold', spec.selector.tenants[0]: unknown Tenant 'team-x' (did you mean 'team-a'?)"),
            (TOPOLOGY + "---\n" + policy(order="h0, h9"),
             "<stdin>:23:17: Policy 'gold', spec.parameters.order[1]: unknown host 'h9'"),
            (TOPOLOGY + "---\n" + policy() + "---\n" + policy("silver"),
             "duplicate policy for Tenant 'team-a'"),
            (tenant("team-b", 2000) + "---\nkind: Tenant\n", "<stdin>:12:1: the key 'apiVersion' is missing"),
            (tenant("team-b", 2000).replace("spec:", "  resourceVersion: 4\nspec:"), "is not stored"),
        ]
        for text, why in cases_:
            self.assertIn(why, self.rejected("apply", "-f", "-", text=text))
            self.assertIn(why, self.rejected("diff", "-f", "-", text=text, status=3))
        self.assertEqual((self.count("tenants"), self.count("policies"), self.count("topologies")), (1, 0, 0))

    def test_an_edit_of_an_older_version_is_rejected(self):
        self.run_ok("apply", "-f", "-", text=tenant())
        document = self.run_ok("get", "tenants", "team-a", "-o", "yaml")
        edited = document.replace("40 Gbit/s", "30 Gbit/s")
        self.assertNotEqual(document, edited)
        self.run_ok("apply", "-f", "-", text=edited)
        why = self.rejected("apply", "-f", "-", text=document.replace("40 Gbit/s", "20 Gbit/s"))
        self.assertRegex(why, r"<stdin>:5:20: Tenant 'team-a', metadata\.resourceVersion: version 1 .*stored version is 2")
        self.assertIn("cap: 30 Gbit/s", self.run_ok("get", "tenant", "team-a", "-o", "yaml"))

    def test_diff_shows_what_apply_would_do(self):
        self.run_ok("apply", "-f", "-", text=tenant())
        same = self.controller.mccsctl("diff", "-f", "-", text=tenant())
        self.assertEqual((same.returncode, same.stdout), (0, ""))
        other = self.controller.mccsctl("diff", "-f", "-", text=tenant(cap="30Gbit/s"))
        self.assertEqual(other.returncode, 1)
        self.assertIn("-  cap: 40 Gbit/s\n+  cap: 30 Gbit/s\n", other.stdout)
        self.assertIn("cannot read /no/such", self.rejected("diff", "-f", "/no/such", status=3))

    def test_delete_removes_dependent_objects_together(self):
        text = tenant() + "---\n" + TOPOLOGY + "---\n" + policy()
        self.run_ok("apply", "-f", "-", text=text)
        self.assertIn("Policy 'gold' (stored, version 1) still refers to it in spec.selector.tenants[0]",
                      self.rejected("delete", "tenant", "team-a"))
        self.assertIn("did you mean 'gold'?", self.rejected("delete", "policy", "golf"))
        self.assertIn("policy/gold would be deleted", self.run_ok("delete", "policy", "gold", "--dry-run"))
        self.assertIn("policy/gold deleted", self.run_ok("delete", "-f", "-", text=text))
        self.assertEqual(self.count("tenants"), 0)

    def test_wrong_usage_ends_with_status_2(self):
        for words in (["apply"], ["delete"], ["delete", "tenant"], ["get", "pods"], ["apply", "-f"],
                      ["audit", "--limit", "0"], ["get", "tenants", "-o", "xml"]):
            self.rejected(*words, status=2)

    def test_applied_objects_survive_a_kill(self):
        self.run_ok("apply", "-f", "-", text=tenant())
        self.run_ok("apply", "-f", "-", text=TOPOLOGY + "---\n" + policy())
        before = [self.run_ok("get", kind, "-o", "yaml") for kind in ("tenants", "policies", "topologies")]
        self.controller.stop(signal.SIGKILL)
        self.start()
        after = [self.run_ok("get", kind, "-o", "yaml") for kind in ("tenants", "policies", "topologies")]
        self.assertEqual(before, after)
        self.assertEqual(len(json.loads(self.run_ok("audit", "-o", "json"))["entries"]), 2)

    def test_a_second_controller_on_the_store_exits_with_an_error(self):
        second = call(program("mccs-controller"), "--listen", "127.0.0.1:0", "--store", self.store)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"in use by another mccs-controller (process {self.controller.process.pid})", second.stderr)
        self.run_ok("get", "tenants")

    def test_a_store_of_a_later_release_is_rejected(self):
        self.controller.stop()
        if shutil.which("sqlite3") is None:
            self.start()
            self.skipTest("sqlite3 is not installed")
        subprocess.run(["sqlite3", self.store, "PRAGMA user_version = 99"], check=True)
        rejected = call(program("mccs-controller"), "--listen", "127.0.0.1:0", "--store", self.store)
        self.assertEqual(rejected.returncode, 1)
        self.assertIn("has version 99 of the schema", rejected.stderr)
        subprocess.run(["sqlite3", self.store, "PRAGMA user_version = 1"], check=True)
        self.start()

    def test_the_audit_log_has_peer_user_and_outcome(self):
        self.run_ok("apply", "-f", "-", text=tenant())
        self.rejected("delete", "tenant", "no-such-tenant")
        newest, first = json.loads(self.run_ok("audit", "-o", "json"))["entries"]
        self.assertRegex(first["peer"], r"^ipv4:127\.0\.0\.1:\d+$")
        self.assertIn("@", first["user"])
        self.assertEqual((first["action"], first["outcome"], first["objects"]),
                         ("apply", "done", "created Tenant 'team-a'"))
        self.assertEqual(newest["outcome"], "rejected: unknown Tenant 'no-such-tenant'")
        self.assertFalse(first["user_proven"])
        self.assertIn(f" {first['user']} (unverified) ", self.run_ok("audit"))

    def test_a_drain_that_is_rejected_is_in_the_audit_log(self):
        self.rejected("drain", "host", "h9")
        self.rejected("undrain", "link", "nowhere")
        newest, first = json.loads(self.run_ok("audit", "-o", "json"))["entries"]
        self.assertEqual((first["action"], first["outcome"]),
                         ("drain", "rejected: unknown host 'h9'; correct the name, start its daemon, or apply a "
                          "Topology that has it"))
        self.assertEqual((newest["action"], newest["outcome"]),
                         ("undrain", "rejected: cannot undrain link nowhere: it is not drained; see mccsctl get drains"))
        self.assertIn("@", newest["user"])

    def test_tables_show_what_is_enforced(self):
        self.run_ok("apply", "-f", "-", text=tenant() + "---\n" + policy().replace("order: [h1, h0]", "{}")
                    .replace("parameters:\n    {}", "parameters: {}"))
        self.assertIn("The guarantee of 10 Gbit/s of", self.run_ok("describe", "tenant", "team-a"))
        self.assertNotIn("no effect", self.run_ok("apply", "-f", "-", text=TOPOLOGY))
        self.assertRegex(self.run_ok("get", "tenants"), r"(?m)^team-a .* Partial$")
        self.assertIn("Policy 'gold' (locality_ring) selects the tenant",
                      self.run_ok("describe", "tenant", "team-a"))
        shares = policy().replace("locality_ring", "shares").replace("order: [h1, h0]", "channels_per_nic: 1")
        self.assertNotIn("no effect", self.run_ok("apply", "-f", "-", text=shares))
        self.assertRegex(self.run_ok("get", "tenants"), r"(?m)^team-a .* True$")
        self.assertIn("MAX MEMORY", self.run_ok("get", "tenants", "-o", "wide"))
        self.assertIn("Enforced:       True", self.run_ok("describe", "policy", "gold"))

    def test_a_guarantee_above_every_nic_is_rejected(self):
        self.run_ok("apply", "-f", "-", text=TOPOLOGY)
        self.assertRegex(
            self.rejected("apply", "-f", "-", text=tenant(cap="400Gbit/s").replace("10Gbit/s", "200Gbit/s")),
            r"<stdin>:8:14: Tenant 'team-a', spec.guarantee: no NIC can carry it: the fastest link, h0/nic0-leaf0 of Topology "
            r"'lab', can carry 9\d\.?\d* Gbit/s of payload, but the guarantee is 200 Gbit/s; lower it")
        self.assertEqual(self.count("tenants"), 0)

    def test_bash_completes_commands_formats_and_names(self):
        self.run_ok("apply", "-f", "-", text=tenant())
        script = self.run_ok("completion", "bash")

        def complete(*words):
            asked = " ".join(f"'{word}'" for word in words)
            run = subprocess.run(
                ["bash", "-c", f"{script}\nCOMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}; _mccsctl; "
                               'printf "%s\\n" "${COMPREPLY[@]}"'],
                capture_output=True, text=True, timeout=TIMEOUT_S,
                env=environment(PATH=f"{pathlib.Path(program('mccsctl')).parent}:{os.environ['PATH']}",
                                MCCS_CONTROLLER=self.controller.endpoint))
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout.split()

        self.assertEqual(complete("mccsctl", "ap"), ["apply"])
        self.assertIn("topologies", complete("mccsctl", "get", ""))
        self.assertEqual(complete("mccsctl", "get", "hosts", "-o", "w"), ["wide"])
        self.assertEqual(complete("mccsctl", "describe", "tenant", "te"), ["team-a"])
        self.assertIn("--dry-run", complete("mccsctl", "-o", "json", "apply", "--"))


class WithoutStore(unittest.TestCase):
    def test_state_in_memory_is_logged_once(self):
        with tempfile.TemporaryDirectory() as directory:
            controller = Controller(directory)
            try:
                self.assertEqual(controller.mccsctl("apply", "-f", "-", text=tenant()).returncode, 0)
            finally:
                self.assertEqual(controller.stop(), 0)
            log = (pathlib.Path(directory) / "log").read_text()
            self.assertEqual(log.count("are only in memory"), 1, log)


class Communicators(unittest.TestCase):
    """A policy applies to new and running communicators, and a dry run shows its changes."""

    def setUp(self):
        self.lab = Lab(hosts=2, gpus=1, name="operator")
        self.addCleanup(self.lab.down)

    def mccsctl(self, *words):
        return self.lab.exec("h0", program("mccsctl"), *words)

    def communicators(self):
        return json.loads(self.mccsctl("get", "communicators", "-o", "json").stdout)["communicators"]

    def strategy(self):
        return {each["strategy"] for each in self.communicators()}

    def operations(self):
        return sum(int(each["operations"]) for each in self.communicators())

    def test_a_policy_applies_to_running_and_new_communicators(self):
        objects = pathlib.Path(self.lab.directory) / "objects.yaml"
        objects.write_text(tenant(uid=os.getuid()) + "---\n" + TOPOLOGY + "---\n" + policy())
        with self.lab.start(program("tests/steady_job"), "--seconds", 120) as job:
            self.assertTrue(job.has_printed("running", times=2), job.output + self.lab.logs())
            dry = self.mccsctl("apply", "--dry-run", "-f", objects)
            self.assertEqual(dry.returncode, 0, dry.stderr)
            self.assertIn("- → gold", dry.stdout)
            self.assertIn("channel 0: h1 → h0 → h1 instead of h0 → h1 → h0", dry.stdout)
            self.assertEqual(self.strategy(), {"locality_ring"}, "a dry run changes nothing")
            applied = self.mccsctl("apply", "-f", objects)
            self.assertEqual(applied.returncode, 0, applied.stderr)
            self.assertIn("channel 0: h1 → h0 → h1 instead of h0 → h1 → h0", applied.stdout)
            self.assertTrue(eventually(lambda: self.strategy() == {"locality_ring by gold"}, timeout=30))
            self.assertEqual(self.mccsctl("delete", "policy", "gold").returncode, 0)
            self.assertTrue(eventually(lambda: self.strategy() == {"locality_ring"}, timeout=30))
            before = self.operations()
            self.assertTrue(eventually(lambda: self.operations() > before + 10, timeout=30), self.lab.logs())
            self.assertNotIn("wrong", job.output)
            self.assertEqual(self.mccsctl("apply", "-f", objects).returncode, 0)
        self.assertTrue(eventually(lambda: not self.strategy(), timeout=30))
        with self.lab.start(program("tests/steady_job"), "--seconds", 120) as job:
            self.assertTrue(job.has_printed("running", times=2), job.output + self.lab.logs())
            self.assertTrue(eventually(lambda: self.strategy() == {"locality_ring by gold"}, timeout=30))
            described = self.mccsctl("describe", "policy", "gold").stdout
            self.assertRegex(described, r"Communicators\n  [0-9a-f]{16}\n")


if __name__ == "__main__":
    cases.main()
