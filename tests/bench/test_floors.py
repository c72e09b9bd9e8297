"""Floors that are written into a job file, of which all else stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.bench.floor_edit import write_floors
from rsctl.findings import ExitCode, RsctlError

HEAD = """\
name: j  # mine
run: {command: [a]}
metrics:
  loss: {regex: "(a)", goal: min}   # kept
  speed: {regex: "(a)", goal: max}
"""


def written(folder: Path, text: str, **floors: str) -> str:
    """What is added to the head of the file, or stands in it instead."""
    path = folder / "job.yaml"
    path.write_text(HEAD + text)
    write_floors(str(path), floors)
    found = path.read_text()
    assert found.startswith(HEAD)
    return found.removeprefix(HEAD)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "gate:\n  max_regression:\n    loss: 5%\n"),
        ("# end", "# end\ngate:\n  max_regression:\n    loss: 5%\n"),
        (
            "gate:\n  repeat: 3  # often\n",
            "gate:\n  max_regression:\n    loss: 5%\n  repeat: 3  # often\n",
        ),
        (
            "gate:\n  max_regression: {speed: 1%}\n  repeat: 3\n",
            "gate:\n  max_regression:\n    speed: 1%\n    loss: 5%\n  repeat: 3\n",
        ),
        (
            "gate:\n    max_regression:\n        loss: 0.5\n        speed: 2%\nworkers: {}\n",
            "gate:\n    max_regression:\n      loss: 5%\n      speed: 2%\nworkers: {}\n",
        ),
        (
            "gate:\n  max_regression:\n    loss: 1%\n\n    speed: 2%\n",
            "gate:\n  max_regression:\n    loss: 5%\n    speed: 2%\n",
        ),
    ],
)
def test_one_floor_is_set(tmp_path: Path, before: str, after: str) -> None:
    assert written(tmp_path, before, loss="5%") == after


def test_several_floors_at_once(tmp_path: Path) -> None:
    found = written(tmp_path, "", loss="0.2", speed="3%")
    assert found == "gate:\n  max_regression:\n    loss: 0.2\n    speed: 3%\n"


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("gate: {repeat: 3}\n", "5%"),
        ("gate: {max_regression: {speed: 1%}, repeat: 3}\n", "5%"),
        ("gate:\n  repeat: 3\n", "200%"),
        ("gate: &a\n  repeat: 3\nunknown: *a\n", "5%"),
    ],
)
def test_what_cannot_be_edited_safely_is_shown_instead(
    tmp_path: Path, text: str, floor: str
) -> None:
    with pytest.raises(RsctlError) as caught:
        written(tmp_path, text, loss=floor)
    assert caught.value.exit_code == ExitCode.USAGE
    [finding] = caught.value.findings
    assert finding.message == f"cannot edit {tmp_path / 'job.yaml'} without touching other keys"
    remedy = finding.remedy or ""
    assert remedy.startswith("write it yourself: gate:\n  max_regression:\n")
    assert f"    loss: {floor}" in remedy.splitlines()
    assert (tmp_path / "job.yaml").read_text() == HEAD + text
