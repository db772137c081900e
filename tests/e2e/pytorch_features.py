#!/usr/bin/env python3
"""Features of PyTorch's NCCL process group besides training: one rank, started by mccs-lab run.

Runs the scenes of the command line, each with its own process groups, and prints "NAME: right" if the rank's results
are correct. pytorch_features_test.py sets the environment of each scene.
"""
import os
import pickle
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.distributed.distributed_c10d import SHRINK_ABORT

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
LAST = WORLD - 1


def start(name, store, eager=True, **options):
    """Creates the default group of a scene."""
    dist.init_process_group("nccl", store=dist.PrefixStore(name, store), rank=RANK, world_size=WORLD,
                            device_id=DEVICE if eager else None, **options)
    return dist.group.WORLD


def backend(group):
    return group._get_backend(DEVICE)


def check_sum(group, ranks):
    """Checks an all-reduce over `group`, which consists of these ranks of the world."""
    tensor = torch.full((1000,), float(RANK), device=DEVICE)
    dist.all_reduce(tensor, group=group)
    assert torch.equal(tensor, torch.full_like(tensor, sum(ranks))), tensor[:4]


def new_tensor():
    return torch.ones(1000, device=DEVICE)


def meet(store, place):
    """A barrier of all ranks that uses no communicator."""
    store.add(place, 1)
    while store.add(place, 0) < WORLD:
        time.sleep(0.02)


def abort(store):
    """Aborts a collective that not all ranks call; the program that waits for its result continues."""
    group = start("abort", store)
    check_sum(group, range(WORLD))
    if RANK == 0:
        tensor = new_tensor()
        dist.all_reduce(tensor)
        aborter = threading.Timer(0.5, backend(group).abort)
        aborter.start()
        tensor.cpu()
        aborter.join()
    meet(store, "given up")
    dist.destroy_process_group()


def split(store):
    group = start("split", store)
    halves = [list(range(WORLD // 2)), list(range(WORLD // 2, WORLD))]
    half = dist.split_group(group, halves)
    check_sum(half, halves[RANK * 2 // WORLD])
    ends = dist.new_group([0, LAST])
    if RANK in (0, LAST):
        check_sum(ends, [0, LAST])
    assert backend(group).comm_split_count() == 2
    check_sum(group, range(WORLD))
    dist.destroy_process_group()


def scalable(store):
    """As many unique ids as ranks."""
    os.environ["TORCH_NCCL_RANKS_PER_ROOT"] = "1"
    check_sum(start("scalable", store), range(WORLD))
    del os.environ["TORCH_NCCL_RANKS_PER_ROOT"]
    dist.destroy_process_group()


def priority(store):
    options = dist.ProcessGroupNCCL.Options()
    options.is_high_priority_stream = True
    check_sum(start("priority", store, eager=False, pg_options=options), range(WORLD))
    dist.destroy_process_group()


def registered(store):
    """The allocator registers its segments with the communicator, including later ones."""
    group = start("registered", store)
    for megabytes in (1, 4, 30):
        kept = torch.zeros(megabytes << 18, device=DEVICE)
        check_sum(group, range(WORLD))
        dist.all_reduce(kept)
        del kept
        torch.cuda.empty_cache()
    dist.destroy_process_group()


def recorder(store):
    """The flight recorder distinguishes completed from running operations."""
    group = start("recorder", store)
    check_sum(group, range(WORLD))
    torch.cuda.synchronize()
    if RANK != 0:
        work = dist.all_reduce(new_tensor(), async_op=True)
        states = [entry["state"] for entry in pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())["entries"]]
        assert states[-2:] == ["completed", "scheduled"], states
    meet(store, "recorded")
    if RANK == 0:
        work = dist.all_reduce(new_tensor(), async_op=True)
    work.wait()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def nonblocking(store):
    for eager in (False, True):
        check_sum(start(f"nonblocking {eager}", store, eager=eager), range(WORLD))
        dist.destroy_process_group()


def shrink(store):
    """Shrinks without the last rank, which does not call; then with abort of a collective that it never calls."""
    for flags in (0, SHRINK_ABORT):
        group = start(f"shrink {flags}", store)
        check_sum(group, range(WORLD))
        torch.cuda.synchronize()
        meet(store, f"before shrinking {flags}")
        if RANK != LAST:
            if flags == SHRINK_ABORT:
                dist.all_reduce(new_tensor())
            check_sum(dist.shrink_group([LAST], shrink_flags=flags), range(LAST))
        meet(store, f"shrunk {flags}")
        dist.destroy_process_group()


def pool(store):
    """Tensors in a memory pool of NCCL's allocator, registered as a whole."""
    group = start("pool", store)
    pool = torch.cuda.MemPool(backend(group).mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.full((1000,), float(RANK), device=DEVICE)
    assert any(segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]
               for segment in pool.snapshot()), "the tensor is not in the pool"
    backend(group).register_mem_pool(pool)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full_like(tensor, sum(range(WORLD)))), tensor[:4]
    backend(group).deregister_mem_pool(pool)
    check_sum(group, range(WORLD))
    del tensor, pool
    dist.destroy_process_group()


def symmetric(store):
    """Each rank reads the memory of the host's next rank."""
    start("symmetric", store)
    neighbours, _ = dist.new_subgroups(group_size=int(os.environ["LOCAL_WORLD_SIZE"]))
    tensor = symm_mem.empty(1000, device=DEVICE).fill_(RANK)
    torch.cuda.synchronize()
    handle = symm_mem.rendezvous(tensor, neighbours)
    assert handle.multicast_ptr == 0, "expected no multicast support"
    other = (handle.rank + 1) % handle.world_size
    seen = handle.get_buffer(other, tensor.shape, tensor.dtype)
    assert seen.eq(dist.get_global_rank(neighbours, other)).all(), seen[:4]
    meet(store, "seen")
    dist.destroy_process_group()


def timeout(store):
    group = start("timeout", store, timeout=timedelta(seconds=2))
    if RANK == 0:
        work = dist.all_reduce(new_tensor(), async_op=True)
        try:
            work.wait(timedelta(seconds=2))
        except dist.DistBackendError as error:
            assert "ALLREDUCE" in str(error), error
        else:
            raise AssertionError("no error for a collective that no other rank calls")
    meet(store, "timed out")
    backend(group).abort()
    dist.destroy_process_group()


def nan(store):
    start("nan", store)
    tensor = new_tensor()
    dist.all_reduce(tensor)
    tensor[17] = float("nan")
    try:
        dist.all_reduce(tensor)
    except RuntimeError as error:
        assert "device-side assert" in str(error), error
        return
    raise AssertionError("a NaN was reduced")


def leave(store):
    """The other rank leaves; rank 0 waits until its watchdog dumps the flight recorder and aborts the process."""
    start("leave", store, timeout=timedelta(seconds=2))
    dist.all_reduce(new_tensor())
    if RANK == 0:
        dist.all_reduce(new_tensor())
    torch.cuda.synchronize()
    dist.destroy_process_group()


def dead(store):
    """A rank dies; no other rank reads the result of the incomplete operation."""
    start("dead", store)
    tensor = new_tensor()
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if RANK == LAST:
        os._exit(0)
    dist.all_reduce(tensor)
    print(f"read {tensor.sum().item()}", flush=True)


def main():
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), WORLD, RANK == 0,
                            timeout=timedelta(seconds=300))
    torch.cuda.set_device(DEVICE)
    for scene in sys.argv[1:]:
        globals()[scene](store)
        print(f"{scene}: right", flush=True)
        meet(store, f"end of {scene}")
    # Rank 0 leaves last: its process hosts the store.
    store.add("gone", 1)
    while RANK == 0 and store.add("gone", 0) < WORLD:
        time.sleep(0.02)
    # CUDA is unusable after a failed assertion: exit without cleanup.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
