"""The peer Gloo: torch.distributed, timed like collective_perf. Rank 0 prints microseconds per call of the slowest
rank, one line per size. Started with torchrun's variables, without MCCS's preloaded libraries."""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist


def timed(call, iterations, warmup):
    """Microseconds per call of the slowest rank."""
    for _ in range(warmup):
        call()
    dist.barrier()
    begun = time.monotonic()
    for _ in range(iterations):
        call()
    mine = torch.tensor([(time.monotonic() - begun) / iterations * 1e6], dtype=torch.float64)
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    return mine.item()


def call_of(op, size):
    if op == "all_reduce":
        tensor = torch.zeros(size // 4)
        return lambda: dist.all_reduce(tensor)
    part = torch.ones(size // 4 // dist.get_world_size())
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    return lambda: dist.all_gather(parts, part)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("iterations", type=int)
    parser.add_argument("bytes", type=int, nargs="+")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--op", choices=["all_reduce", "all_gather"], default="all_reduce")
    parser.add_argument("--interface", default="lo",
                        help="network interface, in which {} is the local rank (default: lo)")
    options = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface.format(os.environ["LOCAL_RANK"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for size in options.bytes:
        microseconds = timed(call_of(options.op, size), options.iterations, options.warmup)
        if dist.get_rank() == 0:
            print(f"{microseconds:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
