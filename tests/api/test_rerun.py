"""The image of a run that is submitted again to a cloud."""

from __future__ import annotations

from pathlib import Path

from rsctl.api.job_file import load
from rsctl.api.rerun import _with_image
from rsctl.api.submission import PreparedRun
from rsctl.plan import make_plan
from rsctl.runs.folder import RunFolder
from rsctl.targets import get
from tests.api.recorded import add

JOB = """
name: j
target: vertex
image: {base: "base:1", source: src, repository: us-central1-docker.pkg.dev/p/r/i}
run: {script: train.py, launcher: once}
targets: {vertex: {project: my-project, region: us-central1, staging: gs://bucket/x}}
"""
SENT = "us-central1-docker.pkg.dev/p/r/i@sha256:" + "0" * 64


def test_a_changed_source_gets_the_image_that_was_sent(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(JOB)
    run = add("j-1", "succeeded", "vertex", plan={"image": {"tag": "old:1", "transport": "none"}})
    folder = RunFolder("j-1")
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.note_image(SENT)
    target = get("vertex")
    submission = make_plan(load(tmp_path / "job.yaml").copy_document(), target, "j-2")
    prepared = _with_image(PreparedRun(submission, (), target=target), run)
    assert (prepared.plan.image.tag, prepared.plan.image.reference) == ("old:1", SENT)
