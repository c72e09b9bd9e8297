"""Values are set in a job file whose text stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.job.edit import write_values

HEAD = "name: demo  # the job\nrun:\n  command: [echo]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "reducers:\n  count: auto  # how many\n",
            "reducers:\n  count: 4  # how many\n",
        ),
        ('reducers: {count: "auto"} # all\n', "reducers: {count: 4} # all\n"),
        ("reducers: {machine: auto}\n", "reducers: {count: 4, machine: auto}\n"),
        (
            "reducers:\n    # where\n    machine: auto\n\nworkers: {count: 2}",
            "reducers:\n    # where\n    count: 4\n    machine: auto\n\nworkers: {count: 2}",
        ),
        ("# the end\n", "# the end\nreducers:\n  count: 4\n"),
        ("# the end", "# the end\nreducers:\n  count: 4\n"),
        ("reducers:\r\n  count: 0\r\n", "reducers:\r\n  count: 4\r\n"),
    ],
)
def test_only_the_value_changes(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes((HEAD + before).encode())
    write_values(str(path), {"reducers.count": "4"})
    assert path.read_bytes() == (HEAD + after).encode()
    assert [child.name for child in tmp_path.iterdir()] == ["job.yaml"]


def test_a_value_that_is_a_variable_is_left(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    text = HEAD + "reducers: {count: '${REDUCERS:-2}'}\n"
    path.write_text(text)
    with pytest.raises(RsctlError) as refusal:
        write_values(str(path), {"reducers.count": "4"})
    assert refusal.value.findings[0].remedy == "edit the file yourself: reducers.count: 4"
    assert path.read_text() == text


def test_a_value_that_others_share_is_left(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    text = HEAD + "x-bits: &b {count: 2}\nworkers: *b\nreducers: *b\n"
    path.write_text(text)
    with pytest.raises(RsctlError, match="without touching other keys"):
        write_values(str(path), {"reducers.count": "4"})
    assert path.read_text() == text


def test_several_values_at_once(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(HEAD)
    write_values(str(path), {"reducers.count": "4", "reducers.machine": "n1-highcpu-16"})
    assert path.read_text() == HEAD + "reducers:\n  machine: n1-highcpu-16\n  count: 4\n"
