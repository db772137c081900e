#!/usr/bin/env python3
"""Random arguments for every function of NCCL, while a well-behaved tenant uses the same daemon."""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from lab_world import Lab, cases, environment, program  # noqa: E402

# Has no parameters; prints the library's parameters.
NO_ARGUMENTS = {"ParamDumpAll"}
TIMEOUT_S = 24 * 3600


class NcclCalls(unittest.TestCase):
    def test_all_functions_are_called(self):
        names = (ROOT / "shim/entry_points.txt").read_text().split("\n")
        exported = {name for name in names if name and not name.startswith("#")}
        listed = subprocess.run([program("tests/nccl_calls"), "--list"], capture_output=True, text=True,
                                env=environment(LD_LIBRARY_PATH=library_path()), check=True).stdout.split()
        self.assertEqual(exported - NO_ARGUMENTS, set(listed))

    def test_any_arguments_return_and_affect_no_other_communicator(self):
        neighbour = program("tests/steady_job")
        with Lab(hosts=1, gpus=2, name="fuzz") as lab:
            before = lab.daemons()["h0"]
            with lab.start(neighbour, "--seconds", TIMEOUT_S) as steady:
                self.assertTrue(steady.has_printed("running", times=2), steady.output)
                # Not captured: its output is the progress that the user sees.
                calls = subprocess.run(
                    [program("mccs-lab"), "exec", "--name", lab.name, "h0", "--",
                     program("tests/nccl_calls")],
                    env=environment(), stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
                self.assertEqual(calls.returncode, 0, lab.logs())
                self.assertEqual(steady.output.count("\n"), 2, steady.output)
            self.assertEqual(lab.daemons()["h0"]["pid"], before["pid"], lab.logs())


def library_path():
    library = pathlib.Path(program("tests/nccl_calls")).parents[2] / "lib"
    return os.pathsep.join([str(library), str(library / "emulation")])


if __name__ == "__main__":
    cases.main()
