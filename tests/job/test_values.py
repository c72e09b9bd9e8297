"""What the values of a valid spec become."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rsctl.job.document import cells_of, read
from rsctl.job.job import Job, PerTarget, Targets
from rsctl.job.options import compose_options
from rsctl.job.units import (
    Accelerator,
    Count,
    Duration,
    EnvValue,
    LocalPath,
    Location,
    Rate,
    Regex,
    RelativePath,
    Size,
)


def job_of(valid: str, folder: Path, environ: dict[str, str] | None = None) -> Job:
    """The job of one of the valid files, moved into the folder with the files it speaks of."""
    file = folder / "job.yaml"
    file.write_text((Path(__file__).parent / "valid" / f"{valid}.yaml").read_text())
    return read(str(file), (), environ or {}).require_job()


def values_of(given: object) -> dict[str, str]:
    """The values of a key that has one for each target, where it has one."""
    assert isinstance(given, PerTarget)
    return {name: value for name, value in msgspec.structs.asdict(given).items() if value}


VALUE = "gs://bucket/of-vertex"


def _nested(path: str) -> dict[str, Any]:
    key, _, rest = path.partition(".")
    return {key: _nested(rest) if rest else VALUE}


def test_valid_files_have_no_findings(valid: Path, read_text: Any) -> None:
    document = read_text(valid.read_text())
    # A note says which values come from the environment.
    assert [finding for finding in document.findings if finding.severity != "note"] == []
    assert document.require_job() is document.job


@pytest.mark.parametrize(
    "path",
    [
        *("image.repository", "workers.machine", "chief.machine", "reducers.machine"),
        *("roles.ps.machine", "inputs.data.uri"),
    ],
)
@pytest.mark.parametrize(
    ("more", "setting"),
    [
        (lambda path: _nested(f"{path}.vertex"), None),
        (lambda path: {"matrix": {path: [{"vertex": VALUE}]}}, None),
        (lambda path: {"matrix": {f"{path}.vertex": [VALUE]}}, None),
        (lambda path: {"matrix": {"include": [{f"{path}.vertex": VALUE}]}}, None),
        (lambda _: {}, f"={{vertex: {VALUE}}}"),
        (lambda _: {}, f".vertex={VALUE}"),
    ],
    ids=["file", "varied", "varied alone", "cell", "setting", "setting alone"],
)
def test_a_key_may_have_a_value_for_one_target(
    read_text: Any, path: str, more: Callable[[str], dict[str, Any]], setting: str | None
) -> None:
    text = yaml.safe_dump({"name": "j", "run": {"module": "x"}, **more(path)})
    document = read_text(text, *([path + setting] if setting else []))
    assert [finding.message for finding in document.findings if finding.is_error] == []
    assert document.job.targets == Targets()  # and the options of all targets are not imported
    [(_, cell)] = cells_of(document)
    found: Any = cell.require_job()
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert str(found.vertex) == VALUE
    assert {*msgspec.structs.astuple(found)} == {found.vertex, None}


@pytest.mark.parametrize(
    ("path", "jobs"),
    [
        *(("image.repository", 2), ("chief.machine", 2), ("reducers.machine", 2)),
        *(("roles.ps.machine", 2), ("inputs.data.uri", 2), ("workers.machine", 1)),
    ],
)
def test_a_list_for_one_target_varies_the_job_unless_it_is_tried_in_turn(
    read_text: Any, path: str, jobs: int
) -> None:
    document = read_text("name: j\nrun: {module: x}\n", f"{path}.vertex=[{VALUE}, {VALUE}-2]")
    assert [finding.message for finding in document.findings if finding.is_error] == []
    assert len(cells_of(document)) == jobs


@pytest.mark.parametrize("key", ["run.args.lr", "roles.ps.env.A", "inputs.data.uri.local"])
def test_a_matrix_of_what_is_no_targets_own_needs_no_targets_options(
    read_text: Any, key: str
) -> None:
    document = read_text(f"name: j\nrun: {{module: x}}\nmatrix: {{{key}: [a, b]}}\n")
    assert document.require_job().targets == Targets()


@pytest.mark.parametrize(
    "matrix", ["{targets.vertex.region: [a, b]}", "{targets: [{vertex: {region: a}}]}"]
)
def test_a_matrix_of_a_targets_options_needs_no_others(read_text: Any, matrix: str) -> None:
    """To import the options of all targets takes time."""
    document = read_text(f"name: j\nrun: {{module: x}}\nmatrix: {matrix}\n")
    assert document.findings == []
    assert msgspec.structs.asdict(document.require_job().targets).keys() == {"vertex"}


def test_defaults(folder: Path) -> None:
    job = job_of("minimal", folder)
    assert (job.name, job.target, job.run.script, job.run.launcher) == (
        "j",
        "process",
        "train.py",
        "torchrun",
    )
    assert (job.run.args, job.run.env, job.run.module, job.run.command) == ([], {}, None, None)
    assert (job.workers.count, job.workers.processes, job.workers.accelerator) == (1, "auto", None)
    assert (job.reducers.count, job.reducers.machine) == (0, "auto")
    assert (job.comm.backend, job.comm.bucket_mb, job.comm.compression) == ("auto", "auto", "none")
    assert (job.limits.retries, job.limits.spot, job.limits.timeout) == (0, False, None)
    assert (job.inputs, job.metrics, job.matrix, job.model) == ({}, {}, {}, None)
    assert job.image.source == str(folder)
    assert compose_options(job).gpus == "auto"


def test_the_long_example(folder: Path) -> None:
    job = job_of("long", folder)
    assert job.image.python == str(folder / "requirements.txt")
    assert values_of(job.image.repository) == {
        "vertex": "us-docker.pkg.dev/my-project/train/bert",
        "sagemaker": "123456789012.dkr.ecr.us-east-1.amazonaws.com/bert",
    }
    assert job.run.args == {"epochs": 3, "lr": 2e-5}
    assert job.workers.accelerator is not None
    assert (job.workers.accelerator.type, job.workers.accelerator.per_node) == ("a100-40gb", 8)
    assert job.workers.disk == 200 * 10**9
    assert job.reducers.count == "auto"
    assert job.inputs == {"train": "gs://bucket/mnli"}
    assert (job.limits.timeout, job.limits.queue) == (7200, 1800)
    assert job.targets.compose.network.bandwidth == 10**9
    assert job.targets.compose.network.delay == pytest.approx(0.0005)
    assert (job.targets.compose.cpus, job.targets.compose.memory) == (1.0, 2 * 10**9)
    assert job.targets.sagemaker.keep_alive == 0
    assert job.model is not None
    assert job.model.parameters == 340_000_000
    assert job.matrix == {"workers.count": [2, 4], "reducers.count": [0, "auto"]}


def test_merge_keys_and_aliases(folder: Path) -> None:
    job = job_of("merge", folder)
    assert job.run.script == "train.py"
    assert (job.workers.count, job.workers.processes) == (8, 4), "first parent, then the own key"
    assert job.workers.disk == 10 * 10**9
    assert job.reducers.count == 3
    assert values_of(job.reducers.machine) == {"vertex": "n1"}


def test_forms_of_values(folder: Path) -> None:
    job = job_of("forms", folder)
    assert job.run.command == ["python", "-m", "train", "3", "1.0"]
    assert job.run.args == {
        "epochs": 3,
        "lr": 1e-5,
        "flag": True,
        "off": False,
        "text": "a b",
        "id": "007",
        "list": [1, 2.5, "x"],
        "big": 31,
    }
    assert [type(value) for value in list(job.run.args.values())[:4]] == [int, float, bool, bool]
    assert job.run.env == {"A": "1.10", "B": "true", "C": "", "D": "yes", "E": "0x1F"}
    assert job.image.source is None
    assert job.inputs["local"] == str(folder / "data")
    assert [job.inputs[name].scheme for name in ("local", "_S3", "gs")] == ["file", "s3", "gs"]
    assert job.targets.vertex.labels == {"version": "1.10", "team": "a"}
    assert job.targets.vertex.overlay == [{"op": "add", "path": "/a", "value": None}]
    assert (job.limits.retries, job.limits.timeout) == (0, None)


def test_local_paths_are_relative_to_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = folder / "jobs"
    jobs.mkdir()
    text = "name: j\nrun: {module: x}\nimage: {source: ..}\ninputs: {a: ../data}\noutputs: out\n"
    (jobs / "job.yaml").write_text(text)
    monkeypatch.chdir(jobs)
    for path in (str(jobs / "job.yaml"), "job.yaml", "../jobs/job.yaml"):
        job = read(path).require_job()
        assert job.image.source == str(folder)
        assert job.inputs["a"] == str(folder / "data")
        assert job.outputs == str(jobs / "out")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("1", 1),
        ("-1", -1),
        ("+5", 5),
        ("0", 0),
        ("0x1f", 31),
        ("0o17", 15),
        ("017", "017"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-02", "2024-01-02"),
        ("1.5", 1.5),
        ("1e-5", 1e-5),
        ("2.0e-5", 2e-5),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("'1'", "1"),
        ('"true"', "true"),
        ("'~'", "~"),
        ("1.2.3", "1.2.3"),
        ("nan", "nan"),
        ("=", "="),
        ("a: b", None),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_scalars_by_yaml_1_2(read_text: Any, text: str, value: object) -> None:
    document = read_text(f"name: j\nrun:\n  module: x\n  args:\n    a: {text}\n")
    if value is None:
        assert document.has_errors
    else:
        read_value = document.require_job().run.args["a"]
        assert (read_value, type(read_value)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Duration, "90s", 90),
        (Duration, "1h30m", 5400),
        (Duration, "0.5ms", 0.0005),
        (Duration, "250us", 0.00025),
        (Duration, "2d", 172800),
        (Duration, "1d2h3m4s", 93784),
        (Duration, "0s", 0),
        (Duration, "366d", 366 * 86400),
        (Size, "1B", 1),
        (Size, "2KB", 2000),
        (Size, "3MB", 3 * 10**6),
        (Size, "200GB", 200 * 10**9),
        (Size, "1.5TB", 1500 * 10**9),
        (Size, "1KiB", 1024),
        (Size, "1MiB", 2**20),
        (Size, "2GiB", 2**31),
        (Size, "1TiB", 2**40),
        (Rate, "9bit", 9),
        (Rate, "1kbit", 1000),
        (Rate, "200Mbit", 2 * 10**8),
        (Rate, "2.5Gbit", 25 * 10**8),
        (Rate, "1Tbit", 10**12),
        (Rate, "1Gbit/s", 10**9),
        (Count, "7", 7),
        (Count, "3K", 3000),
        (Count, "340M", 340 * 10**6),
        (Count, "1.5B", 15 * 10**8),
        (Count, "2T", 2 * 10**12),
        (Accelerator, "t4", "t4"),
        (Regex, "(a)", "(a)"),
        (RelativePath, "src/train.py", "src/train.py"),
        (RelativePath, "a..b/c", "a..b/c"),
    ],
)
def test_every_unit(kind: Any, text: str, value: Any) -> None:
    parsed = kind.parse(text)
    assert isinstance(parsed, kind)
    assert parsed == pytest.approx(value) if isinstance(value, float) else parsed == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration, ""),
        (Duration, "1"),
        (Duration, "h"),
        (Duration, "1 h"),
        (Duration, "1h\n"),
        (Duration, "٣h"),
        (Duration, "367d"),
        (Size, "1GB/s"),
        (Size, "1gb"),
        (Size, "1.GB"),
        (Rate, "1GB"),
        (Rate, "1Kbit"),
        (Count, "1.5X"),
        (Count, "-1"),
        (Accelerator, "a100:100"),
        (Accelerator, ":8"),
        (RelativePath, "a/../b"),
        (RelativePath, ".."),
        (RelativePath, "-m"),
        (RelativePath, "a\nb"),
    ],
)
def test_what_is_no_unit(kind: Any, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kind.parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [("90s", "1m30s"), ("5400s", "1h30m"), ("0.5ms", "0.5ms"), ("0s", "0s"), ("36h", "1d12h")],
)
def test_durations_are_written_shortly(text: str, written: str) -> None:
    assert str(Duration.parse(text)) == written


@settings(derandomize=True, max_examples=200)
@given(st.floats(min_value=0.000001, max_value=366 * 86400))
def test_a_duration_can_read_what_it_writes(seconds: float) -> None:
    again = Duration.parse(str(Duration(seconds)))
    assert math.isclose(again, seconds, rel_tol=1e-6, abs_tol=1e-6)


def test_paths_and_places() -> None:
    assert LocalPath.parse("a/../b", "/base") == "/base/b"
    assert LocalPath.parse("/a", Path("/base")) == "/a"
    assert Location.parse("data set/x:1", "/base") == "/base/data set/x:1"
    assert Location.parse("s3://bucket", "/base").scheme == "s3"
    assert EnvValue("x").secret is False
    assert (Accelerator("a100-40gb:8").type, Accelerator("t4").per_node) == ("a100-40gb", 1)
