#!/usr/bin/env python3
"""Expert parallel training: each rank has some of the experts of every mixture-of-experts layer.

A router sends each token to the expert with the highest score, on any rank, and receives the result. The number of
tokens per rank is known only after routing.

NCCL calls: all_to_all, first of counts and then of tokens with uneven splits, in both directions, forward and backward;
all_reduce for the gradients of parameters that every rank has.
"""
import functools

import torch
import torch.distributed as dist
from torch import nn

from comparison import TRAINING, Job, arguments, compare, mean_over_ranks, timed_steps
from transformer import FeedForward, Transformer, batch_of, next_token_loss, share_of


class Exchange(torch.autograd.Function):
    """Sends rows to other ranks: sent[r] of them to rank r, received[r] from it. backward() returns the gradients."""

    @staticmethod
    def forward(ctx, rows, sent, received):
        ctx.splits = sent, received
        result = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(result, rows.contiguous(), received, sent)
        return result

    @staticmethod
    def backward(ctx, gradient):
        sent, received = ctx.splits
        return Exchange.apply(gradient, received, sent), None, None


class MixtureOfExperts(nn.Module):
    """`experts` in total; with `ranks` > 1 this rank owns an equal share and sends tokens to the others."""

    def __init__(self, width, experts, rank, ranks):
        super().__init__()
        self.ranks = ranks
        self.router = nn.Linear(width, experts)
        # Creates all experts, so that a seed gives the same weights for any number of ranks.
        all_experts = [FeedForward(width) for _ in range(experts)]
        share = experts // ranks
        self.experts = nn.ModuleList(all_experts[rank * share:(rank + 1) * share])

    def forward(self, x):
        tokens = x.flatten(0, -2)
        weight, expert = self.router(tokens).softmax(-1).max(-1)
        order = expert.argsort(stable=True)  # by expert, hence by rank
        counts = expert.bincount(minlength=self.ranks * len(self.experts)).view(self.ranks, -1)
        changed = torch.empty_like(tokens).index_copy(0, order, self.through_experts(tokens[order], counts))
        return (changed * weight.unsqueeze(-1)).view_as(x)

    def through_experts(self, tokens, counts):
        """counts[r][e] of the sorted tokens are for expert e of rank r."""
        if self.ranks == 1:
            return self.apply_experts(tokens, counts)
        arriving = torch.empty_like(counts)  # [r][e]: tokens from rank r for our expert e
        dist.all_to_all_single(arriving, counts)
        sent, received = counts.sum(1).tolist(), arriving.sum(1).tolist()
        return Exchange.apply(self.apply_experts(Exchange.apply(tokens, sent, received), arriving), received, sent)

    def apply_experts(self, tokens, counts):
        """Applies experts to tokens sorted by source rank, then by expert: counts[r][e] of them."""
        pieces = tokens.split(counts.flatten().tolist())
        share = len(self.experts)
        results = [self.experts[number % share](piece) for number, piece in enumerate(pieces)]
        return torch.cat(results)


def average_shared_gradients(model, job):
    """Every rank has processed its share of the batch. An expert has processed all tokens that were sent to it."""
    for name, parameter in model.named_parameters():
        if parameter.grad is None:  # an expert without tokens
            continue
        if ".experts." not in name:
            dist.all_reduce(parameter.grad)
        parameter.grad /= job.ranks


def main():
    options = arguments(__doc__.splitlines()[0], **TRAINING, experts=8)
    with Job() as job:

        def train(device, alone=False):
            rank, ranks = (0, 1) if alone else (job.rank, job.ranks)
            torch.manual_seed(0)
            layer = functools.partial(MixtureOfExperts, experts=options.experts, rank=rank, ranks=ranks)
            model = Transformer(feed_forward=layer).to(device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

            def step(number):
                tokens = share_of(batch_of(number, options.sequences), rank, ranks).to(device)
                loss = next_token_loss(model(tokens), tokens)
                optimizer.zero_grad()
                loss.backward()
                if not alone:
                    average_shared_gradients(model, job)
                optimizer.step()
                return loss if alone else mean_over_ranks(loss)

            return timed_steps(step, options.steps, device)

        if options.experts % job.ranks or options.sequences % job.ranks:
            raise SystemExit(f"--experts and --sequences must be multiples of the number of ranks, {job.ranks}")
        job.report(f"# mixture of {options.experts} experts, {job.ranks} ranks, {options.sequences} sequences per step")
        compare(job, train, lambda: train(torch.device("cpu"), alone=True))


if __name__ == "__main__":
    main()
