#!/usr/bin/env python3
"""cuda_probe's options: the results as JSON, the total time limit, the order of checks."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import cases  # noqa: E402

PROBE = sys.argv.pop(1)


def run(*arguments):
    return subprocess.run([PROBE, *arguments], capture_output=True, text=True, check=False)


class ProbeOptions(unittest.TestCase):
    def test_results_are_written_as_json(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "results.json")
            ended = run("--only", "geq_wraps", "--only", "facts_of_device", "--json", str(path))
            results = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([check["name"] for check in results["checks"]], ["geq_wraps", "facts_of_device"])
        self.assertEqual({check["outcome"] for check in results["checks"]}, {"PASS"})
        self.assertIn("compute capability", results["checks"][1]["text"])
        self.assertTrue(all(check["seconds"] > 0 and check["assumption"] for check in results["checks"]))
        self.assertEqual([results[key] for key in ("passed", "failed", "skipped", "remaining")], [2, 0, 0, 0])

    def test_a_file_that_cannot_be_written_is_an_error(self):
        ended = run("--only", "geq_wraps", "--json", "/nonexistent/results.json")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("cannot write /nonexistent/results.json", ended.stderr)

    def test_checks_beyond_the_limit_are_skipped(self):
        # It waits for two seconds in calls that wait for a kernel.
        ended = run("--limit", "1", "--only", "release_beside_kernel", "--only", "geq_wraps")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertEqual(ended.stdout.splitlines(), [
            "SKIP release_beside_kernel: stopped without an outcome: the limit of 1 s was reached",
            "SKIP geq_wraps: not run: the limit of 1 s was reached",
            "0 passed, 0 failed, 2 skipped"])

    def test_progress_goes_to_standard_error(self):
        ended = run("--only", "geq_wraps", "--only", "geq_wraps_32")
        self.assertEqual(ended.stderr.splitlines(), ["[1/2] geq_wraps", "[2/2] geq_wraps_32"])

    def test_important_checks_come_first(self):
        names = [line.split()[0] for line in run("--list").stdout.splitlines()]
        self.assertLess(names.index("kernels_of_many_streams_meet"), names.index("cost_of_launch"))
        self.assertLess(names.index("cost_of_launch"), names.index("address_range"))
        self.assertEqual(len(names), len(set(names)))

    def test_invalid_arguments_are_usage_errors(self):
        for arguments in (["--limit", "0"], ["--limit"], ["--only", "unknown"], ["--json"]):
            self.assertEqual(run(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    cases.main()
