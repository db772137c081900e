"""A small transformer that predicts the next byte, and text that is easy to learn. This module is not distributed."""
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 128
MAX_LENGTH = 64


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        # Uses as many heads as the projections yield: under tensor parallelism each rank has a share of them.
        def heads(projected):
            return projected.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(heads(self.query(x)), heads(self.key(x)), heads(self.value(x)),
                                               is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """`feed_forward` creates the block's second half, for example a mixture of experts."""

    def __init__(self, width, heads, feed_forward=FeedForward):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = feed_forward(width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(MAX_LENGTH, width)

    def forward(self, tokens):
        return self.token(tokens) + self.position.weight[: tokens.shape[-1]]


class Transformer(nn.Module):
    def __init__(self, width=128, heads=4, layers=2, feed_forward=FeedForward):
        super().__init__()
        self.embedding = Embedding(width)
        self.blocks = nn.ModuleList(Block(width, heads, feed_forward) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_token_loss(logits, tokens):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def batch_of(step, sequences, length=MAX_LENGTH):
    """The whole batch of one step, the same on every rank: each sequence counts upwards with its own stride."""
    generator = torch.Generator().manual_seed(step)
    start = torch.randint(VOCABULARY, (sequences, 1), generator=generator)
    stride = torch.randint(1, 8, (sequences, 1), generator=generator)
    return (start + stride * torch.arange(length)) % VOCABULARY


def share_of(batch, rank, ranks):
    """The rank's sequences out of a whole batch."""
    return batch.chunk(ranks)[rank]
