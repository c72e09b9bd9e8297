"""`inputs`: a location, or {uri, mode} with one location for each target."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from rsctl.job.document import cells_of, read
from rsctl.job.inputs import GivenInput, inputs_of, without_location
from rsctl.job.job import Job
from rsctl.job.parameters import parameters_of

TEXT = """
name: j
run: {command: [a]}
inputs:
  plain: gs://bucket/plain
  data:
    uri: {vertex: gs://bucket/data, sagemaker: s3://bucket/data/, local: ./data}
    mode: copy
"""


@pytest.fixture
def job_of(tmp_path: Path) -> Any:
    def read_job(text: str, *settings: str) -> Job:
        path = tmp_path / "job.yaml"
        path.write_text(textwrap.dedent(text))
        return read(str(path), list(settings)).require_job()

    return read_job


def given(job: Job, target: str) -> list[tuple[Any, ...]]:
    return [(each.name, str(each.location), each.mode) for each in inputs_of(job, target)]


def test_each_target_has_its_own_location(job_of: Any, tmp_path: Path) -> None:
    job = job_of(TEXT)
    plain = ("plain", "gs://bucket/plain", None)
    assert given(job, "vertex") == [plain, ("data", "gs://bucket/data", "copy")]
    assert given(job, "sagemaker") == [plain, ("data", "s3://bucket/data/", "copy")]
    for target in ("process", "compose"):
        assert given(job, target) == [plain, ("data", f"{tmp_path}/data", "copy")]
    assert inputs_of(job, "process")[1].key == "inputs.data.uri.local"
    assert (given(job, "other"), without_location(job, "other")) == ([plain], ["data"])


def test_a_local_target_may_have_one_of_its_own(job_of: Any, tmp_path: Path) -> None:
    job = job_of(TEXT, "inputs.data.uri.compose=./other")
    assert given(job, "compose")[1] == ("data", f"{tmp_path}/other", "copy")
    assert given(job, "process")[1] == ("data", f"{tmp_path}/data", "copy")


def test_a_mode_can_be_set_for_the_plain_form(job_of: Any) -> None:
    job = job_of(TEXT, "inputs.plain.mode=stream", "inputs.data.mode=mount")
    assert [mode for _, _, mode in given(job, "vertex")] == ["stream", "mount"]
    assert parameters_of(job)["inputs.plain.mode"] == "stream"
    assert "inputs.plain.mode" not in parameters_of(job_of(TEXT))


def test_a_matrix_varies_the_mode_and_the_location(job_of: Any, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TEXT + "matrix: {inputs.plain.mode: [mount, copy], inputs.data.uri.local: [a]}")
    document = read(str(path), [])
    assert [finding.message for finding in document.findings] == []
    found = [inputs_of(cell.require_job(), "process") for _, cell in cells_of(document)]
    assert [[each.mode for each in inputs] for inputs in found] == [["mount", "copy"], ["copy"] * 2]
    assert {str(inputs[1].location) for inputs in found} == {f"{tmp_path}/a"}


@pytest.mark.parametrize("setting", ["inputs.plain.mode=cpy", "inputs.plain.mod=copy"])
def test_a_wrong_word_is_met_by_the_right_one(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TEXT)
    [finding] = read(str(path), [setting]).findings
    assert finding.remedy in ("did you mean 'copy'?", "did you mean 'mode'?")


def test_shards_are_known_by_their_range(job_of: Any) -> None:
    [plain, data] = inputs_of(job_of(TEXT, "inputs.plain=gs://bucket/{0..9}.tar"), "vertex")
    assert (plain.has_shards, data.has_shards) == (True, False)
    assert isinstance(plain, GivenInput)
    assert plain.variable == "RSCTL_INPUT_PLAIN"
