"""What makes a bench without an image another one: its source and its packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.bench.baseline import Baseline, encode_baseline
from rsctl.bench.formats.openmetrics import openmetrics
from rsctl.bench.formats.trackers import bencher, github_benchmark
from rsctl.bench.history import HistoryRecord, encode_record
from rsctl.bench.inputs import code_digest, packages_digest, source_digest, source_files
from rsctl.bench.results import Results, Series

FILES = {"train.py": "print()", "config.json": "{}", "ops.so": "1", "train.log": "", "job.yaml": ""}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source folder outside of any repository."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def git(source: Path, *arguments: str) -> None:
    """Run git there."""
    subprocess.run(["git", "-C", source, *arguments], check=True, capture_output=True)


def changes(source: Path, digest: Callable[[], str]) -> list[str]:
    """The files of which another content gives another digest."""
    found = []
    for name, text in FILES.items():
        before = digest()
        (source / name).write_text(f"{text} ")
        found += [name] if digest() != before else []
        (source / name).write_text(text)
        assert digest() == before
    return found


def test_without_git_code_and_configurations_count(source: Path) -> None:
    def digest() -> str:
        return source_digest(source, [source / "job.yaml"])

    assert changes(source, digest) == ["train.py", "config.json", "ops.so"]
    (source / "results.csv").write_text("what a run wrote")
    assert changes(source, digest) == ["train.py", "config.json", "ops.so"]


def test_with_git_tracked_files_and_code_count(source: Path) -> None:
    git(source, "init", "-q")
    git(source, "add", "train.py", "train.log", "job.yaml")
    found = changes(source, lambda: source_digest(source, [source / "job.yaml"]))
    assert found == ["train.py", "ops.so", "train.log"]


RECORD = HistoryRecord(commit="a", committed="b", recorded="c", job="j", of="j-bench-1", cells=[])
RESULTS = Results(
    label="j-bench-1",
    kind="bench",
    series=[
        Series(name=f"loss{runs}", goal="min", values=[float(n) for n in range(runs)])
        for runs in (1, 2, 1000)
    ],
)
OWN = {
    "history": encode_record(RECORD) * 2,
    "baseline": encode_baseline(Baseline(version=1, metrics=[])),
    "bencher": bencher(RESULTS),
    "github": github_benchmark(RESULTS, "min") or b"",
    "metrics": openmetrics(RESULTS).encode(),
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("is_tracked", [False, True])
def test_files_that_rsctl_writes_are_outputs(source: Path, kind: str, is_tracked: bool) -> None:
    before = {*source_files(source)}
    (source / "own.json").write_bytes(OWN[kind])
    if is_tracked:
        git(source, "init", "-q")
        git(source, "add", "*.json")
        before = {"file train.py", "file config.json", "file ops.so"}
    assert {*source_files(source)} == before


@pytest.mark.parametrize(
    "text",
    [
        '{"parameters": {"lr": {"value": 0.1}}}',
        '{\n "parameters": {\n  "lr": {\n   "values": 1\n  }\n }\n}\n',
        '[\n {\n  "name": "x"\n }\n]\n',
        '{"version": 1, "metrics": []}',
        "{}\n",
        "[]\n",
        "# a comment\n",
        "# TYPE rsctl_loss",
        "[" * 5000,
    ],
)
def test_other_files_of_the_same_kinds_are_inputs(source: Path, text: str) -> None:
    (source / "other.json").write_text(text)
    assert "file other.json" in source_files(source)


def test_a_folder_of_a_repository(source: Path) -> None:
    inner = source / "inner"
    inner.mkdir()
    for name, text in FILES.items():
        (inner / name).write_text(text)
    git(source, "init", "-q")
    git(source, "add", "inner/config.json")
    assert changes(inner, lambda: source_digest(inner)) == ["train.py", "config.json", "ops.so"]


def test_a_file_that_git_ignores_counts_if_it_is_code(source: Path) -> None:
    (source / ".gitignore").write_text("*\n")
    git(source, "init", "-q")
    git(source, "add", "-f", "train.py")
    assert changes(source, lambda: source_digest(source)) == ["train.py", "ops.so"]


def test_files_that_are_no_inputs_are_not_read(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source can have many files of data; a file that is copied is searched for credentials."""
    read: list[str] = []

    def note_name(item: os.DirEntry[str]) -> None:
        read.append(item.name)

    monkeypatch.setattr("rsctl.images.context.content_exclusion", note_name)
    names = ["config.json", "job.yaml", "ops.so", "train.py"]
    assert [*source_files(source)] == [f"file {name}" for name in names]
    assert read == names


def test_the_job_file_is_no_input_behind_a_link(source: Path) -> None:
    (source / "same.yaml").symlink_to("job.yaml")
    files = source_files(source, [source / "job.yaml"])
    assert sorted(files) == ["file config.json", "file ops.so", "file train.py"]


def test_the_code_alone(source: Path) -> None:
    assert changes(source, lambda: code_digest(source, "train.log")) == [
        "train.py",
        "ops.so",
        "train.log",
    ]


def test_the_packages_of_an_environment(tmp_path: Path) -> None:
    packages = tmp_path / "venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    python = tmp_path / "venv/bin/python"
    (packages / "torch-2.8.0.dist-info").mkdir()
    before = packages_digest(python)
    (packages / "torch").mkdir()
    assert packages_digest(python) == before
    (packages / "torch-2.8.0.dist-info").rename(packages / "torch-2.9.0.dist-info")
    assert packages_digest(python) != before
    assert packages_digest() == packages_digest()
