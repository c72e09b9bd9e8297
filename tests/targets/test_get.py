"""Whole jobs, and what they have left brought home, by the command line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kit.docker import needs_docker
from tests.kit.polling import wait_until

from .conftest import Rsctl, rehearsed

TRAIN = """\
import os
from pathlib import Path
outputs, checkpoints = (Path(os.environ[f"RSCTL_{n}_DIR"]) for n in ("OUTPUT", "CHECKPOINT"))
(outputs / "sub").mkdir(exist_ok=True)
(outputs / "sub" / "weights").write_bytes(bytes(range(256)) * 20_000)
(checkpoints / "step 1.pt").write_bytes(b"one")
(outputs / "out").symlink_to("/etc/passwd")
print("written", flush=True)
"""
WEIGHTS = bytes(range(256)) * 20_000
CLOUDS = {
    "vertex": {"outputs": "gs://rehearsal-bucket/out", "checkpoints": "gs://rehearsal-bucket/ck"},
    "sagemaker": {"checkpoints": "s3://rehearsal-bucket/ck"},
}


def write_training(rsctl: Rsctl, text: str = TRAIN, **keys: Any) -> str:
    keys.setdefault("image", {"base": "rsctl-test-base:1"})
    job = rsctl.write_job(run={"script": "train.py", "launcher": "once"}, **keys)
    (rsctl.folder / "source" / "train.py").write_text(text)
    return job


def content_of(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
    assert not [path for path in files if path.is_symlink()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def check_home(rsctl: Rsctl, run: str, folder: Path) -> None:
    there = content_of(folder)
    del there[".rsctl-get"]
    log = there.pop("logs/worker-0.log")
    assert b" o written\n" in log
    events = [json.loads(line) for line in there.pop("logs/states.ndjson").splitlines()]
    assert [e["state"] for e in events if e["type"] == "state"][-1] == "succeeded"
    assert there == {"outputs/sub/weights": WEIGHTS, "checkpoints/step 1.pt": b"one"}
    again = rsctl("get", run, str(folder), "-o", "json")
    assert again.exit_code == 0, again.stderr
    assert {file["state"] for file in json.loads(again.stdout)["files"]} == {"unchanged"}


@pytest.mark.parametrize("target", ["process", *CLOUDS])
def test_all_that_a_job_left(rsctl: Rsctl, target: str) -> None:
    how = rehearsed(target) if target in CLOUDS else ("-t", target)
    job = write_training(rsctl, **CLOUDS.get(target, {}))
    done = rsctl("submit", job, *how, "--get", "home")
    assert done.exit_code == 0, done.stderr
    assert "home: 4 files fetched, 5.12 MB" in done.stderr
    assert re.search(r"is skipped: it is neither|skipped: neither", done.stderr)
    check_home(rsctl, "@last", rsctl.folder / "home")


@needs_docker
def test_all_that_containers_left(rsctl: Rsctl) -> None:
    done = rsctl("submit", write_training(rsctl), "-t", "compose", "--get", "home")
    assert done.exit_code == 0, done.stderr
    check_home(rsctl, "@last", rsctl.folder / "home")


def test_a_job_that_failed_keeps_its_exit_code(rsctl: Rsctl) -> None:
    job = write_training(rsctl, TRAIN + "raise SystemExit(3)\n")
    (rsctl.folder / "a file").touch()
    done = rsctl("submit", job, "-t", "process", "--get", "home")
    assert done.exit_code == 1
    assert (rsctl.folder / "home" / "outputs" / "sub" / "weights").read_bytes() == WEIGHTS
    done = rsctl("submit", job, "-t", "process", "--get", "a file", "-o", "json")
    assert (done.exit_code, done.result["exit_code"]) == (1, 1)
    assert "error: cannot write a file: " in done.stderr
    assert f"warning: some results of {done.result['run']} are missing" in done.stderr
    assert done.stderr.endswith(f"to continue: rsctl get {done.result['run']} 'a file'\n")


def test_a_choice_of_it(rsctl: Rsctl) -> None:
    assert rsctl("submit", write_training(rsctl), "-t", "process").exit_code == 0
    done = rsctl("get", "@last", "--only", "checkpoints", "--only", "logs", "--include", "*.pt")
    assert done.exit_code == 0, done.stderr
    [run] = rsctl.runs()
    assert sorted(content_of(rsctl.folder / run["run"])) == [
        ".rsctl-get",
        "checkpoints/step 1.pt",
    ]
    done = rsctl("get", "@last", "--only", "output")
    assert done.exit_code == 2
    inside = rsctl("get", "@last", run["results"]["outputs"] + "/home")
    assert inside.exit_code == 2
    assert "which would be copied into it" in inside.stderr


def test_a_job_that_was_submitted_elsewhere(rsctl: Rsctl) -> None:
    """Its URL is all there is: another machine has sent it. The connection is cut, too."""
    (rsctl.folder / "train.py").write_text(TRAIN)
    job = {
        "name": "t",
        "image": {"uri": "us-docker.pkg.dev/p/r/i:1"},
        "run": {"command": ["python3", "train.py"], "launcher": "once"},
        "targets": {"vertex": {"project": "rehearsal", "region": "us-central1"}},
        **CLOUDS["vertex"],
    }
    (rsctl.folder / "job.yaml").write_text(json.dumps(job))
    rsctl.emulate("vertex", "storage.objects.get:cut=half,times=3")
    done = rsctl("submit", "job.yaml", "-t", "vertex", "-o", "json")
    assert done.exit_code == 0, done.stderr
    url = done.result["url"]
    rsctl.env["RSCTL_HOME"] = str(rsctl.home / "another")
    got = rsctl("get", url, "home", "-o", "json")
    assert got.exit_code == 0, got.stderr
    files = {file["path"]: file for file in json.loads(got.stdout)["files"]}
    assert files["outputs/sub/weights"]["checksum"] == "md5"
    assert files["outputs/sub/weights"]["location"] == "gs://rehearsal-bucket/out"
    check_home(rsctl, url, rsctl.folder / "home")
    pages = json.loads(rsctl("open", url, "-o", "json").stdout)["pages"]
    assert list(pages) == ["console", "logs"]


def test_folders_are_what_there_is_to_open(rsctl: Rsctl) -> None:
    assert rsctl("submit", write_training(rsctl), "-t", "process").exit_code == 0
    [run] = rsctl.runs()
    own = rsctl.home / "runs" / run["run"]
    assert rsctl("open", "@last").stdout.splitlines() == [
        f"run          {own}",
        f"outputs      {own}/outputs",
        f"checkpoints  {own}/checkpoints",
    ]
    refused = rsctl("open", "@last", "console")
    assert refused.exit_code == 2
    assert "has no page console" in refused.stderr


def test_two_at_once_do_not_mix(rsctl: Rsctl) -> None:
    import fcntl

    assert rsctl("submit", write_training(rsctl), "-t", "process").exit_code == 0
    (rsctl.folder / "home").mkdir()
    with open(rsctl.folder / "home" / ".rsctl-get", "w") as index:
        fcntl.flock(index, fcntl.LOCK_EX)
        busy = rsctl("get", "@last", "home")
    assert busy.exit_code == 2
    assert "another rsctl get is writing to home" in busy.stderr
    shutil.rmtree(rsctl.folder / "home")
    wait_until(lambda: rsctl("get", "@last", "home").exit_code == 0)
