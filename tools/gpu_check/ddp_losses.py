#!/usr/bin/env python3
"""Trains a small model in one process or, with RANK and WORLD_SIZE, data parallel. Prints the losses as JSON.

whole   one process, the whole batch
same    each rank has the whole batch: the average of equal gradients is exact for two ranks, so the losses are those of
        one process, bit for bit
halves  each rank has its share of the batch
"""
import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 8
BATCH = 64
WIDTH = 256


def train(wrap, share):
    """Losses of each step. `share`: the rows of the batch that this rank trains on."""
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)
    model = wrap(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH), nn.ReLU(),
                               nn.Linear(WIDTH, 1)).to("cuda"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(BATCH, WIDTH, generator=data)
        y = x.square().mean(1, keepdim=True)
        loss = (model(x[share].to("cuda")) - y[share].to("cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def loaded_nccl():
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if "libnccl.so" in line})


def main():
    torch.use_deterministic_algorithms(True)
    torch.cuda.set_device(0)
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if ranks == 1:
        print(json.dumps({"whole": train(lambda model: model, slice(None)).tolist()}))
        return
    dist.init_process_group("nccl")
    rows = BATCH // ranks
    same = train(DistributedDataParallel, slice(None))
    halves = train(DistributedDataParallel, slice(rank * rows, (rank + 1) * rows))
    dist.all_reduce(halves)
    halves /= ranks
    torch.cuda.synchronize()
    if rank == 0:
        print(json.dumps({"same": same.tolist(), "halves": halves.tolist(), "library": ", ".join(loaded_nccl())}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
