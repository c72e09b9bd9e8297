"""What is particular to nodes that are processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.managed.emulator.nodes import ANY_IMAGE, Node, Program
from rsctl.targets.managed.emulator.nodes.process import ProcessRunner
from rsctl.targets.managed.emulator.nodes.root import Root
from rsctl.targets.managed.emulator.nodes.runners import make_runner

from .conftest import Heard


@pytest.mark.parametrize(
    ("text", "led"),
    [
        ("/gcs", "ROOT/gcs"),
        ("/gcs/b/p", "ROOT/gcs/b/p"),
        ("--data=/gcs/b", "--data=ROOT/gcs/b"),
        ("/gcs-other/b", "/gcs-other/b"),
        ("see /gcs/b", "see /gcs/b"),
        ("/opt/ml/input", "ROOT/opt/ml/input"),
        ("", ""),
    ],
)
def test_mounted_paths_are_led_below_the_root(tmp_path: Path, text: str, led: str) -> None:
    root = Root(tmp_path / "root", {"/gcs": tmp_path / "g", "/opt/ml": tmp_path / "m"})
    assert root.leads(text) == led.replace("ROOT", str(tmp_path / "root"))


def test_a_root_is_made_anew(tmp_path: Path) -> None:
    for _ in range(2):
        root = Root(tmp_path / "root", {"/a": tmp_path / "a", "/a/b/c": tmp_path / "c"})
    (tmp_path / "c" / "file").write_text("here")
    assert (root.folder / "a/b/c/file").read_text() == "here"


def test_rsctl_launch_is_this_pythons(tmp_path: Path) -> None:
    """By the image's own entrypoint, in the source's folder; the runtime finds its root."""
    (tmp_path / "train.py").write_text(
        "import json, os, sys\n"
        "print(json.dumps([os.getcwd(), sys.executable, os.environ['NODE_RANK'],"
        " os.path.isfile(os.environ['RSCTL_ROOT'] + '/opt/ml/input/config.json')]))\n"
    )
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "config.json").touch()
    runner, heard = make_runner("process", {ANY_IMAGE: Program(tmp_path)}), Heard()
    cluster = {"role": "worker", "index": 0, "workers": ["127.0.0.1"], "reducers": []}
    env = {"RSCTL_CLUSTER": json.dumps(cluster), "RSCTL_TELEMETRY_SECONDS": "1000"}
    args = ["--launcher", "once", "--python", "--", "train.py"]
    nodes = runner.nodes("job", heard)
    mounts = {"/opt/ml/input": tmp_path / "input"}
    nodes.start(Node("algo-1", "any.example/image:tag", None, args, env, mounts))
    heard.wait_for_ends()
    runner.close()
    assert heard.ends == {"algo-1": [0]}, heard.lines
    said = [json.loads(text) for text in heard.texts("algo-1") if text.startswith("[")]
    assert said == [[str(tmp_path), sys.executable, "0", True]]


def test_a_source_that_is_gone_is_an_error_at_once(tmp_path: Path) -> None:
    runner = make_runner("process", {ANY_IMAGE: Program(tmp_path / "gone")})
    nodes = runner.nodes("job", Heard())
    with pytest.raises(OSError, match="gone"):
        nodes.start(Node("one", "image", ["true"], [], {}, {}))
    runner.close()


def test_other_systems_are_told_to_use_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ProcessRunner({})
    monkeypatch.setattr("rsctl.targets.managed.emulator.nodes.process.sys.platform", "darwin")
    with pytest.raises(RsctlError) as refused:
        runner.nodes("job", Heard())
    assert refused.value.findings[0].remedy == "install and start Docker"
