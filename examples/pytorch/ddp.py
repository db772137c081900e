#!/usr/bin/env python3
"""Data parallel training: every rank has the whole model and a share of the batch, and gradients are averaged.

NCCL calls: all_reduce for the gradients, in buckets that overlap with the backward pass; broadcast at the start.
"""
import torch
from torch.nn.parallel import DistributedDataParallel

from comparison import TRAINING, Job, arguments, compare, mean_over_ranks, timed_steps, train_alone
from transformer import Transformer, batch_of, next_token_loss, share_of


def main():
    options = arguments(__doc__.splitlines()[0], **TRAINING)
    with Job() as job:

        def train(device):
            torch.manual_seed(0)
            model = DistributedDataParallel(Transformer().to(device))
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

            def step(number):
                tokens = share_of(batch_of(number, options.sequences), job.rank, job.ranks).to(device)
                loss = next_token_loss(model(tokens), tokens)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return mean_over_ranks(loss)

            return timed_steps(step, options.steps, device)

        job.report(f"# DDP, {job.ranks} ranks, {options.sequences} sequences per step in all")
        compare(job, train, lambda: train_alone(Transformer, options))


if __name__ == "__main__":
    main()
