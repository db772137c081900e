#!/usr/bin/env python3
"""Fully sharded training (FSDP2): every rank keeps a share of each parameter, its gradient and optimizer state.

NCCL calls: all_gather of a block's parameters before it runs, forward and backward; reduce_scatter of its gradients.
"""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from comparison import TRAINING, Job, arguments, compare, mean_over_ranks, timed_steps
from transformer import Transformer, batch_of, next_token_loss, share_of


def main():
    options = arguments(__doc__.splitlines()[0], **TRAINING)
    with Job() as job:

        def train(device):
            mesh = init_device_mesh(device.type, (job.ranks,))
            torch.manual_seed(0)
            model = Transformer().to(device)
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

            def step(number):
                tokens = share_of(batch_of(number, options.sequences), job.rank, job.ranks).to(device)
                loss = next_token_loss(model(tokens), tokens)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                return mean_over_ranks(loss)

            return timed_steps(step, options.steps, device)

        job.report(f"# FSDP2, {job.ranks} ranks, {options.sequences} sequences per step in all")
        compare(job, train)


if __name__ == "__main__":
    main()
