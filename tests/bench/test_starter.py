"""What a bench submits to its target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rsctl.bench.prepare import prepare
from rsctl.bench.records import Benches
from rsctl.bench.starter import TrialStarter
from rsctl.job.document import read
from rsctl.runs.store import Store

JOB: dict[str, Any] = {
    "name": "sweep",
    "target": "vertex",
    "run": {"script": "train.py", "launcher": "once"},
    "image": {"base": "base:1", "source": "src", "repository": "us-docker.pkg.dev/p/r/i"},
    "outputs": "gs://bucket/out",
    "targets": {"vertex": {"project": "p", "region": "us-central1"}},
}


@pytest.mark.parametrize("digest", [None, "sha256:" + "1" * 64])
def test_runs_get_the_image_that_was_provided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None
) -> None:
    """By its digest, so that a tag that is pushed again does not change the measurement."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    prepared = prepare(read(str(tmp_path / "job.json")), (), None)
    tag = prepared.cells[0].submission.plan.image.tag
    assert tag is not None
    reference = digest and f"{tag.rpartition(':')[0]}@{digest}"
    sent: list[Any] = []
    monkeypatch.setattr(
        type(prepared.target), "submit", lambda _, submission, *__: sent.append(submission)
    )
    store = Store()
    bench = prepared.new_bench(1)
    Benches(store).claim(bench)
    bench.images = {tag: reference} if reference else {}
    starter = TrialStarter(prepared, store, 1)
    starter.add([(0, 0)], [])
    starter.start(bench, 0)
    starter.wait()
    [submission] = sent
    assert (submission.plan.image.tag, submission.plan.image.reference) == (tag, reference)
    assert [trial.run for trial in bench.trials] == [submission.plan.run]
