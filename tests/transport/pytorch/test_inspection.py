"""What a rank tells its launcher of the steps that DDP times by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_a_step_has_its_wait_for_the_data_loader(run: Callable[..., Any], tmp_path: Path) -> None:
    """No launcher has asked: each rank prints its last timed step by itself."""
    job = {"RSCTL_EXPECTED_RANKS": "2", "RSCTL_EXPECTED_NODES": "2"}
    ended = run("timed.py", "0.01", nodes=2, ranks=1, RSCTL_DEBUG_DIR=str(tmp_path), **job)
    assert ended.code == 0, ended.err
    steps = [step for line in ended.printed("telemetry") for step in line["ranks"]]
    assert sorted(step["rank"] for step in steps) == [0, 1]
    for step in steps:
        assert step["buckets"] == 2
        assert 5 <= step["data_ms"] <= step["step_ms"]


def test_no_thread_of_rsctl_is_in_torch_when_the_interpreter_ends(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """It would abort the process: C++ cannot leave a thread that waits for an ended interpreter."""
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = run("read_to_the_end.py", nodes=1, ranks=1, RSCTL_DEBUG_DIR=str(folder))
        assert ended.code == 0, ended.err


def test_without_a_data_loader_the_wait_is_not_known(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    ended = run("timed.py", nodes=1, ranks=1, RSCTL_DEBUG_DIR=str(tmp_path))
    [line] = ended.printed("telemetry")
    [step] = line["ranks"]
    assert step.keys() == {"rank", "buckets", "step_ms", "wait_ms"}
