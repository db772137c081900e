#!/usr/bin/env python3
"""Ordinary NCCL programs compute correct results on two hosts with two GPUs each."""
import json
import unittest

from lab_world import Lab, cases, eventually, program


class Collectives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=2)
        cls.addClassCleanup(cls.lab.down)

    def assert_right(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())

    def perf(self, *arguments, options=()):
        result = self.lab.run(program("collective_perf"), *arguments, options=options)
        self.assert_right(result)
        self.assertIn("# Out of bounds values : 0 OK", result.stdout)
        return result.stdout

    def test_two_ranks_in_one_process(self):
        result = self.lab.exec("h0", program("one_process_all_gpus"))
        self.assert_right(result)
        self.assertIn("2 GPUs in one process: 1048576 elements each, 0 wrong", result.stdout)

    def test_two_processes_on_one_host(self):
        result = self.lab.run(program("one_rank_per_process"), options=("--ranks", 2))
        self.assert_right(result)
        self.assertEqual(result.stdout.count("of 2: 1048576 elements, each 3, 0 wrong"), 2)

    def test_one_process_on_each_of_two_hosts(self):
        result = self.lab.run(program("one_rank_per_process"), options=("--ranks-per-host", 1))
        self.assert_right(result)
        self.assertEqual(result.stdout.count("of 2: 1048576 elements, each 3, 0 wrong"), 2)

    def test_two_hosts_with_two_processes_each(self):
        result = self.lab.run(program("one_rank_per_process"))
        self.assert_right(result)
        self.assertEqual(result.stdout.count("of 4: 1048576 elements, each 10, 0 wrong"), 4)

    def test_two_hosts_with_two_ranks_in_one_process_each(self):
        self.perf("--gpus-per-process", 2, "--op", "all", "--min", "1K", "--max", "1M", "--factor", 32,
                  "--iters", 2, options=("--ranks-per-host", 1))

    def test_every_collective_type_and_operator_on_one_host(self):
        self.perf("--op", "all", "--type", "all", "--redop", "all", "--min", "1000", "--max", "64000",
                  "--factor", 64, "--iters", 1, "--warmup", 0, options=("--ranks", 2))

    def test_every_collective_type_and_operator_on_two_hosts(self):
        self.perf("--op", "all", "--type", "all", "--redop", "all", "--min", "1000", "--max", "64000",
                  "--factor", 64, "--iters", 1, "--warmup", 0)

    def test_three_ranks_over_two_hosts(self):
        self.perf("--op", "all", "--type", "all", "--redop", "all", "--min", "64000", "--max", "64000",
                  "--iters", 1, "--warmup", 0, options=("--ranks", 3))

    def test_every_root(self):
        for root in range(4):
            self.perf("--op", "broadcast", "--root", root, "--min", "1M", "--max", "1M", "--iters", 2)

    def test_gather_and_scatter_with_every_root(self):
        for root in range(4):
            for op in ("gather", "scatter"):
                self.perf("--op", op, "--root", root, "--min", "1M", "--max", "1M", "--iters", 2)

    def test_sizes_from_nothing_to_32_megabytes(self):
        table = self.perf("--op", "all_reduce", "--type", "bfloat16", "--redop", "avg", "--min", 1,
                          "--max", 33554432, "--iters", 1)
        self.assertIn("33554432      16777216  bfloat16     avg", table)

    def controller(self, *words):
        result = self.lab.exec("h0", program("mccsctl"), *words, "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def of_four_ranks(self):
        """The description of the last communicator of four ranks; None: the controller knows none."""
        listed = self.controller("get", "communicators").get("communicators", ())
        ids = [entry["id"] for entry in listed if entry["ranks"] == 4]
        return self.controller("describe", "communicator", ids[-1]) if ids else None

    def test_the_controller_knows_ring_and_lanes_of_a_running_job(self):
        with self.lab.start(program("tests/steady_job"), "--seconds", 120) as job:
            self.assertTrue(job.has_printed("running", times=4), job.output)
            hosts = self.controller("get", "hosts")["hosts"]
            self.assertEqual(sorted(each["host"]["name"] for each in hosts), ["h0", "h1"])
            # The daemons report the lanes from time to time.
            both = {("h0", "h1"), ("h1", "h0")}
            self.assertTrue(eventually(lambda: self.lanes_of_four_ranks() == both, timeout=30), self.of_four_ranks())
            self.assertEqual(sorted(self.of_four_ranks()["rings"][0]["hosts"]), ["h0", "h1"])

    def lanes_of_four_ranks(self):
        return {(lane["from"], lane["to"]) for lane in (self.of_four_ranks() or {}).get("lanes", ())}


if __name__ == "__main__":
    cases.main()
