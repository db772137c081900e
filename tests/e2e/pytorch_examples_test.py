#!/usr/bin/env python3
"""examples/pytorch on two hosts: results over MCCS equal those over Gloo and in a single process."""
from lab_world import ROOT, cases
from pytorch_world import LabTestCase, require_package

EXAMPLES = ROOT / "examples/pytorch"


class ExampleCase(LabTestCase):
    def run_example(self, name, *arguments, options=("--ranks-per-host", 1), **variables):
        result = self.run_on_lab("python", EXAMPLES / name, *arguments, options=options, **variables)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())
        return result.stdout

    def assert_learns_the_same(self, name, *arguments, **options):
        self.assertIn("losses agree", self.run_example(name, "--steps", 3, *arguments, **options))


class OnEightRanks(ExampleCase):
    """Programs with their default options on more ranks than most tests have."""
    gpus = 4

    def test_tensor_parallel(self):
        self.assert_learns_the_same("tensor_parallel.py", options=())

    def test_layers_on_different_ranks(self):
        self.assert_learns_the_same("pipeline.py", options=())


class Examples(ExampleCase):
    gpus = 2

    def test_data_parallel(self):
        self.assert_learns_the_same("ddp.py")

    def test_data_parallel_with_two_ranks_on_each_host(self):
        self.assert_learns_the_same("ddp.py", options=())

    def test_data_parallel_in_expandable_segments(self):
        self.assert_learns_the_same("ddp.py", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_data_parallel_in_memory_of_a_cuda_pool(self):
        self.assert_learns_the_same("ddp.py", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

    def test_fully_sharded(self):
        self.assert_learns_the_same("fsdp.py")

    def test_tensor_parallel(self):
        self.assert_learns_the_same("tensor_parallel.py")

    def test_tensor_parallel_with_one_hardware_queue(self):
        self.assert_learns_the_same("tensor_parallel.py", CUDA_DEVICE_MAX_CONNECTIONS="1")

    def test_experts_on_different_ranks(self):
        self.assert_learns_the_same("moe.py")

    def test_layers_on_different_ranks(self):
        self.assert_learns_the_same("pipeline.py")

    def test_the_benchmark_finds_every_result_right(self):
        table = self.run_example("bench.py", "--max", "1M", "--calls", 3)
        self.assertEqual(table.count("  right"), 6 * 3, table)
        self.assertNotIn("WRONG", table)

    def test_accelerate(self):
        require_package("accelerate")
        self.assert_learns_the_same("hf_accelerate.py")

    def test_accelerate_with_two_ranks_on_each_host(self):
        require_package("accelerate")
        self.assert_learns_the_same("hf_accelerate.py", options=())

    def test_accelerate_starts_them_on_one_host(self):
        require_package("accelerate")
        result = self.exec_on_lab("h1", "accelerate", "launch", "--multi_gpu", "--num_processes", 2,
                                  EXAMPLES / "hf_accelerate.py", "--steps", 2)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("losses agree", result.stdout)

    def test_torchrun_starts_them_on_one_host(self):
        result = self.exec_on_lab("h0", "torchrun", "--standalone", "--nproc-per-node", 2, EXAMPLES / "ddp.py",
                                  "--steps", 2)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("losses agree", result.stdout)

    def test_torchruns_of_all_hosts_meet_by_rendezvous(self):
        command = ('exec torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id job '
                   f'--rdzv-endpoint "h0:$MASTER_PORT" {EXAMPLES}/ddp.py --steps 2')
        result = self.run_on_lab("sh", "-c", command, options=("--ranks-per-host", 1))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("losses agree", result.stdout)

    def test_torchrun_starts_them_too(self):
        command = ('exec torchrun --nnodes 2 --nproc-per-node 1 --node-rank "$RANK" --master-addr "$MASTER_ADDR" '
                   f'--master-port "$MASTER_PORT" {EXAMPLES}/ddp.py --steps 2')
        result = self.run_on_lab("sh", "-c", command, options=("--ranks-per-host", 1))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("losses agree", result.stdout)

    def test_a_nan_in_an_input_ends_the_process_where_the_check_is_on(self):
        script = ("import torch, torch.distributed as dist; dist.init_process_group('nccl'); "
                  "x = torch.ones(1000, device='cuda'); dist.all_reduce(x); x[17] = float('nan'); "
                  "dist.all_reduce(x); torch.cuda.synchronize(); print('unnoticed')")
        for check in (1, 0):
            result = self.run_on_lab("python", "-c", script, options=("--ranks", 1), TORCH_NCCL_NAN_CHECK=str(check))
            if check:
                self.assertNotEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertNotIn("unnoticed", result.stdout)
                self.assertIn("checkForNaN found a NaN", result.stderr)
            else:
                self.assertIn("unnoticed", result.stdout, result.stderr)


if __name__ == "__main__":
    cases.main()
