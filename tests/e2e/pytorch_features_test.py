#!/usr/bin/env python3
"""Features of PyTorch's NCCL process group besides training, on two hosts: abort, timeouts, split and shrink,
scalable init, NaN check, flight recorder, registration, memory pools, symmetric memory, non-blocking communicators."""
import pathlib
import pickle
import signal
import tempfile

from lab_world import ROOT, cases
from pytorch_world import LabTestCase

PROGRAM = ROOT / "tests/e2e/pytorch_features.py"
RANKS = 4


class Features(LabTestCase):
    gpus = 2

    def start(self, *scenes, ranks=RANKS, **variables):
        return self.run_on_lab("python", PROGRAM, *scenes, options=("--ranks-per-host", ranks // 2), **variables)

    def assert_right(self, *scenes, **variables):
        result = self.start(*scenes, **variables)
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode, 0, output + self.lab.logs())
        for scene in scenes:
            self.assertEqual(result.stdout.count(f"{scene}: right"), RANKS, output)

    def test_groups_split_scale_abort_and_record(self):
        self.assert_right("split", "scalable", "priority", "recorder", "abort", TORCH_FR_BUFFER_SIZE="100",
                          TORCH_NCCL_ASYNC_ERROR_HANDLING="0")

    def test_groups_of_non_blocking_communicators_shrink(self):
        self.assert_right("nonblocking", "shrink", TORCH_NCCL_USE_COMM_NONBLOCKING="1")

    def test_the_allocators_segments_are_registered(self):
        self.assert_right("registered", TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK="1")

    def test_a_pool_takes_its_memory_from_the_process_groups_allocator(self):
        self.assert_right("pool")

    def test_ranks_of_a_host_map_each_others_memory(self):
        self.assert_right("symmetric")

    def test_a_time_out_names_the_collective(self):
        self.assert_right("timeout", TORCH_NCCL_BLOCKING_WAIT="1", TORCH_NCCL_DUMP_ON_TIMEOUT="0")

    def test_a_nan_is_rejected(self):
        self.assert_right("nan", TORCH_NCCL_NAN_CHECK="1")

    def test_the_watchdog_records_a_rank_that_waits_for_a_departed_one(self):
        with tempfile.TemporaryDirectory() as directory:
            result = self.start("leave", ranks=2, TORCH_FR_BUFFER_SIZE="100", TORCH_NCCL_DUMP_ON_TIMEOUT="1",
                                TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="1", TORCH_NCCL_COORD_CHECK_MILSEC="500",
                                TORCH_NCCL_DEBUG_INFO_TEMP_FILE=f"{directory}/record_")
            output = result.stdout + result.stderr
            self.assertEqual(result.returncode, 128 + signal.SIGABRT, output)
            record = pickle.loads((pathlib.Path(directory) / "record_0").read_bytes())
        self.assertEqual([entry["state"] for entry in record["entries"]], ["completed", "scheduled"])

    def test_no_rank_reads_a_sum_without_the_dead_rank(self):
        # The watchdog waits four times this long for the dumps of all ranks; the default is 15 s.
        result = self.start("dead", ranks=2, TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="250")
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode, 128 + signal.SIGABRT, output + self.lab.logs())
        self.assertNotIn("read ", result.stdout)
        self.assertRegex(output, r"(?s)NCCL error.*Last error:\s*(\[[^\n]*\] )?rank 0 of 2 .*rank 1 left", output)


if __name__ == "__main__":
    cases.main()
