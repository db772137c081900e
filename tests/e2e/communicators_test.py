#!/usr/bin/env python3
"""Derived communicators in an ordinary NCCL program, on two hosts with four GPUs each."""
import statistics
import unittest

from lab_world import Lab, SANITIZED, cases, program

# The budget is for eight ranks on two dedicated hosts; a test machine has two processors in total.
INIT_BUDGET_MS = 5.0


class Communicators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2, gpus=4, name="communicators")
        cls.addClassCleanup(cls.lab.down)

    def tour(self, *arguments):
        result = self.lab.run(program("tests/communicator_tour"), *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())
        self.assertEqual(result.stdout.count("toured "), 8)
        times = {}
        for line in result.stdout.splitlines():
            _, _, text = line.partition("made ")
            if text:
                what, milliseconds, _ = text.split()
                times.setdefault(what, []).append(float(milliseconds))
        return times

    def test_splits_shrinks_and_scalable_init_give_right_sums(self):
        times = self.tour()
        for what, milliseconds in sorted(times.items()):
            print(f"{what}: median {statistics.median(milliseconds):.2f} ms, slowest {max(milliseconds):.2f} ms "
                  f"(budget of an init on idle processors: {INIT_BUDGET_MS:.0f} ms)")

    def test_hundreds_of_communicators_per_process(self):
        count = 50 if SANITIZED else 200
        times = self.tour(count)
        print(f"{count} splits: {max(times['crowd']) / count:.2f} ms each")


if __name__ == "__main__":
    cases.main()
