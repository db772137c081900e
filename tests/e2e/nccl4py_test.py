#!/usr/bin/env python3
"""NCCL's Python bindings on two hosts, in PyTorch's environment: examples/nccl4py, and the parts of cuda.core that
NVIDIA's examples use."""
from lab_world import ROOT, cases
from pytorch_world import LabTestCase, require_package

EXAMPLE = ROOT / "examples/nccl4py/all_reduce.py"

# As NCCL's first Python example: list the GPUs by NVML, then create one communicator for each.
ALL_GPUS = """
import nccl.core as nccl
from cuda.core import Device, system
for index in range(system.get_num_devices()):
    device = Device(index)
    device.set_current()
    of_system = device.to_system_device()
    assert of_system.index == index and of_system.to_cuda_device() == device
    assert of_system.memory_info.total == 1 << 30, of_system.memory_info.total
comms = nccl.Communicator.init_all()
print("ranks", [(comm.rank, comm.nranks, comm.device.device_id) for comm in comms])
for comm in comms:
    comm.finalize()
    comm.destroy()
"""

# Data and streams passed as PyTorch tensors and streams.
TENSORS = """
import os, torch, nccl.core as nccl
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
store = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), ranks, rank == 0)
if rank == 0:
    store.set("id", bytes(nccl.get_unique_id()))
comm = nccl.Communicator.init(ranks, rank, nccl.UniqueId.from_bytes(store.get("id")))
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    mine, theirs = torch.full((1000,), float(rank), device="cuda"), torch.empty(1000, device="cuda")
    with nccl.group():
        comm.send(mine, (rank + 1) % ranks, stream=stream)
        comm.recv(theirs, (rank - 1) % ranks, stream=stream)
    whole = nccl.torch.empty(ranks, 1000, device="cuda")
    comm.allgather(mine, whole, stream=stream)
stream.synchronize()
assert theirs.eq((rank - 1) % ranks).all(), theirs[:4]
assert whole.eq(torch.arange(ranks, device="cuda").unsqueeze(1)).all(), whole[:, :4]
comm.destroy()
print("right")
store.add("gone", 1)
while rank == 0 and store.add("gone", 0) < ranks:
    pass
"""


class Nccl4Py(LabTestCase):
    gpus = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        require_package("nccl")

    def assert_runs(self, *command, options=(), **variables):
        result = self.run_on_lab("python", *command, options=options, **variables)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())
        return result.stdout

    def test_the_example_reduces_over_all_gpus(self):
        self.assertEqual(self.assert_runs(EXAMPLE).count("each 10, 0 wrong"), 4)

    def test_the_example_reduces_with_one_rank_on_each_host(self):
        output = self.assert_runs(EXAMPLE, "--count", 12345, options=("--ranks-per-host", 1))
        self.assertEqual(output.count("12345 elements, each 3, 0 wrong"), 2)

    def test_one_process_has_a_communicator_for_each_gpu_that_nvml_counts(self):
        output = self.assert_runs("-c", ALL_GPUS, options=("--ranks", 1), MCCS_EMULATED_MEMORY="1G")
        self.assertIn("ranks [(0, 2, 0), (1, 2, 1)]", output)

    def test_tensors_of_pytorch_on_a_stream_of_pytorch(self):
        self.assertEqual(self.assert_runs("-c", TENSORS).count("right"), 4)


if __name__ == "__main__":
    cases.main()
