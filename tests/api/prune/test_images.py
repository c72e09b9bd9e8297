"""`rsctl prune --images`, with an engine that a test can fill."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.api.prune.images import built_at
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.cli.app import run as rsctl
from rsctl.findings import JobState
from rsctl.runs.home import run_directory
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import StateEvent, now

ENGINE = f"""#!{sys.executable} -IS
import json, os, sys
path = os.path.join(os.path.dirname(sys.argv[0]), "images.json")
images = json.load(open(path))
command, *arguments = sys.argv[1:]
if [command, *arguments[:1]] == ["image", "ls"]:
    assert "label=dev.rsctl.spec" in arguments
    print("\\n".join(image["Id"] for image in images for _ in image["RepoTags"] or [1]))
elif [command, *arguments[:1]] == ["image", "inspect"]:
    print(json.dumps([image for image in images if image["Id"] in arguments]))
elif [command, *arguments[:1]] == ["image", "rm"]:
    if arguments[1].startswith("used"):
        sys.exit("Error response from daemon: conflict: container 0123 uses it")
    for image in images:
        image["RepoTags"] = [tag for tag in image["RepoTags"] if tag != arguments[1]]
    left = [image for image in images if image["RepoTags"]]
    json.dump(left, open(path, "w"))
elif command != "version":
    sys.exit("unexpected: " + " ".join(sys.argv))
"""

Fill = Callable[..., Path]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Makes a `docker` that has images of these names, built long ago."""

    def fill(*names: str, created: str = "2026-01-31T12:00:00.123456789Z") -> Path:
        (tmp_path / "docker").write_text(ENGINE)
        (tmp_path / "docker").chmod(0o755)
        images = [
            {"Id": f"sha256:{index}", "Created": created, "Size": 10**9, "RepoTags": [name]}
            for index, name in enumerate(names)
        ]
        state = tmp_path / "images.json"
        state.write_text(json.dumps(images))
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return state

    return fill


def add_run(name: str, state: JobState, **plan: object) -> None:
    store = Store()
    how = {"target": "compose", "url": name, "state": JobState.QUEUED, "created": now()}
    store.add(RunRecord(run=name, name="j", plan=plan, **how))
    store.record(name, StateEvent(time=now(), state=state))


def left(state: Path) -> list[str]:
    return [tag for image in json.loads(state.read_text()) for tag in image["RepoTags"]]


def test_images_that_nothing_uses_go(engine: Fill, capsys: pytest.CaptureFixture[str]) -> None:
    state = engine(
        "rsctl/a:1", "rsctl/b:2", "localhost/rsctl/c:3", "rsctl/d:4", "used/e:5", "r/f:6"
    )
    add_run("old-aaaaaa", JobState.SUCCEEDED, image={"tag": "rsctl/a:1"})
    add_run("new-bbbbbb", JobState.SUCCEEDED, image={"tag": "rsctl/b:2"})
    add_run("new-cccccc", JobState.FAILED, request={"services": {"w": {"image": "rsctl/c:3"}}})
    run_directory("new-cccccc").mkdir(parents=True)
    (run_directory("new-cccccc") / "rehearsal.json").write_text('{"image": "r/f:6"}')
    bench = BenchRecord(
        bench="b",
        name="b",
        target="compose",
        definition="b",
        created=now(),
        cells=[{}],
        state=JobState.SUCCEEDED,
        ended=now(),
        images={"rsctl/d:4": "rsctl/d@sha256:0"},
    )
    Benches(Store()).claim(bench)
    Benches(Store()).begin("b", Trial(cell=0, repetition=0, run="new-cccccc"))
    assert rsctl(["prune", "--keep", "2", "--images", "--dry-run"]) == 0
    assert len(left(state)) == 6
    capsys.readouterr()
    assert rsctl(["prune", "--keep", "2", "--images", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(item["kind"], item["name"]) for item in shown["removed"]] == [
        ("run", "old-aaaaaa"),
        ("image", "rsctl/a:1"),
    ]
    assert shown["bytes"] >= 10**9
    assert shown["kept"] == [
        {
            "name": "used/e:5",
            "reason": "Error response from daemon: conflict: container 0123 uses it",
        }
    ]
    assert left(state) == ["rsctl/b:2", "localhost/rsctl/c:3", "rsctl/d:4", "used/e:5", "r/f:6"]


def test_images_that_are_younger_stay(engine: Fill, capsys: pytest.CaptureFixture[str]) -> None:
    state = engine("rsctl/a:1", created=now())
    assert rsctl(["prune", "--images"]) == 0
    assert left(state) == ["rsctl/a:1"]
    assert rsctl(["prune", "--keep", "0", "--images"]) == 0
    assert left(state) == []
    assert capsys.readouterr().err == "nothing to remove\nremoved: 1 image, 1 GB\n"


def test_an_image_without_a_date_is_old(engine: Fill) -> None:
    """Docker omits it since 25.0 (https://github.com/moby/moby/pull/47451)."""
    state = engine("rsctl/a:1", "rsctl/b:2")
    first, second = json.loads(state.read_text())
    del first["Created"]
    state.write_text(json.dumps([first, {**second, "Created": now()}]))
    assert rsctl(["prune", "--images"]) == 0
    assert left(state) == ["rsctl/b:2"]


def test_without_an_engine_nothing_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run("old-aaaaaa", JobState.SUCCEEDED)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rsctl(["prune", "--keep", "0", "--images"]) == 3
    assert capsys.readouterr().err == (
        "error: no container engine answers here\n"
        "    -> start Docker or Podman, or run the command without --images\n"
    )
    assert Store().ids() == {"old-aaaaaa"}


@pytest.mark.parametrize(
    "created", ["2026-01-31T12:00:00.123456789Z", "2026-01-31T13:00:00.123456+01:00"]
)
def test_engines_write_times_in_several_ways(created: str) -> None:
    from rsctl.images.built_images import BuiltImage

    assert built_at(BuiltImage("i", created, 1, [], [])).startswith("2026-01-31T12:00:00.1234")
