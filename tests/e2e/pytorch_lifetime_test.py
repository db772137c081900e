#!/usr/bin/env python3
"""The daemon does not hold memory that PyTorch's allocator returns to the GPU."""
from lab_world import LIB, cases
from pytorch_world import LabTestCase

# GPU memory for one tensor and PyTorch's pool for small ones, but not for two tensors.
TENSOR_MIB = 24
ROOM = "44M"
STEPS = 60

# Each step allocates a tensor of another size, which no cached block can serve, and frees it.
LOOP = f"""
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
ranks = dist.get_world_size()
for step in range({STEPS}):
    tensor = torch.full(({TENSOR_MIB} * 2**18 + step * 2**10,), float(dist.get_rank() + 1), device="cuda")
    dist.all_reduce(tensor)
    sums = float(tensor.min()), float(tensor.max())
    assert sums == (ranks * (ranks + 1) / 2,) * 2, f"step {{step}}: sums from {{sums[0]}} to {{sums[1]}}"
    del tensor
    torch.cuda.empty_cache()
dist.destroy_process_group()
print("never out of memory")
"""


class Lifetime(LabTestCase):
    gpus = 1

    def assert_enough(self, *before, room=ROOM, **changes):
        result = self.run_on_lab(*before, "python", "-c", LOOP, MCCS_EMULATED_MEMORY=room, **changes)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.lab.logs())
        self.assertEqual(result.stdout.count("never out of memory"), 2)

    def without_free_hooks(self):
        names = "emulation/libcudart.so.13", "emulation/libcuda.so.1", "libnccl.so.2"
        return "env", "LD_PRELOAD=" + ":".join(f"{LIB}/{name}" for name in names)

    def test_emptying_the_cache_under_a_tight_limit(self):
        self.assert_enough(MCCS_EXPORT_LEASE="0")

    def test_the_allocators_hook_releases_memory_without_free_hooks(self):
        self.assert_enough(*self.without_free_hooks(), MCCS_EXPORT_LEASE="0",
                           TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK="1")

    # Segments in one range of virtual memory; emptying the cache unmaps them.
    def test_segments_that_grow_and_are_emptied(self):
        self.assert_enough(MCCS_EXPORT_LEASE="0", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
                           TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC="1")

    # By default PyTorch creates segments that other processes cannot map: they are staged, which takes one block more.
    def test_segments_that_cannot_be_shared_are_staged(self):
        self.assert_enough(room="100M", MCCS_EXPORT_LEASE="0", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


if __name__ == "__main__":
    cases.main()
