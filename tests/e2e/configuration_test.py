#!/usr/bin/env python3
"""Invalid configuration: errors have line, column and the invalid value; exit status 2."""
import pathlib
import tempfile
import unittest

from lab_world import call, cases, program

DAEMONS = ("mccsd", "mccs-controller")


class BadConfiguration(unittest.TestCase):
    def rejected(self, daemon, text):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "config.yaml"
            path.write_text(f"state_dir: {directory}\n{text}")
            result = call(program(daemon), "--config", path, timeout=20)
        self.assertEqual(result.returncode, 2, f"{daemon}: {result.stdout}{result.stderr}")
        return result.stderr

    def test_an_unknown_key_is_reported_with_its_position(self):
        for daemon in DAEMONS:
            self.assertRegex(self.rejected(daemon, "listne: 127.0.0.1:0\n"), r"config\.yaml:2:1\b.*listne")

    def test_a_wrong_type_is_reported_with_its_position(self):
        for daemon in DAEMONS:
            self.assertRegex(self.rejected(daemon, "listen: [1, 2]\n"), r"config\.yaml:2:9\b.*listen")

    def test_invalid_yaml_is_reported_with_its_position(self):
        for daemon in DAEMONS:
            self.assertRegex(self.rejected(daemon, "listen: 'open\n"), r"config\.yaml:\d+:\d+")

    def test_a_file_that_is_not_there_is_named(self):
        for daemon in DAEMONS:
            result = call(program(daemon), "--config", "/no/such.yaml", timeout=20)
            self.assertEqual(result.returncode, 2)
            self.assertIn("/no/such.yaml", result.stderr)


class PrintTopology(unittest.TestCase):
    def test_the_hosts_part_is_printed_and_nothing_is_started(self):
        with tempfile.TemporaryDirectory() as directory:
            config = pathlib.Path(directory) / "config.yaml"
            config.write_text(f"host: node-17\nstate_dir: {directory}/state\ngpus: 4\nposition: {{rack: r3}}\n")
            result = call(program("mccsd"), "--config", config, "--print-topology", timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn('\n  - name: "node-17"\n    rack: "r3"\n', result.stdout)
            self.assertRegex(result.stdout, r"\n    gpus: \d+\n")
            self.assertFalse((pathlib.Path(directory) / "state").exists())


if __name__ == "__main__":
    cases.main()
