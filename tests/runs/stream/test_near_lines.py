"""The line that a metric without a value may have been meant for."""

from __future__ import annotations

import re

import pytest

from rsctl.runs.stream.near_lines import NearLine, near_line


@pytest.mark.parametrize(
    ("name", "regex", "line", "suggested"),
    [
        ("loss", "loss=([0-9.]+)", "step 3 | Loss: 0.2500 | 12.5 it/s", r"Loss: ([0-9.]+)"),
        ("speed", r"([0-9.]+) it/s", "step 3 | 12.5it/s", "([0-9.]+)it/s"),
        ("loss", "loss=([0-9.]+)", '{"epoch": 1, "loss": 0.5}', r'"loss": ([0-9.]+)'),
        ("loss", "loss=([0-9.]+)", "{'train_loss': -0.5, 'lr': 1}", r"'train_loss': (-?[0-9.]+)"),
        ("f1", "", "eval_f1 = 6.3e-05", r"eval_f1 = ([0-9.]+)"),
        ("accuracy", r"acccuracy=(\S+)", "accuracy=0.9", r"accuracy=([0-9.]+)"),
        ("x", r"top1\s+(?P<value>\d+)", "Acc@1 7.5 (top1: 75.0)", r"top1: ([0-9.]+)"),
        ("throughput", "", "throughput (img/s): 1,234.5", r"throughput \(img/s\): ([0-9.,]+)"),
        ("loss", "^loss ([0-9.]+)", "\x1b[32m loss 0.5\x1b[0m", r"loss ([0-9.]+)"),
    ],
)
def test_a_line_that_has_the_metric_in_another_form(
    name: str, regex: str, line: str, suggested: str
) -> None:
    lines = ["Epoch 1 starts", "step 1", line, "saved at step 3"]
    found = near_line(name, regex, lines)
    plain = re.sub(r"\x1b\[\d+m", "", line).strip()
    assert found == NearLine(plain, suggested)
    assert re.search(found.regex, plain)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 1: done in 3 s",
        "lossless compression of 3 files",
        "floss 0.5 cross 1 gloss 2",
        "the loss is not printed, see file 7",
        "loss",
        "",
    ],
)
def test_other_lines_are_not_shown(line: str) -> None:
    assert near_line("loss", r"step (?P<step>\d+) loss=(?P<value>[0-9.]+)", [line]) is None


@pytest.mark.parametrize(("count", "is_found"), [(999, True), (1000, False)])
def test_a_thousand_different_names_are_compared(count: int, is_found: bool) -> None:
    lines = [*(f"key{number}=1" for number in range(count)), "key0=2", "train_loss=1"]
    assert (near_line("loss", "", lines) is not None) is is_found


@pytest.mark.parametrize(
    "counter", ["step", "epoch", "iter", "iteration", "value", "rank", "worker"]
)
def test_a_counter_beside_the_metric_is_not_the_metric(counter: str) -> None:
    """Many regexes have one, such as for the step."""
    assert near_line("loss", rf"{counter} \d+ loss=([0-9.]+)", [f"{counter} 3 is done"]) is None


def test_a_long_line_is_shown_around_the_number() -> None:
    found = near_line("loss", "loss=([0-9.]+)", [f"{'x' * 500} Loss: 0.5 {'y' * 500}"])
    assert found is not None
    assert found.regex == "Loss: ([0-9.]+)"
    assert "Loss: 0.5" in found.text
    assert len(found.text) <= 120
