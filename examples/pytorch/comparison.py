"""Code common to all examples: the start of a job, and the comparison of one training run on two backends.

Each example has a function train(device, ...) that trains for some steps and returns the losses and the times of the
steps. It runs on the GPUs over NCCL and again on the host over Gloo, with the same seeds and data, so the losses must
agree.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist

from transformer import batch_of, next_token_loss

# Two backends add in different orders and round differently; this is the maximum relative difference of a step's loss.
TOLERANCE = 1e-4


TRAINING = {"steps": 10, "sequences": 16}  # options of all examples except the benchmark


def arguments(description, **options):
    """Parses the command line. `options`: defaults by name; 0 means a value that fits the number of ranks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter,
                                     epilog="Start it with torchrun, or anything else that sets RANK, WORLD_SIZE, "
                                            "LOCAL_RANK, MASTER_ADDR and MASTER_PORT.")
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


class Job:
    """Joins the job's other processes; leaves them at the end of a `with` block."""

    def __enter__(self):
        self.gpu = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(self.gpu)
        # The backend of a call depends on the device of its tensors.
        dist.init_process_group("cpu:gloo,cuda:nccl")
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        return self

    def __exit__(self, failed, *_):
        if not failed:
            dist.destroy_process_group()

    def report(self, text=""):
        if self.rank == 0:
            print(text, flush=True)


def timed_steps(step, steps, device):
    """Calls step(number), which returns the loss as a tensor, for each step. Returns (losses, seconds)."""
    losses, seconds = [], []
    for number in range(steps):
        start = time.perf_counter()
        loss = step(number).detach()
        losses.append(loss.item())  # waits for the GPU
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def train_alone(make_model, options):
    """Trains in one process with the whole batch and without communication, as a reference for split models."""
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(number):
        tokens = batch_of(number, options.sequences)
        loss = next_token_loss(model(tokens), tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return timed_steps(step, options.steps, torch.device("cpu"))


def mean_over_ranks(loss):
    """The mean of a scalar over all ranks."""
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss / dist.get_world_size()


def on_rank_0(run, device=torch.device("cpu")):
    """Calls run() on rank 0 only and returns its result on every rank. `device`: the device that broadcasts it."""
    result = [run() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(result, device=device)
    return result[0]


def compare(job, train, alone=None):
    """Compares train(device) on both backends, and alone() in one process."""
    runs = {"NCCL, GPUs": lambda: train(job.gpu), "Gloo, host": lambda: train(torch.device("cpu"))}
    if alone:
        runs["one process, host"] = lambda: on_rank_0(alone)
    compare_runs(runs, job.report)


def compare_runs(runs, report):
    """Calls each of `runs`, which return (losses, seconds), and prints their results side by side. `report` prints a line
    on one rank. Raises SystemExit on every rank if the losses disagree."""
    results = {}
    report(f"{'':24}{'first loss':>14}{'last loss':>14}{'ms per step':>14}")
    for label, run in runs.items():
        losses, seconds = results[label] = run()
        # The first step sets up connections and buffers.
        typical = sorted(seconds[1:] or seconds)[len(seconds[1:]) // 2]
        report(f"{label:24}{losses[0]:14.6f}{losses[-1]:14.6f}{typical * 1000:14.1f}")
    (_, (first, _)), *others = results.items()
    worst = max(abs(a - b) / abs(b) for _, (losses, _) in others for a, b in zip(first, losses, strict=True))
    agree = worst <= TOLERANCE
    report(f"losses {'agree' if agree else 'DIFFER'}: relative difference at most {worst:.1e}, {TOLERANCE:.0e} allowed")
    if not agree:
        raise SystemExit(1)
