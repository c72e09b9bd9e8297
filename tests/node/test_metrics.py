"""`log_metrics`: what a training script's metrics look like on stdout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rsctl.node import log_metrics

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)


class Boxed:
    """What a 0-d tensor is to us."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        return self._value


def test_one_line_with_step_values_and_rank(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    log_metrics(step=10, loss=0.41, **{"eval/accuracy": 1})
    assert capfd.readouterr().out == (
        '{"rsctl": "metrics", "step": 10, "loss": 0.41, "eval/accuracy": 1, "rank": 3}\n'
    )


def test_step_and_rank_may_be_missing(capfd: Capture) -> None:
    log_metrics(loss=2)
    assert capfd.readouterr().out == '{"rsctl": "metrics", "loss": 2}\n'


def test_numbers_in_boxes(capfd: Capture) -> None:
    log_metrics(loss=Boxed(0.5), tokens=Boxed(12))
    assert capfd.readouterr().out == '{"rsctl": "metrics", "loss": 0.5, "tokens": 12}\n'


def test_tensors(capfd: Capture) -> None:
    import torch  # which takes long

    log_metrics(step=torch.tensor(7), loss=torch.tensor(0.5))
    assert capfd.readouterr().out == '{"rsctl": "metrics", "step": 7, "loss": 0.5}\n'


def test_a_diverged_loss_is_reported_and_stops_nothing(capfd: Capture) -> None:
    log_metrics(a=float("nan"), b=float("inf"), c=Boxed(float("-inf")))
    assert capfd.readouterr().out == '{"rsctl": "metrics", "a": "nan", "b": "inf", "c": "-inf"}\n'


def test_comes_after_what_was_printed_before(capfd: Capture) -> None:
    print("epoch 1", end="\n")
    log_metrics(loss=1)
    assert capfd.readouterr().out == 'epoch 1\n{"rsctl": "metrics", "loss": 1}\n'


@pytest.mark.parametrize("name", ["", "9lives", "a b", "é", "rsctl", "rank"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(ValueError, match="metric name"):
        log_metrics(**{name: 1})


@pytest.mark.parametrize("value", ["0.4", None, [1], Boxed("x")])
def test_values_that_are_no_numbers(value: Any) -> None:
    with pytest.raises(TypeError, match=r"metric 'loss' is \w+, not a number"):
        log_metrics(loss=value)


def test_many_metrics_take_several_lines_and_none_is_lost(capfd: Capture) -> None:
    values = {f"layer.{index}.gradient_norm": index / 7 for index in range(300)}
    log_metrics(step=5, **values)
    lines = capfd.readouterr().out.splitlines(keepends=True)
    assert all(len(line.encode()) <= 4096 for line in lines)
    parsed = [json.loads(line) for line in lines]
    assert {(line.pop("rsctl"), line.pop("step")) for line in parsed} == {("metrics", 5)}
    assert {name: value for line in parsed for name, value in line.items()} == values
