"""A rehearsed job on Vertex AI with local source for an image that is used without changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.docker import BASE, needs_docker
from tests.kit.packages import DDP_SCRIPT

from ..conftest import Rsctl, rehearsed


def rehearse(rsctl: Rsctl, kind: str, **keys: Any) -> Any:
    return rsctl("submit", rsctl.write_job(**keys), *rehearsed("vertex", kind), "-o", "json")


def lines(done: Any, replica: str) -> list[str]:
    logs = [event for event in done.events if event["type"] == "log"]
    return [event["text"] for event in logs if event["replica"] == replica]


@pytest.mark.parametrize("kind", ["process", pytest.param("docker", marks=needs_docker)])
def test_the_source_runs(rsctl: Rsctl, kind: str) -> None:
    (rsctl.folder / "source").mkdir()
    script = "import os, sys\nprint(os.environ['RSCTL_REPLICA'], sys.argv[1:])\n"
    (rsctl.folder / "source" / "train.py").write_text(script)
    done = rehearse(
        rsctl,
        kind,
        image={"uri": BASE},
        run={"script": "train.py", "args": {"lr": 0.1}, "launcher": "once"},
    )
    assert done.exit_code == 0, done.stderr
    assert "note: image.source goes to bucket rsctl-rehearsal: " in done.stderr
    assert "worker-0 ['--lr', '0.1']" in lines(done, "worker-0")


def test_it_trains_over_reducers(rsctl: Rsctl, torch_forks: dict[str, str]) -> None:
    (rsctl.folder / "source").mkdir()
    shutil.copy(DDP_SCRIPT, rsctl.folder / "source" / "train.py")
    done = rehearse(
        rsctl,
        "process",
        image={"uri": BASE},
        run={"script": "train.py", "env": {"CUDA_VISIBLE_DEVICES": "", **torch_forks}},
        workers={"count": 2},
        reducers={"count": 1},
    )
    assert done.exit_code == 0, done.stderr
    hybrid = "2 workers, 1 reducer sums a part, workers the rest (hybrid), Python engine"
    assert any(hybrid in line for line in lines(done, "worker-0"))


@needs_docker
def test_an_image_without_python_is_reported(rsctl: Rsctl, tmp_path: Path) -> None:
    """The base without what is on its PATH."""
    image = f"p-package-{tmp_path.name}".lower()
    dockerfile = f"FROM {BASE}\nENV PATH=/nowhere\n"
    build = ["docker", "build", "--quiet", "--tag", image, "-"]
    subprocess.run(build, input=dockerfile, text=True, check=True, capture_output=True)
    try:
        run = {"command": ["train"], "launcher": "once"}
        done = rehearse(rsctl, "docker", image={"uri": image}, run=run)
        assert done.exit_code == 1
        failure = done.events[-1]["first_failure"]
        assert (failure["replica"], failure["exit_code"]) == ("worker-0", 128)
        assert 'exec: "python3": executable file not found in $PATH' in "\n".join(failure["lines"])
        assert [cause["code"] for cause in failure["causes"]] == ["python"]
    finally:
        subprocess.run(["docker", "image", "rm", "--force", image], capture_output=True)
