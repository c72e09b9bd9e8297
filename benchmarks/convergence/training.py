"""Real trainings for comparisons of how gradients travel: `python training.py TASK STEPS SEED`.

`digits` is a classifier of scikit-learn's digits; `text` is a small transformer that predicts the
next character of Python's own reference documentation. Each rank prints the validation loss by
step and by seconds of training, without the time that validation takes. Nothing here knows of
rsctl.
"""

import hashlib
import json
import math
import os
import sys
import time
from contextlib import nullcontext
from pydoc_data import topics

import fp8_hook
import torch
import torch.distributed as dist
import torchft_diloco
from torch.nn import functional as f
from torch.nn.parallel import DistributedDataParallel

EVALUATIONS = 40
CONTEXT = 48


class Digits:
    """Images of 8 x 8 pixels; a fifth of them is for validation."""

    batch = 16

    def __init__(self) -> None:
        from sklearn.datasets import load_digits

        found = load_digits()
        order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
        inputs = torch.tensor(found.data, dtype=torch.float32)[order] / 16
        labels = torch.tensor(found.target)[order]
        cut = len(order) // 5
        self.validation = inputs[:cut], labels[:cut]
        self.inputs, self.labels = inputs[cut:], labels[cut:]
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 10),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)

    def sample(self, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch."""
        chosen = torch.randint(len(self.labels), (self.batch,), generator=random)
        return self.inputs[chosen], self.labels[chosen]


class Block(torch.nn.Module):
    """A layer of a transformer that sees the past only."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.mix, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, length, width = x.shape
        parts = (
            self.mix(self.first(x)).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        seen = f.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(count, length, width))
        return x + self.down(f.gelu(self.up(self.second(x))))


class Transformer(torch.nn.Module):
    """Characters in, the next ones out: 250 thousand parameters."""

    def __init__(self, letters: int, width: int = 96, layers: int = 2) -> None:
        super().__init__()
        self.letter = torch.nn.Embedding(letters, width)
        self.place = torch.nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.layers = torch.nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.last, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, letters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letter(text) + self.place[: text.shape[1]]
        return self.head(self.last(self.layers(x))).transpose(1, 2)


class Text:
    """Pieces of Python's reference documentation; the last twentieth is for validation."""

    batch = 8

    def __init__(self) -> None:
        whole = "".join(topics.topics[name] for name in sorted(topics.topics))
        letters = {letter: number for number, letter in enumerate(sorted(set(whole)))}
        codes = torch.tensor([letters[letter] for letter in whole])
        cut = len(codes) // 20 * 19
        self.codes = codes[:cut]
        starts = torch.arange(cut, len(codes) - CONTEXT - 1, (len(codes) - cut) // 100)
        self.validation = self._pieces(codes, starts)
        self.model = Transformer(len(letters))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)

    def sample(self, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch."""
        most = len(self.codes) - CONTEXT - 1
        return self._pieces(self.codes, torch.randint(most, (self.batch,), generator=random))

    @staticmethod
    def _pieces(codes: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pieces = torch.stack([codes[start : start + CONTEXT + 1] for start in starts.tolist()])
        return pieces[:, :-1], pieces[:, 1:]


def main() -> None:
    """Train, and print the curve and a digest of the parameters."""
    name, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task = Digits() if name == "digits" else Text()
    if round_steps := int(os.environ.get("TORCHFT_STEPS", "0")):
        model = task.model
        rounds = torchft_diloco.local_steps(model, task.optimizer, round_steps)
    else:
        model = DistributedDataParallel(task.model)
        rounds = nullcontext()
    if os.environ.get("DDP_HOOK") == "fp8":
        model.register_comm_hook(None, fp8_hook.hook)
    with rounds:
        curve = train(task, model, steps, seed)
    weights = torch.cat([p.detach().flatten() for p in task.model.parameters()])
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
    finite = all(math.isfinite(point[2]) for point in curve)
    line = {"digest": digest, "curve": curve, "finite": finite, "parameters": weights.numel()}
    print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def train(
    task: Digits | Text, model: torch.nn.Module, steps: int, seed: int
) -> list[tuple[int, float, float]]:
    """The validation loss by step and by seconds; empty on other ranks than the first."""
    random = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    curve, seconds = [], 0.0
    begun = time.perf_counter()
    for step in range(1, steps + 1):
        inputs, labels = task.sample(random)
        task.optimizer.zero_grad()
        f.cross_entropy(model(inputs), labels).backward()
        task.optimizer.step()
        if step % max(1, steps // EVALUATIONS) == 0 or step == steps:
            seconds += time.perf_counter() - begun
            if dist.get_rank() == 0:  # the others wait in their next step, which does not count
                with torch.no_grad():
                    loss = f.cross_entropy(task.model(task.validation[0]), task.validation[1])
                curve.append((step, seconds, loss.item()))
            begun = time.perf_counter()
    return curve


if __name__ == "__main__":
    main()
