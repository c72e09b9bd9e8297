"""The callbacks of docs/guides/stopping-frameworks.md with the real frameworks: two ranks save when
their node is asked to end, and the next start goes on from there.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import fork_server
from tests.kit.polling import wait_until

PACKAGES = os.environ.get("FRAMEWORKS", "")
"""The folder of `.ci/frameworks`."""

pytestmark = pytest.mark.skipif(
    not PACKAGES and os.environ.get("CI") != "true", reason="FRAMEWORKS: see .ci/frameworks"
)

PAGE = Path(__file__).parents[2] / "docs/guides/stopping-frameworks.md"
STEPS = 200

SLOW = f"""
import os, sys, time
def note(step):
    '''Each step takes long enough for a node to be asked to end between two of them.'''
    if os.environ["RANK"] == "0":
        print("step", step, flush=True)
    time.sleep(float(sys.argv[1]))
STEPS = {STEPS}
"""

LIGHTNING = """
import os, torch, pytorch_lightning
class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        note(self.global_step)
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
data = torch.utils.data.DataLoader(torch.ones(300, 4))
fit(Module(), data, max_steps=STEPS, accelerator="cpu", logger=False, enable_progress_bar=False,
    enable_model_summary=False, enable_checkpointing=False)
"""

TRANSFORMERS = """
import torch
from transformers import TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x):
        return {"loss": self.layer(x).sum()}
class Callback(TrainerCallback):
    def on_step_begin(self, args, state, control, **others):
        note(state.global_step)
arguments = TrainingArguments(
    output_dir=FOLDER, max_steps=STEPS, use_cpu=True, disable_tqdm=True, report_to=[],
    save_strategy="no", per_device_train_batch_size=1, logging_strategy="no")
SaveAndStop.on_step_begin = Callback.on_step_begin
fit(model=Model(), args=arguments, train_dataset=[{"x": torch.ones(4)}] * 600)
"""

ACCELERATE = """
import torch
from accelerate import Accelerator
class Counter:
    step = 0
    def state_dict(self):
        return {"step": self.step}
    def load_state_dict(self, state):
        self.step = state["step"]
accelerator = Accelerator(cpu=True)
layer = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), 0.01))
def train(step):
    note(step)
    accelerator.backward(model(torch.ones(1, 4)).sum())
    optimizer.step()
    optimizer.zero_grad()
fit(accelerator, STEPS, train, Counter())
accelerator.end_training()
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Ranks begin as copies of one process that has imported the frameworks, in 12 s."""
    folder = tmp_path_factory.mktemp("frameworks")
    names = "pytorch_lightning transformers.trainer accelerate"
    with fork_server.started(folder, PYTHONPATH=PACKAGES, FORKED_MODULES=names) as variables:
        yield variables


def example(title: str) -> str:
    """The page's file of this name."""
    [block] = re.findall(rf'```python title="{title}"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    return str(block)


@pytest.mark.parametrize(
    ("title", "rest"),
    [
        ("lightning_stop.py", LIGHTNING),
        ("transformers_stop.py", TRANSFORMERS),
        ("accelerate_stop.py", ACCELERATE),
    ],
)
def test_it_saves_and_resumes(
    launch: Callable[..., Any],
    script: Callable[[str], str],
    forks: dict[str, str],
    free_port: int,
    tmp_path: Path,
    title: str,
    rest: str,
) -> None:
    kept = tmp_path / "checkpoints"
    kept.mkdir()
    path = script(SLOW + example(title) + rest)

    def start(seconds: str) -> Any:
        return launch(
            *("--processes", "2", "--python", "--", path, seconds),
            RSCTL_PORT=str(free_port),
            RSCTL_CHECKPOINT_DIR=str(kept),
            PYTHONPATH=os.pathsep.join([forks["PYTHONPATH"], str(PAGE.parents[2]), PACKAGES]),
            TORCH_FORKS=forks["TORCH_FORKS"],
            OMP_NUM_THREADS="1",
            HF_HUB_OFFLINE="1",
        )

    first = start("0.02")
    wait_until(lambda: "step 5\n" in first.out, seconds=120)
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM, first.err
    last = steps(first.out)[-1]
    assert last < STEPS - 1
    second = start("0")
    assert second.wait() == 0, second.err
    assert steps(second.out) == list(range(last + 1, STEPS))


def steps(out: str) -> list[int]:
    return [int(number) for number in re.findall(r"(?m)^step (\d+)$", out)]


ALONE = """
import os, torch, pytorch_lightning
class Module(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
    def on_train_end(self):
        os.write(1, f"rank {self.global_rank} of {self.trainer.world_size}\\n".encode())
        self.trainer.strategy.barrier()  # the node ends with its first rank
data = torch.utils.data.DataLoader(torch.ones(8, 4))
trainer = pytorch_lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_steps=2, logger=False,
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
trainer.fit(Module(), data)
"""


def test_lightning_starts_the_ranks_of_a_node_itself(
    launch: Callable[..., Any], script: Callable[[str], str], forks: dict[str, str]
) -> None:
    """With launcher once: it would wait for ranks that nobody starts if it found a LOCAL_RANK."""
    node = launch(
        *("--launcher", "once", "--python", "--", script(ALONE)),
        PYTHONPATH=os.pathsep.join([forks["PYTHONPATH"], str(PAGE.parents[2]), PACKAGES]),
        TORCH_FORKS=forks["TORCH_FORKS"],
        OMP_NUM_THREADS="1",
    )
    assert node.wait() == 0, node.err
    lines = sorted(line for line in node.out.splitlines() if line.startswith("rank "))
    assert lines == ["rank 0 of 2", "rank 1 of 2"]
