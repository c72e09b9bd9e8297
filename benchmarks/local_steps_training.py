"""Two trainings with DistributedDataParallel, which know nothing of rsctl.

`text` is a character-level transformer on Python's own manual of language topics, `points` a
classifier of random points that a random network has labelled. Rank 0 prints the time and the
validation loss as JSON lines after each `--every` steps, and ends all ranks at `--target`, or after
`--steps`.
"""

from __future__ import annotations

import argparse
import json
import pydoc_data.topics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CONTEXT = 64


class Model(nn.Module):
    """A transformer that predicts the next character."""

    def __init__(self, characters: int, width: int, layers: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """The scores of each next character."""
        hidden = self.characters(text) + self.places.weight
        scores: torch.Tensor = self.last(
            self.norm(self.layers(hidden, mask=self.mask, is_causal=True))
        )
        return scores


class Text:
    """Rows of text, and the next character of each place."""

    def __init__(self, args: argparse.Namespace) -> None:
        topics = pydoc_data.topics.topics
        text = "".join(topics[key] for key in sorted(topics))
        alphabet = sorted(set(text))
        numbers = {character: number for number, character in enumerate(alphabet)}
        data = torch.tensor([numbers[character] for character in text])
        split = len(data) * 9 // 10
        self._train, held = data[:split], data[split:]
        rows = held[: 64 * (CONTEXT + 1)].view(64, CONTEXT + 1)
        self.held = rows[:, :-1], rows[:, 1:]
        torch.manual_seed(args.seed)
        self.model: nn.Module = Model(len(alphabet), args.width or 128, args.layers)

    def draw(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch of the training data."""
        starts = torch.randint(len(self._train) - CONTEXT - 1, (size,), generator=generator)
        rows = torch.stack([self._train[start : start + CONTEXT + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]


class Points:
    """Random points with labels."""

    def __init__(self, args: argparse.Namespace) -> None:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(42_000, 64, generator=generator)
        hidden = torch.randn(64, 32, generator=generator) / 8
        output = torch.randn(32, 10, generator=generator)
        labels = (torch.tanh(2 * inputs @ hidden) @ output).argmax(dim=1)
        self._inputs, self._labels = inputs[:40_000], labels[:40_000]
        self.held = inputs[40_000:], labels[40_000:]
        width = args.width or 768
        torch.manual_seed(args.seed)
        self.model: nn.Module = nn.Sequential(
            nn.Linear(64, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, 10),
        )

    def draw(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch of the training data."""
        picked = torch.randint(len(self._inputs), (size,), generator=generator)
        return self._inputs[picked], self._labels[picked]


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The cross entropy of a batch."""
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels.flatten())


def main() -> None:
    """Train on this rank."""
    options = argparse.ArgumentParser()
    options.add_argument("--task", choices=("text", "points"), default="text")
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--every", type=int, default=16)
    options.add_argument("--target", type=float, default=2.0)
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--width", type=int, default=0)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--lr", type=float, default=2e-3)
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    task = Text(args) if args.task == "text" else Points(args)
    net = task.model
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    draw = torch.Generator().manual_seed(1000 * args.seed + rank)
    size = sum(p.numel() for p in net.parameters())
    started, checking, is_over = time.monotonic(), 0.0, False
    for step in range(1, args.steps + 1):
        loss = loss_of(model, task.draw(args.batch, draw))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.every:
            continue
        begun = time.monotonic()
        if rank == 0:
            with torch.no_grad():
                value = loss_of(net, task.held).item()
            seconds = begun - started - checking
            line = {"step": step, "seconds": round(seconds, 2), "loss": round(value, 4)}
            print(json.dumps({**line, "parameters": size}), flush=True)
            is_over = value <= args.target
        over = torch.tensor([int(is_over)])
        dist.broadcast(over, 0)
        checking += time.monotonic() - begun
        if over.item():
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
