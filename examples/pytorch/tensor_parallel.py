#!/usr/bin/env python3
"""Tensor parallel training: each matrix is split over the ranks, and all ranks process the same sequences.

NCCL calls: all_reduce of activations (forward) and of their gradients (backward), twice per block.
"""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from comparison import TRAINING, Job, arguments, compare, timed_steps, train_alone
from transformer import Transformer, batch_of, next_token_loss

# The first matrix is split by columns, the next one by rows, so that in between every rank uses its own share only.
PLAN = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "feed_forward.up": ColwiseParallel(),
    "feed_forward.down": RowwiseParallel(),
}


def main():
    options = arguments(__doc__.splitlines()[0], **TRAINING, heads=0)
    with Job() as job:
        if options.heads == 0:
            options.heads = 4 if 4 % job.ranks == 0 else job.ranks

        def train(device):
            mesh = init_device_mesh(device.type, (job.ranks,))
            torch.manual_seed(0)
            model = Transformer(heads=options.heads).to(device)
            for block in model.blocks:
                parallelize_module(block, mesh, PLAN)
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)

            def step(number):
                tokens = batch_of(number, options.sequences).to(device)
                loss = next_token_loss(model(tokens), tokens)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss

            return timed_steps(step, options.steps, device)

        if options.heads % job.ranks:
            raise SystemExit(f"--heads is {options.heads}; expected a multiple of the number of ranks, {job.ranks}")
        job.report(f"# tensor parallel, {job.ranks} ranks, {options.sequences} sequences per step")
        compare(job, train, lambda: train_alone(lambda: Transformer(heads=options.heads), options))


if __name__ == "__main__":
    main()
