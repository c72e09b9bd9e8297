"""Target process under another environment's Python, which has nothing of rsctl."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.images import context
from rsctl.images.context import ContextEntry
from rsctl.job.document import Document, read
from rsctl.targets.local.other_python import probe
from rsctl.targets.local.source_copy import copy_source

from ..conftest import Rsctl
from .planning import JOB
from .planning import document as document

SHOW = (
    "import importlib.util as u, os, shutil, sys\n"
    "from rsctl.node import log_metrics\n"
    "log_metrics(step=1, loss=0.5)\n"
    "print('prefix', os.path.realpath(sys.prefix), flush=True)\n"
    "print('python', shutil.which('python'), flush=True)\n"
    "print('others', *filter(u.find_spec, ('msgspec', 'torch', 'typer')), '.', flush=True)\n"
)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without packages."""
    folder = tmp_path_factory.mktemp("other") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_a_job_runs_under_another_environments_python(
    rsctl: Rsctl, tmp_path: Path, other: Path
) -> None:
    (tmp_path / "train.py").write_text(SHOW)
    before = files(other)
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        image={"source": str(tmp_path)},
        targets={"process": {"python": str(other / "bin" / "python")}},
        metrics={"loss": {"goal": "min"}},
        workers={"count": 2},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr
    shown = {line.partition(" | ")[2] for line in done.stdout.splitlines()}
    assert shown == {
        "step 1  loss=0.5",
        f"prefix {other.resolve()}",
        f"python {other}/bin/python",
        "others .",
    }
    assert files(other) == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "give the interpreter in it: {other}/bin/python"),
        ("bin/nothing", "is not a program"),
        ("pyvenv.cfg", "is not a program"),
    ],
)
def test_what_is_not_an_interpreter_is_an_error_of_the_plan(
    rsctl: Rsctl, other: Path, path: str, message: str
) -> None:
    job = rsctl.write_job(bash="true", targets={"process": {"python": str(other / path)}})
    done = rsctl("plan", job)
    assert done.exit_code == 2
    assert message.format(other=other) in done.stderr
    assert "targets.process.python" in done.stderr


@pytest.mark.parametrize(
    ("program", "launcher", "expected"),
    [
        ("echo 3 10 True", "torchrun", None),
        ("echo 3 10 False", "once", None),
        ("echo hello from sitecustomize; echo 3 10 True", "torchrun", None),
        (
            "echo 'path configuration:' >&2; echo 'Fatal Python error: no encodings' >&2; exit 1",
            "once",
            (
                "python",
                "cannot run {python} as a Python interpreter: Fatal Python error: no encodings",
            ),
        ),
        ("echo hello", "once", ("python", "{python} is not a Python interpreter")),
        ("", "once", ("python", "{python} is not a Python interpreter")),
        ("exit 1", "once", ("python", "cannot run {python} as a Python interpreter: ")),
        (
            "echo 3 9 True",
            "once",
            ("python", "{python} is Python 3.9; the launcher needs 3.10 or newer"),
        ),
        (
            "echo 3 10 False",
            "torchrun",
            ("torch", "launcher torchrun needs torch, which {python} does not have"),
        ),
    ],
)
def test_what_the_program_says_of_itself(
    tmp_path: Path, program: str, launcher: str, expected: tuple[str, str] | None
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text(
        f"name: t\nrun: {{script: train.py, launcher: {launcher}}}\nimage: {{source: .}}\n"
        f"targets: {{process: {{python: {python}}}}}\n"
    )
    found = probe(read(str(tmp_path / "job.yaml"), ()).require_job())
    shown = [(finding.code, finding.message.partition("Command ")[0]) for finding in found]
    assert shown == ([(expected[0], expected[1].format(python=python))] if expected else [])
    assert all(finding.remedy for finding in found)


def test_torchrun_needs_torch_where_the_job_runs(rsctl: Rsctl, tmp_path: Path, other: Path) -> None:
    (tmp_path / "train.py").touch()
    python = other / "bin" / "python"
    job = rsctl.write_job(
        run={"script": "train.py"},
        image={"source": str(tmp_path)},
        targets={"process": {"python": str(python)}},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 3
    assert f"launcher torchrun needs torch, which {python} does not have" in done.stderr


def test_a_copy_of_the_source_leaves_nothing_for_the_next_run(rsctl: Rsctl, tmp_path: Path) -> None:
    """A script that resumes from a snapshot beside itself begins anew in every run."""
    source = tmp_path / "code"
    source.mkdir()
    (source / "latest").symlink_to("train.sh")
    (source / "train.sh").write_text("[ -e snapshot.pt ] && echo resumed || echo fresh\n")
    command = ["bash", "-c", "sh latest; [ $RSCTL_REPLICA = worker-0 ] && touch snapshot.pt; true"]
    of = {"run": {"command": command, "launcher": "once"}, "image": {"source": str(source)}}
    copied = rsctl.write_job(**of, targets={"process": {"workdir": "copy"}})
    for _ in range(2):
        done = rsctl("submit", copied)
        assert (done.exit_code, done.stdout) == (0, "worker-0 | fresh\n"), done.stderr
    assert sorted(path.name for path in source.iterdir()) == ["latest", "train.sh"]
    in_place = rsctl.write_job(**of)
    said = [rsctl("submit", in_place).stdout for _ in range(2)]
    assert said == ["worker-0 | fresh\n", "worker-0 | resumed\n"]


def test_a_file_that_goes_while_the_source_is_copied_is_named(
    document: Callable[[str], Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = document(JOB + "targets: {process: {workdir: copy}}\n").require_job()
    copy_entries = context.copy_entries

    def copy(entries: Iterable[ContextEntry], folder: Path) -> None:
        (tmp_path / "src" / "train.py").unlink()
        copy_entries(entries, folder)

    monkeypatch.setattr(context, "copy_entries", copy)
    with pytest.raises(RsctlError) as caught:
        copy_source(job, "job-1")
    [finding] = caught.value.findings
    assert finding.path == "image.source"
    assert finding.message == f"cannot read {tmp_path}/src/train.py: No such file or directory"
