#!/usr/bin/env python3
"""PyTorch's own distributed tests, backend nccl, with 2 and with 4 ranks on two hosts.

Runs a quarter of them, another one where kernels run the collectives (MCCS_GPU=emulated), or all with
MCCS_TEST_PYTORCH=all (scripts/test --pytorch-all).
They run first, in one process (pytorch_suite.py); then this program reports each of them as a test case.
"""
import json
import os
import shlex
import subprocess
import tempfile
import unittest

from lab_world import ON_KERNELS, ROOT, Lab, cases, environment, program
from pytorch_world import require_pytorch
import torch_world

SUITE = ROOT / "tests/e2e/pytorch_suite.py"
ALL = os.environ.get("MCCS_TEST_PYTORCH") == "all"
EVERY = 1 if ALL else 4
OFFSET = 2 if ON_KERNELS and not ALL else 0
# Timeout of one test of the suite, and of the whole suite.
TEST_TIMEOUT_S = 300
RUN_TIMEOUT_S = 4 * 3600

# Tests that are not run, by the number of ranks, with the reason that each run prints.
NEVER = {
    "test_ddp_uneven_inputs":
        "150 passes of convolutions, 1.2 TFLOP each, executed on the host: more than half an hour",
    "test_post_localSGD_optimizer_step_reload":
        "rank 0 removes the checkpoint file after reading it, without a barrier: on a busy machine it is missing when "
        "other ranks open it",
}
NOT_RUN = {
    2: NEVER,
    4: NEVER | {
        "test_ddp_profiling_execution_trace":
            "the test expects pg_size 2 in the trace for groups of any size",
        "test_ddp_model_diff_shape_across_ranks":
            "rank 0 broadcasts without receivers and destroys the communicator: in NCCL the root of a small broadcast "
            "completes alone; here a host starts when all its ranks have called; passes with one rank per host",
    },
}


def host_variables(lab, host):
    """The output of mccs-lab env as a dictionary."""
    lines = lab.command("env", host).stdout.splitlines()
    return dict(shlex.split(line)[1].split("=", 1) for line in lines)


def run_suite(ranks):
    """The rows of the results file."""
    with Lab(hosts=2, gpus=4, name="pytorch-suite") as lab, tempfile.NamedTemporaryFile() as results:
        hosts = [host_variables(lab, host) for host in ("h0", "h1")]
        env = environment(WORLD_SIZE=str(ranks), MCCS_TEST_HOSTS=json.dumps(hosts), OMP_NUM_THREADS="1",
                          DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(TEST_TIMEOUT_S))
        # Result lines go to stdout, the ranks' stderr goes to a file.
        log = ROOT / f"build/pytorch-suite-{ranks}{'-on-kernels' if ON_KERNELS else ''}.log"
        print(f"# PyTorch's distributed tests, {ranks} ranks on two hosts, one of {EVERY}; details in {log}",
              flush=True)
        with log.open("w") as errors:
            subprocess.run([program("mccs-lab"), "exec", "--name", lab.name, "h0", "--", str(torch_world.python()),
                            str(SUITE), "--every", str(EVERY), "--offset", str(OFFSET),
                            "--results", results.name, "--without", *NOT_RUN[ranks]],
                           env=env, stderr=errors, stdin=subprocess.DEVNULL, timeout=RUN_TIMEOUT_S, check=True)
        rows = json.load(results)
        failed = [row for row in rows if row["outcome"] == "failed"]
        for row in failed:
            begin, end = row["log"]
            print(f"# {row['test']} failed: {row['reason']}\n{log.read_bytes()[begin:end].decode(errors='replace')}")
        if failed:
            print(f"# the daemons' logs:\n{lab.logs()}")
        return rows + [{"test": test, "outcome": "skipped", "reason": reason}
                                     for test, reason in NOT_RUN[ranks].items()]


def case_of(row):
    def case(self):
        if row["outcome"] == "skipped":
            raise unittest.SkipTest(row["reason"])
        if row["outcome"] == "failed":
            self.fail(row["reason"])
    return case


def summary(ranks, rows):
    print(f"# {ranks} ranks: " + ", ".join(
        f"{sum(row['outcome'] == outcome for row in rows)} {outcome}" for outcome in ("passed", "failed", "skipped")))
    reasons = {}
    for row in rows:
        if row["outcome"] == "skipped":
            reasons.setdefault(row["reason"], []).append(row["test"])
    for reason, tests in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        by = "not run" if tests[0] in NOT_RUN[ranks] else "skipped by the suite"
        print(f"#   {len(tests):4} {by}: {reason}")


def load_cases():
    for ranks in NOT_RUN:
        rows = run_suite(ranks)
        summary(ranks, rows)
        globals()[f"Ranks{ranks}"] = type(f"Ranks{ranks}", (unittest.TestCase,),
                                          {row["test"]: case_of(row) for row in rows})


class Environment(unittest.TestCase):
    def test_pytorch_is_there(self):
        require_pytorch()


if __name__ == "__main__":
    if torch_world.skip_reason() is None:
        load_cases()
    cases.main()
