#!/usr/bin/env python3
"""Training with Hugging Face Accelerate: it runs a single-process training loop on all ranks.

NCCL calls: all_reduce for the gradients and the losses; broadcast at the start.
"""
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

from comparison import TRAINING, arguments, compare_runs, on_rank_0, timed_steps, train_alone
from transformer import Transformer, batch_of, next_token_loss


def main():
    options = arguments(__doc__.splitlines()[0], **TRAINING)
    # Each rank gets its share of a batch, not batches of its own.
    accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))

    def train():
        torch.manual_seed(0)
        model = Transformer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        text = torch.cat([batch_of(number, options.sequences) for number in range(options.steps)])
        model, optimizer, loader = accelerator.prepare(model, optimizer,
                                                       DataLoader(text, batch_size=options.sequences))
        batches = iter(loader)

        def step(number):
            tokens = next(batches)
            loss = next_token_loss(model(tokens), tokens)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            return accelerator.reduce(loss.detach(), "mean")

        return timed_steps(step, options.steps, accelerator.device)

    def alone():
        return on_rank_0(lambda: train_alone(Transformer, options), accelerator.device)

    report = accelerator.on_main_process(print)
    report(f"# Accelerate, {accelerator.num_processes} ranks, {options.sequences} sequences per step in all")
    compare_runs({"Accelerate, GPUs": train, "one process, host": alone}, report)
    accelerator.end_training()


if __name__ == "__main__":
    main()
