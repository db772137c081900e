#!/usr/bin/env python3
"""Measures and checks the collectives of torch.distributed, over NCCL on the GPUs and over Gloo on the host.

Each line shows one collective at one size: the time of a call, and bytes / time ("algbw"), for both backends.
"""
import time

import torch
import torch.distributed as dist

from comparison import Job, arguments

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def to_bytes(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Collective:
    """One collective over `count` elements per rank. run() calls it; check() checks the result of the last call.
    Rank r contributes r + 1 in every element, plus the receiver's rank if elements differ by receiver."""

    def __init__(self, job, device, count):
        self.job, self.device = job, device
        self.share = count // job.ranks
        self.count = self.share * job.ranks
        self.sum = job.ranks * (job.ranks + 1) // 2
        self.prepare()

    def full(self, value, count=None):
        return torch.full((count or self.count,), float(value), device=self.device)

    def by_rank(self, value_of):
        return torch.cat([self.full(value_of(rank), self.share) for rank in range(self.job.ranks)])

    def check(self):
        return self.result.equal(self.expected)


class AllReduce(Collective):
    """In place. Uses the maximum, because a sum would grow with every call."""

    def prepare(self):
        self.result, self.expected = self.full(self.job.rank + 1), self.full(self.job.ranks)

    def run(self):
        dist.all_reduce(self.result, dist.ReduceOp.MAX)


class Broadcast(Collective):
    def prepare(self):
        self.result, self.expected = self.full(self.job.rank + 1), self.full(1)

    def run(self):
        dist.broadcast(self.result, 0)


class AllGather(Collective):
    def prepare(self):
        self.input = self.full(self.job.rank + 1, self.share)
        self.result, self.expected = self.full(0), self.by_rank(lambda rank: rank + 1)

    def run(self):
        dist.all_gather_into_tensor(self.result, self.input)


class ReduceScatter(Collective):
    def prepare(self):
        self.input = self.by_rank(lambda receiver: self.job.rank + 1 + receiver)
        self.result = self.full(0, self.share)
        self.expected = self.full(self.sum + self.job.rank * self.job.ranks, self.share)

    def run(self):
        dist.reduce_scatter_tensor(self.result, self.input)


class AllToAll(Collective):
    def prepare(self):
        self.input = self.by_rank(lambda receiver: self.job.rank + 1 + receiver)
        self.result = self.full(0)
        self.expected = self.by_rank(lambda sender: sender + 1 + self.job.rank)

    def run(self):
        dist.all_to_all_single(self.result, self.input)


class SendRecv(Collective):
    """Sends to the next rank and receives from the previous rank."""

    def prepare(self):
        self.input = self.full(self.job.rank + 1)
        self.before = (self.job.rank - 1) % self.job.ranks
        self.after = (self.job.rank + 1) % self.job.ranks
        self.result, self.expected = self.full(0), self.full(self.before + 1)

    def run(self):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, self.input, self.after),
                                            dist.P2POp(dist.irecv, self.result, self.before)]):
            work.wait()


COLLECTIVES = {"all_reduce": AllReduce, "broadcast": Broadcast, "all_gather": AllGather,
               "reduce_scatter": ReduceScatter, "all_to_all": AllToAll, "send_recv": SendRecv}


def seconds_per_call(job, collective, calls):
    def wait_for_all():
        if job.gpu.type == collective.device.type:
            torch.cuda.synchronize()
        dist.barrier(device_ids=[job.gpu.index])

    collective.run()  # sets up connections and buffers
    wait_for_all()
    start = time.perf_counter()
    for _ in range(calls):
        collective.run()
    wait_for_all()
    return (time.perf_counter() - start) / calls


def main():
    options = arguments(__doc__.splitlines()[0], ops=",".join(COLLECTIVES), min="1K", max="4M", factor=16, calls=10)
    wrong = 0
    with Job() as job:
        job.report(f"# {job.ranks} ranks, float32")
        job.report(f"{'':16}{'bytes':>12}{'NCCL us':>12}{'GB/s':>8}{'Gloo us':>12}{'GB/s':>8}  result")
        for name in options.ops.split(","):
            size, largest = to_bytes(options.min), to_bytes(options.max)
            while size <= largest:
                columns, right = "", True
                for device in (job.gpu, torch.device("cpu")):
                    collective = COLLECTIVES[name](job, device, size // 4)
                    taken = seconds_per_call(job, collective, options.calls)
                    right &= collective.check()
                    columns += f"{taken * 1e6:12.1f}{collective.count * 4 / taken / 1e9:8.2f}"
                everywhere = torch.tensor(float(right))
                dist.all_reduce(everywhere, dist.ReduceOp.MIN)
                wrong += everywhere.item() == 0
                job.report(f"{name:16}{collective.count * 4:12}{columns}  {'right' if everywhere.item() else 'WRONG'}")
                size *= options.factor
    if wrong:
        raise SystemExit(f"{wrong} wrong results")


if __name__ == "__main__":
    main()
