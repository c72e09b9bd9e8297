"""How far a training is, and what its machines do, as the live view shows it."""

from __future__ import annotations

import pytest

from rsctl.runs.stream.events import Event, LogEvent, MetricEvent
from rsctl.runs.stream.machine_use import MachineUse
from rsctl.runs.stream.training_progress import Goal, TrainingProgress, goal_of


def time(second: float) -> str:
    minutes, seconds = divmod(second, 60)
    return f"2026-01-31T12:{int(minutes):02}:{seconds:09.6f}Z"


def metric(
    second: float,
    step: int | None,
    name: str = "loss",
    replica: str = "worker-0",
    value: float = 1.0,
) -> MetricEvent:
    return MetricEvent(time=time(second), replica=replica, name=name, value=value, step=step)


def line(second: float, text: str, replica: str = "worker-0") -> LogEvent:
    return LogEvent(time(second), replica, "0", "stdout", text)


@pytest.mark.parametrize(
    ("words", "goal"),
    [
        (["train.py", "--max-steps", "300"], Goal(steps=300)),
        (["train.py", "--max_steps=300", "--epochs", "3"], Goal(300, 3)),
        (["train.py", "trainer.max_epochs=2"], Goal(epochs=2)),
        (["train.py", "--num_train_epochs", "2.5"], Goal(epochs=2.5)),
        (["train.py", "--steps", "-1"], Goal()),
        (["train.py", "--epochs"], Goal()),
        ([], Goal()),
        (["train.py", "--save-steps", "100", "steps"], Goal()),
        (["train.py", "--epochs=" + "9" * 500], Goal()),
    ],
)
def test_the_goal_in_the_arguments(words: list[str], goal: Goal) -> None:
    assert goal_of(words) == goal


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "steps",
            "max_steps steps num_steps train_steps total_steps max_train_steps num_train_steps "
            "training_steps max_iters iters iterations num_iterations train_iters max_iterations",
        ),
        ("epochs", "epochs num_epochs max_epochs num_train_epochs n_epochs"),
    ],
)
def test_the_names_of_goals_in_scripts_of_others(kind: str, names: str) -> None:
    """Of Hugging Face, PyTorch Lightning, Megatron-LM, mmengine and timm, with - or with _."""
    for name in names.split():
        for option in (f"--{name}", f"--{name.replace('_', '-')}"):
            assert goal_of([option, "300"]) == Goal(**{kind: 300})


@pytest.mark.parametrize(
    ("events", "goal", "shown"),
    [
        ([], Goal(), ""),
        ([metric(0, None)], Goal(), ""),
        ([metric(0, 1)], Goal(), "step 1"),
        ([metric(s, s) for s in range(11)], Goal(), "step 10  1 s/step"),
        (
            [metric(s / 10, s) for s in range(101)],
            Goal(steps=300),
            "step 100 of 300  10 steps/s  0:20 left",
        ),
        # The chief's steps, of the metric that it logs most often.
        (
            [metric(s, s) for s in range(11)]
            + [metric(11, 10, "eval"), metric(12, 900, replica="worker-1")],
            Goal(steps=20),
            "step 10 of 20  1 s/step  0:10 left",
        ),
        # Where the chief logs no step, another replica's.
        (
            [metric(s, s, replica="worker-1") for s in range(11)],
            Goal(steps=20),
            "step 10 of 20  1 s/step  0:10 left",
        ),
        # A further attempt begins again.
        (
            [metric(s, s) for s in range(11)] + [metric(20 + s, s) for s in range(3)],
            Goal(steps=4),
            "step 2 of 4  1 s/step  0:02 left",
        ),
        (
            [metric(s, s * 10, "epoch", value=s / 10) for s in range(11)],
            Goal(epochs=3),
            "epoch 1 of 3  step 100  10 steps/s  0:20 left",
        ),
        ([line(0, "Epoch 1/10"), line(60, "Epoch 2/10: loss 1")], Goal(),
         "epoch 2 of 10  8:00 left"),
        ([line(0, "[step 10/100] loss=1"), line(10, "[step 20/100] loss=1")], Goal(),
         "step 20 of 100  1 s/step  1:20 left"),
        ([line(0, "Epoch 3/2"), line(1, "misstep 1/2")], Goal(), ""),
        # More than was asked for: the goal was something else.
        ([metric(s, s) for s in range(11)], Goal(steps=5), "step 10  1 s/step"),
    ],
)  # fmt: skip
def test_progress(events: list[Event], goal: Goal, shown: str) -> None:
    progress = TrainingProgress(goal)
    progress.add(events)
    assert progress.format() == shown


@pytest.mark.parametrize(
    ("events", "goal", "after", "shown"),
    [
        ([metric(s / 10, s) for s in range(101)], Goal(steps=100), 0,
         "step 100 of 100  10 steps/s"),
        ([metric(s / 10, s) for s in range(101)], Goal(steps=300), 9,
         "step 100 of 300  10 steps/s  0:20 left"),
        ([metric(s / 10, s) for s in range(101)], Goal(steps=300), 130,
         "step 100 of 300  no step for 2:10"),
        # The steps of a large model take minutes.
        ([metric(s * 60, s) for s in range(3)], Goal(), 299, "step 2  60 s/step"),
        ([metric(s * 60, s) for s in range(3)], Goal(), 301, "step 2  no step for 5:01"),
        ([line(0, "Epoch 1/10"), line(6, "Epoch 2/10")], Goal(), 40,
         "epoch 2 of 10  no epoch for 0:40"),
    ],
)  # fmt: skip
def test_a_training_that_stopped(events: list[Event], goal: Goal, after: float, shown: str) -> None:
    seconds = [0.0]
    progress = TrainingProgress(goal, lambda: seconds[0])
    seconds[0] = 1000
    progress.add(events)
    seconds[0] += after
    assert progress.format() == shown
    progress.add([])
    assert progress.format() == shown
    if " no " in shown:
        progress.add([metric(9, 900), line(9, "Epoch 3/10")])
        assert " no " not in progress.format()


def test_a_broken_clock_has_no_rate() -> None:
    progress = TrainingProgress(Goal(steps=9))
    bad = MetricEvent(time="then", replica="worker-0", name="loss", value=1.0, step=2)
    progress.add([metric(0, 1), bad])
    assert progress.format() == "step 2 of 9"


def test_what_machines_do() -> None:
    use = MachineUse()
    assert use.format() == ""
    use.add([metric(0, None, "node.cpu_percent", value=250)])
    assert use.format() == "CPU 2.5 cores"
    gpu = {"util_percent": 90, "memory_bytes": 60e9, "memory_total_bytes": 80e9}
    use.add([metric(0, None, f"node.gpu{n}.{k}", value=v) for n in (0, 1) for k, v in gpu.items()])
    counters = [
        metric(second, None, f"node.net_{way}_bytes", replica, value)
        for replica in ("worker-0", "worker-1")
        for second, way, value in ((0, "tx", 0), (0, "rx", 0), (10, "tx", 2e10), (10, "rx", 1e10))
    ]
    use.add([*counters, metric(0, None, "node.cpu_percent", "reducer-0", 9999)])
    assert use.format() == (
        "CPU 2.5 cores  GPU 90 %, 60 GB of 80 GB  network 2 GB/s out, 1 GB/s in"
        "  (mean of 2 workers)"
    )


def test_a_command_without_words_has_no_goal() -> None:
    assert goal_of([]) == Goal()
