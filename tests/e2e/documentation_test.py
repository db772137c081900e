#!/usr/bin/env python3
"""The examples of the documentation and of the help texts: commands exist, objects are valid, the quick start runs."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import documents
from documents import cli_help
from lab_world import BIN, ROOT, SANITIZED, TIMEOUT_S, Lab, call, cases, environment, eventually, program

QUICK_START = "docs/operators/quick-start.md"
# The hosts that the objects of pages without a Topology name.
HOSTS = """
apiVersion: mccs/v1
kind: Topology
metadata: {name: hosts-of-the-pages}
spec:
  racks: [{name: r0}]
  switches: [{name: leaf0}]
  hosts: [{name: "h[0-1]", rack: r0, gpus: 1, nics: [{name: nic0, switch: leaf0, capacity: 50Gbit/s}]}]
"""


class Controller:
    """A controller without hosts."""

    def __init__(self):
        self._state = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [program("mccs-controller"), "--listen", "127.0.0.1:0", "--state-dir", self._state.name],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        endpoint = pathlib.Path(self._state.name, "endpoint")
        assert eventually(lambda: endpoint.exists() and endpoint.read_text().strip(), timeout=30), "no endpoint"
        self.address = endpoint.read_text().strip()

    def stop(self):
        self._process.terminate()
        self._process.wait(timeout=TIMEOUT_S)
        self._state.cleanup()

    def mccsctl(self, *arguments):
        return call(program("mccsctl"), "--controller", self.address, *arguments)

    def delete(self, *objects):
        for kind, name in objects:
            self.mccsctl("delete", kind, name)


def written(text):
    file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
    file.write(text)
    file.flush()
    return file


class WithAController(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.controller = Controller()

    @classmethod
    def tearDownClass(cls):
        cls.controller.stop()

    def assert_valid(self, source, *files):
        run = self.controller.mccsctl("apply", "--dry-run", *(word for file in files for word in ("-f", file)))
        self.assertEqual(run.returncode, 0, f"{source}: {run.stderr}")

    def test_the_objects_on_each_page_are_valid(self):
        count = 0
        for page, text in documents.pages().items():
            for block in documents.blocks(text, "yaml"):
                if "apiVersion: mccs/" not in block:
                    continue
                count += 1
                documents_of_page = block if "kind: Topology" in block else f"{HOSTS}---\n{block}"
                with self.subTest(page), written(documents_of_page) as file:
                    self.assert_valid(page, file.name)
        self.assertGreaterEqual(count, 2, "the pages have objects")

    def test_the_example_files_are_valid(self):
        testbed = ROOT / "examples/topologies/paper-testbed.yaml"
        for kind in ("topologies", "tenants"):
            for file in sorted((ROOT / "examples" / kind).glob("*.yaml")):
                with self.subTest(file.name):
                    self.assert_valid(file, file)
        for file in sorted((ROOT / "examples/policies").glob("*.yaml")):
            with self.subTest(file.name):
                self.assert_valid(file, file, testbed)

    def test_the_pipeline_in_the_help_of_apply_changes_an_object(self):
        help_text = call(program("mccsctl"), "apply", "--help").stdout
        pipeline, = re.findall(r"^ *(mccsctl get .*\| mccsctl apply -f -)$", help_text, re.MULTILINE)
        # The Tenant of the page, without a weight: 1, which the pipeline replaces.
        tenant = "apiVersion: mccs/v1\nkind: Tenant\nmetadata: {name: team-a}\nspec:\n  " + \
                 documents.blocks((ROOT / "docs/operators/objects.md").read_text(), "yaml")[0].split("spec:\n")[1] \
                 .split("  weight:")[0].strip() + "\n"
        with written(tenant) as file:
            applied = self.controller.mccsctl("apply", "-f", file.name)
        self.assertEqual(applied.returncode, 0, applied.stderr)
        run = call("bash", "-c", f"set -o pipefail; {pipeline}",
                   env=environment(MCCS_CONTROLLER=self.controller.address, PATH=f"{BIN}:{os.environ['PATH']}"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("tenant/team-a changed", run.stdout)
        self.controller.delete(("tenant", "team-a"))


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trees = {name: cli_help.read_command(program(name)) for name in cli_help.PROGRAMS}

    def problems_of(self, lines):
        calls = [words for line in lines for words in documents.calls_of(line)]
        return len(calls), [f"{' '.join(words)}: {problem}" for words in calls
                            if (problem := documents.problem_of(words, self.trees[words[0]]))]

    def test_commands_on_each_page_have_existing_subcommands_and_options(self):
        count, wrong = 0, []
        for page, text in documents.pages().items():
            found, problems = self.problems_of(documents.commands_of(text))
            count += found
            wrong += [f"{page}: {problem}" for problem in problems]
        self.assertGreater(count, 100, "the pages have commands")
        self.assertEqual(wrong, [])

    def test_commands_in_help_texts_have_existing_subcommands_and_options(self):
        count, wrong = 0, []
        for tree in self.trees.values():
            for command in cli_help.flat(tree):
                lines = [line.strip() for line in command.text.splitlines()
                         if line.strip().startswith(tuple(cli_help.PROGRAMS))]
                lines += re.findall(r"'((?:mccs)[^']*)'", command.text)
                found, problems = self.problems_of(lines)
                count += found
                wrong += [f"{command.name} --help: {problem}" for problem in problems]
        self.assertGreater(count, 30, "the help texts have commands")
        self.assertEqual(wrong, [])

    def test_files_in_shell_blocks_exist(self):
        wrong, count = [], 0
        for page, text in documents.pages().items():
            for block in documents.blocks(text, "sh"):
                for path in re.findall(r"(?:^|[\s\"'])(?:\./)?((?:scripts|examples|tests|tools|deploy)/[\w./-]+)", block):
                    count += 1
                    wrong += [] if (ROOT / path).exists() else [f"{page}: {path}"]
        self.assertGreater(count, 10)
        self.assertEqual(wrong, [])

    def test_a_wrong_subcommand_or_option_is_found(self):
        for line, problem in (("mccsctl fetch hosts", "'mccsctl' has no subcommand fetch"),
                              ("mccsctl get hosts --colour", "'mccsctl get hosts' has no option --colour"),
                              ("mccs-lab exec h0 -- mccsctl get nodes", "'mccsctl get' has no subcommand nodes")):
            _, found = self.problems_of([line])
            self.assertEqual([each.split(": ", 1)[1] for each in found], [problem])


class Metrics(unittest.TestCase):
    def test_pages_and_alerts_name_existing_metrics(self):
        known = set(re.findall(r"^\| `(mccs_\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
        texts = {name: text for name, text in documents.pages().items() if name != "CHANGELOG.md"}
        texts["deploy/prometheus/mccs-alerts.yaml"] = (ROOT / "deploy/prometheus/mccs-alerts.yaml").read_text()
        used = {(name, metric) for name, text in texts.items()
                for metric in re.findall(r"\b(mccs_\w+?(?:_total|_seconds|_info|_connected|_hosts|_bytes|_buffers|"
                                         r"_communicators|_sessions|_pending|_highest))\b", text)}
        self.assertGreater(len(used), 10)
        self.assertEqual({each for each in used if each[1] not in known}, set())

    def test_alerts_name_existing_label_values(self):
        rows = dict(re.findall(r"^\| `(mccs_\w+)` \| \w+ \| (.*?) \|", (ROOT / "docs/reference/metrics.md").read_text(),
                               re.MULTILINE))
        rules = (ROOT / "deploy/prometheus/mccs-alerts.yaml").read_text()
        selectors = [(metric, label, value) for metric, labels in re.findall(r"(mccs_\w+)\{([^}]*)\}", rules)
                     for label, value in re.findall(r'(\w+)!?="([^"]*)"', labels)]
        self.assertGreater(len(selectors), 3)
        wrong = [each for each in selectors
                 if not re.search(rf"`{each[1]}`:[^;]*\b{each[2]}\b", rows.get(each[0], ""))]
        self.assertEqual(wrong, [])

    def test_every_alert_has_an_explanation(self):
        rules = set(re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/mccs-alerts.yaml").read_text()))
        explained = set(re.findall(r"^\| `(Mccs\w+)`", (ROOT / "docs/operators/alerts.md").read_text(), re.MULTILINE))
        self.assertEqual(rules, explained)


class QuickStart(unittest.TestCase):
    def test_the_commands_run_and_the_cap_takes_effect(self):
        """Runs the page's commands in a lab of another name, next to labs that may exist."""
        Lab(hosts=1, gpus=1, name="support").down()  # Skips the test if the machine cannot run a lab.
        script = "\n".join(documents.blocks((ROOT / QUICK_START).read_text(), "sh"))
        name = f"quick-start-{os.getpid()}"
        with tempfile.TemporaryDirectory() as directory:
            script = script.replace("/tmp/first.yaml", f"{directory}/first.yaml").replace("$PWD/build/bin", str(BIN))
            if SANITIZED:  # each call takes far longer there
                self.assertIn("--warmup 400", script)
                script = script.replace("--warmup 400", "--warmup 50")
            prelude = f'mccs-lab() {{ command mccs-lab "$1" --name {name} "${{@:2}}"; }}\n'
            run = call("bash", "-ec", prelude + script)
        if run.returncode != 0:
            call(program("mccs-lab"), "down", "--name", name)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("tenant/team-a would be created", run.stdout)
        self.assertIn("tenant/team-a created", run.stdout)
        # The second column, in place: the first one may begin before the limit arrives.
        before, after = (float(each) for each in re.findall(
            r"\[0\] +4194304 .*?sum +-1 +[\d.]+ +[\d.]+ +[\d.]+ +0 +([\d.]+) ", run.stdout))
        self.assertGreater(after, 15_000, f"µs of an all-reduce of 4 MiB at 2 Gbit/s; before: {before}")


if __name__ == "__main__":
    cases.main()
