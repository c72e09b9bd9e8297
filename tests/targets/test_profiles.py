"""What a plan says of a profile that the job cannot make, or whose files it cannot keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.targets.vertex.rendering import findings_of, reported

BUILT = {"uri": None, "base": "python:3.12", "repository": "us-docker.pkg.dev/project/train/job"}
UNSEEN = "without it, the job runs without a profile"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"profile": {"tool": "torch"}}, []),
        (
            {"profile": {"tool": "torch"}, "run": {"launcher": "none"}},
            [
                "error profile: rsctl-launch starts the profiler, and a job with launcher none "
                "does not run it -> use launcher torchrun or once"
            ],
        ),
        ({"profile": {"tool": "torch", "ranks": [0, 1]}, "workers": {"count": 2}}, []),
        (
            {"profile": {"tool": "torch", "ranks": [0, 2]}, "workers": {"count": 2}},
            [
                "error profile.ranks: the job has 2 ranks, so rank 2 does not exist -> use ranks "
                "below 2"
            ],
        ),
        (
            {"profile": {"tool": "torch", "ranks": [1]}},
            [
                "error profile.ranks: the job has 1 rank, so rank 1 does not exist -> use ranks "
                "below 1"
            ],
        ),
        ({"profile": {"tool": "torch", "ranks": [1]}, "run": {"launcher": "once"}}, []),
        (
            {"profile": {"tool": "py-spy"}},
            [
                "note profile.tool: rsctl does not see whether the image has py-spy; "
                f"{UNSEEN} -> add py-spy to image.python"
            ],
        ),
        (
            {"profile": {"tool": "nsys"}},
            [
                f"note profile.tool: rsctl does not see whether the image has nsys; {UNSEEN} -> "
                "install it by image.run, or use an image.base that has it, such as NVIDIA's"
            ],
        ),
        ({"profile": {"tool": "py-spy"}, "image": {**BUILT, "python": ["py-spy==0.4"]}}, []),
        ({"profile": {"tool": "nsys"}, "image": {**BUILT, "run": ["apt install nsys"]}}, []),
    ],
)
def test_a_profile(tmp_path: Path, changes: dict[str, Any], expected: list[str]) -> None:
    found = [f for f in findings_of(tmp_path, changes) if str(f.path).startswith("profile")]
    assert [reported(finding) for finding in found] == expected
