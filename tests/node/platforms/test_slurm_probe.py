"""What a node of a Slurm cluster says of its Python before a job starts there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rsctl.node.platforms import slurm_probe

ROOT = Path(__file__).parents[3]
ELSE = "load another one in targets.slurm.setup, or use another image"


def probe(folder: Path, token: str | None = "secret\n") -> int:
    if token is not None:
        (folder / "token").write_text(token)
    return slurm_probe.main(
        ["worker", "2", str(folder), "secret"], {"SLURMD_NODENAME": "n1", "SLURM_PROCID": "1"}
    )


def test_a_node_offers_ports(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert probe(tmp_path) == 0
    words = capfd.readouterr().out.split()
    assert words[:4] == ["rsctl-probe", "worker", "3", "n1"]
    assert len(set(words[4:])) == 6


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (None, "cannot read {}/token, which the batch script wrote: No such file or directory"),
        ("other\n", "{}/token has other content than the batch script wrote"),
    ],
)
def test_a_folder_that_is_not_the_batch_scripts(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    problem: str,
) -> None:
    """As where `shared` is a folder of each node's own."""
    monkeypatch.setenv("RSCTL_SLURM_SEEN_SECONDS", "-1")
    monkeypatch.setattr(slurm_probe.time, "sleep", lambda _: pytest.fail("it waits"))
    assert probe(tmp_path, token) == 1
    assert capfd.readouterr().out == f"rsctl-probe-failed n1 {problem.format(tmp_path)}\n"


def test_a_folder_that_appears_late_is_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An NFS client may show a new file only after a while."""
    monkeypatch.setattr(
        slurm_probe.time, "sleep", lambda _: (tmp_path / "token").write_text("secret")
    )
    assert probe(tmp_path, None) == 0
    assert capfd.readouterr().out.startswith("rsctl-probe worker 3 n1 ")


def test_an_old_python(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of Debian 11: the node is named before a task starts on it."""
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    assert probe(tmp_path) == 1
    assert capfd.readouterr().out == (
        f"rsctl-probe-failed n1 has an unfit Python: {sys.executable} is Python 3.9.2, "
        f"but rsctl's runtime needs 3.10; {ELSE}\n"
    )


def test_a_python_without_a_part_of_its_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rsctl.node.platforms.slurm_task", None)
    monkeypatch.delattr("rsctl.node.platforms.slurm_task", raising=False)
    assert probe(tmp_path) == 1
    said = capfd.readouterr().out
    assert f" unfit Python: {sys.executable} cannot import a module that rsctl's runtime" in said
    assert said.endswith(f"; {ELSE}\n")


def test_a_python_that_cannot_parse_the_runtime() -> None:
    """As of Red Hat Enterprise Linux 8: one line in place of a SyntaxError."""
    old = (
        "import runpy, sys; sys.version_info = (3, 6, 8, 'final', 0); "
        f"sys.argv = ['x', 'rsctl.node.launch']; runpy.run_path({str(ROOT / 'rsctl_start.py')!r}, "
        "run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True)
    said = f"rsctl: {sys.executable} is Python 3.6.8, but rsctl's runtime needs 3.10\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
