"""What launcher mpi goes together with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.job.document import read

JOB = """\
name: a
image: {base: b}
run: {command: [a], launcher: %s}
workers: {count: 2}
"""


def findings(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    found = read(str(path), {}).findings
    return [f"{f.severity} {f.path}: {f.message} -> {f.remedy}" for f in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JOB % "mpi", []),
        (JOB % "mpi" + "reducers: {count: 0}\n", []),
        (
            JOB % "mpi" + "reducers: {count: 2}\n",
            [
                "error reducers.count: launcher mpi does not use rsctl's reducers -> "
                "use launcher torchrun, or set reducers.count: 0"
            ],
        ),
        (
            JOB % "mpi" + "chief: {args: [b]}\n",
            [
                "error chief.args: mpirun starts one command line for all ranks -> let the "
                "script read RANK, or use launcher torchrun"
            ],
        ),
    ],
)
def test_what_it_cannot_have(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert findings(tmp_path, text) == expected


@pytest.mark.parametrize("word", ["mpirun", "horovodrun", "MPI"])
def test_other_launchers_words_are_pointed_to_it(tmp_path: Path, word: str) -> None:
    [found] = findings(tmp_path, JOB % word)
    assert found.endswith(("-> write mpi", "-> rsctl calls it mpi"))
