#!/usr/bin/env python3
"""scripts/gpu-check on the build tree, on an emulated GPU: every part runs to its end, and no process is left."""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from lab_world import BIN, ROOT, cases, environment, eventually, require_built

sys.path.insert(0, str(ROOT / "tests"))
import torch_world  # noqa: E402

GPU_CHECK = ROOT / "scripts/gpu-check"
LIMIT_S = 300  # it takes less than a minute on an idle machine
PROGRAMS = ("call_latency", "collective_perf", "communicator_init", "conformance", "cuda_probe", "dead_peer",
            "graph_replays", "mccs-controller", "mccsctl", "mccsd", "tests/steady_job")


def processes_with(directory):
    """Names of the processes whose variables contain the path of the directory."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(directory).encode() in path.read_bytes():
                found.append(path.with_name("comm").read_text().strip())
        except OSError:
            continue
    return found


class GpuCheck(unittest.TestCase):
    def setUp(self):
        require_built(*PROGRAMS)
        directory = tempfile.TemporaryDirectory(prefix="mccs-gpu-check-test-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        # All its processes inherit this path.
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()

    def command(self, *arguments):
        return [GPU_CHECK, "--emulated", BIN.parent, "--out", self.directory / "out", *arguments]

    def environment(self):
        return environment(TMPDIR=str(self.temporary))

    def results(self):
        written = json.loads((self.directory / "out/gpu-check.json").read_text())
        return {part["part"]: part for part in written["parts"]}

    def assert_no_process_is_left(self):
        # A process that was killed ends soon, not at once.
        self.assertTrue(eventually(lambda: not processes_with(self.temporary), 10), processes_with(self.temporary))

    def test_every_part_runs_to_its_end(self):
        python = [] if torch_world.skip_reason() else ["--python", torch_world.python()]
        ended = subprocess.run(self.command("--limit", str(LIMIT_S), *python), capture_output=True, text=True,
                               env=self.environment(), timeout=LIMIT_S + 60)
        print(ended.stdout[ended.stdout.find("\nPART"):])
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        results = self.results()
        self.assertEqual({name for name, part in results.items() if part["result"] == "failed"}, set())
        # The emulation has no machine code.
        allowed = {"sanitizers"} if python else {"sanitizers", "pytorch"}
        self.assertEqual({name for name, part in results.items() if part["result"] == "skipped"}, allowed)
        self.assert_no_process_is_left()
        self.assertEqual(list(self.temporary.iterdir()), [])

    def check_in_conformance(self):
        """A gpu-check whose conformance suite has begun."""
        check = subprocess.Popen(self.command("--only", "service", "conformance"), stdout=subprocess.PIPE, text=True,
                                 env=self.environment())
        for line in check.stdout:
            if line.startswith("gpu-check: conformance:"):
                break
        return check

    def test_an_interrupt_ends_all_programs_and_prints_the_table(self):
        with self.check_in_conformance() as check:
            check.send_signal(signal.SIGINT)
            shown = check.stdout.read()
        self.assertEqual(check.returncode, 130)
        self.assertIn("PART", shown)
        self.assertEqual(self.results()["service"]["result"], "passed")
        self.assert_no_process_is_left()

    def test_no_process_is_left_if_it_is_killed(self):
        with self.check_in_conformance() as check:
            self.assertNotEqual(processes_with(self.temporary), [])
            check.kill()
        self.assert_no_process_is_left()


if __name__ == "__main__":
    cases.main()
