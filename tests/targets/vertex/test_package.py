"""Target vertex: local source for an image that is used without changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.images.package import LOADER, make_package
from rsctl.job.document import read
from tests.kit.rendering import RUN, merged

from .rendering import GOOGLE_REDUCERS, URI, findings_of, render, reported, vertex

STAGED = {"image": {"source": "src"}, **vertex(staging="gs://bucket/staging/")}
ENV = [
    {"name": "RSCTL_OUTPUT_DIR", "value": "/gcs/bucket/runs"},
    {"name": "RSCTL_CHECKPOINT_DIR", "value": "/gcs/bucket/runs/checkpoints"},
    {"name": "RSCTL_RUN", "value": RUN},
    {"name": "RSCTL_TARGET", "value": "vertex"},
]


@pytest.fixture(autouse=True)
def _source(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print()\n")


def pools(folder: Path, changes: dict[str, Any]) -> list[dict[str, Any]]:
    plan = render(folder, merged(STAGED, changes))
    found: list[dict[str, Any]] = plan["request"]["body"]["jobSpec"]["workerPoolSpecs"]
    return found


def test_the_container_begins_with_the_package(tmp_path: Path) -> None:
    [chief] = pools(tmp_path, {"run": {"launcher": "once"}})
    digest = make_package(read(str(tmp_path / "job.yaml")).require_job()).digest
    assert chief["containerSpec"] == {
        "imageUri": URI,
        "command": [
            "python3",
            "-I",
            "-c",
            LOADER,
            f"/gcs/bucket/staging/packages/{digest}/package.tar.gz",
            digest,
        ],
        "args": ["--launcher", "once", "--", "python", "train.py"],
        "env": ENV,
    }


def test_own_reducers_begin_with_it_too(tmp_path: Path) -> None:
    chief, others, reducers = pools(tmp_path, {"workers": {"count": 2}, "reducers": {"count": 1}})
    assert chief["containerSpec"]["command"][:4] == ["python3", "-I", "-c", LOADER]
    assert others["containerSpec"] == reducers["containerSpec"] == chief["containerSpec"]


def test_googles_reducers_do_not(tmp_path: Path) -> None:
    workers = {"count": 2, "machine": "n1-highmem-96", "accelerator": "v100:8"}
    chief, _, reducers = pools(tmp_path, {"workers": workers, "reducers": {"count": 4}})
    assert chief["containerSpec"]["command"][:4] == ["python3", "-I", "-c", LOADER]
    assert reducers["containerSpec"] == {"imageUri": GOOGLE_REDUCERS}


def test_a_changed_file_is_another_request(tmp_path: Path) -> None:
    before = pools(tmp_path, {})
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    assert pools(tmp_path, {}) != before


def test_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "src" / "data").symlink_to("/data")
    found = [f for f in findings_of(tmp_path, STAGED) if f.code != "timeout"]
    notes = [reported(finding) for finding in found]
    assert notes[:1] == [
        "note image.uri: the image is used without changes: it must have Python 3.10 or newer, "
        "as python3 -> None"
    ]
    assert notes[-1] == (
        "note image.source: not in the package: data (a link that points outside the folder) -> "
        "copy the file that it points to into the folder"
    )


def test_it_needs_a_bucket(tmp_path: Path) -> None:
    found = findings_of(tmp_path, {"image": {"source": "src"}})
    assert [reported(finding) for finding in found if finding.is_error] == [
        "error targets.vertex.staging: rsctl delivers image.source through a bucket if the image "
        "is used without changes -> set targets.vertex.staging: gs://BUCKET/FOLDER"
    ]


def test_a_bucket_without_a_folder(tmp_path: Path) -> None:
    [chief] = pools(tmp_path, vertex(staging="gs://bucket"))
    assert chief["containerSpec"]["command"][4].startswith("/gcs/bucket/packages/")
