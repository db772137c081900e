"""The peer Gloo: torch.distributed, timed like collective_perf. Rank 0 prints microseconds per call of the slowest
rank. Started by mccs-lab run, without its preloaded libraries."""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bytes", type=int)
    parser.add_argument("iterations", type=int)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--op", choices=["all_reduce", "all_gather"], default="all_reduce")
    options = parser.parse_args()
    # Each rank of a host over its own NIC, as in MCCS.
    os.environ["GLOO_SOCKET_IFNAME"] = f"nic{os.environ['LOCAL_RANK']}"
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if options.op == "all_reduce":
        tensor = torch.zeros(options.bytes // 4)
        call = lambda: dist.all_reduce(tensor)  # noqa: E731
    else:
        part = torch.ones(options.bytes // 4 // ranks)
        parts = [torch.empty_like(part) for _ in range(ranks)]
        call = lambda: dist.all_gather(parts, part)  # noqa: E731
    for _ in range(options.warmup):
        call()
    dist.barrier()
    begun = time.monotonic()
    for _ in range(options.iterations):
        call()
    mine = torch.tensor([(time.monotonic() - begun) / options.iterations * 1e6], dtype=torch.float64)
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{mine.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
