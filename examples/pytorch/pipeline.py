#!/usr/bin/env python3
"""Pipeline parallel training: each rank has some of the layers, and micro-batches pass from rank to rank.

All micro-batches run forward, then all run backward (GPipe). While a rank processes one micro-batch, the next rank
processes the previous one.

NCCL calls: send and recv of activations to the next rank, and of their gradients to the previous rank.
"""
import torch
import torch.distributed as dist
from torch import nn

from comparison import TRAINING, Job, arguments, compare, timed_steps, train_alone
from transformer import Transformer, batch_of, next_token_loss

WIDTH = 128


def stages_of(model, count):
    """Splits the model into `count` consecutive parts."""
    layers = [model.embedding, *model.blocks, nn.Sequential(model.norm, model.head)]
    bounds = [len(layers) * stage // count for stage in range(count + 1)]
    return [nn.Sequential(*layers[begin:end]) for begin, end in zip(bounds, bounds[1:])]


class Stage:
    """This rank's part of the pipeline."""

    def __init__(self, module, job, device):
        self.module, self.rank, self.device = module, job.rank, device
        self.is_first, self.is_last = job.rank == 0, job.rank == job.ranks - 1

    def forward(self, tokens):
        """One micro-batch. Returns (input, output); the last stage's output is the loss."""
        if self.is_first:
            received = tokens
        else:
            received = torch.empty(*tokens.shape, WIDTH, device=self.device)
            dist.recv(received, self.rank - 1)
            received.requires_grad_()
        output = self.module(received)
        if self.is_last:
            return received, next_token_loss(output, tokens)
        dist.send(output.detach(), self.rank + 1)
        return received, output

    def backward(self, received, output, micro_batches):
        if self.is_last:
            (output / micro_batches).backward()
        else:
            gradient = torch.empty_like(output)
            dist.recv(gradient, self.rank + 1)
            output.backward(gradient)
        if not self.is_first:
            dist.send(received.grad, self.rank - 1)


def main():
    options = arguments(__doc__.splitlines()[0], **TRAINING, micro_batches=4, layers=0)
    with Job() as job:
        if options.layers == 0:
            options.layers = max(4, job.ranks - 2)  # the embedding and the head are stages, too

        def train(device):
            torch.manual_seed(0)
            whole = Transformer(width=WIDTH, layers=options.layers)
            stage = Stage(stages_of(whole, job.ranks)[job.rank].to(device), job, device)
            optimizer = torch.optim.AdamW(stage.module.parameters(), lr=3e-3)

            def step(number):
                tokens = batch_of(number, options.sequences).to(device)
                optimizer.zero_grad()
                passed = [stage.forward(piece) for piece in tokens.chunk(options.micro_batches)]
                for received, output in passed:
                    stage.backward(received, output, len(passed))
                optimizer.step()
                # Only the last rank knows the loss.
                loss = torch.zeros((), device=device)
                if stage.is_last:
                    loss = torch.stack([output.detach() for _, output in passed]).mean()
                dist.broadcast(loss, job.ranks - 1)
                return loss

            return timed_steps(step, options.steps, device)

        if job.ranks > options.layers + 2:
            raise SystemExit(f"--layers is {options.layers}; expected at least {job.ranks - 2} for {job.ranks} ranks")
        if options.sequences % options.micro_batches:
            raise SystemExit("--sequences must be a multiple of --micro_batches")
        job.report(f"# pipeline of {job.ranks} ranks, {options.micro_batches} micro-batches,"
                f" {options.sequences} sequences per step")
        compare(job, train, lambda: train_alone(lambda: Transformer(width=WIDTH, layers=options.layers), options))


if __name__ == "__main__":
    main()
