"""`rsctl init`: every template gives a job that can be planned, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.data import template_names, templates_folder

from .conftest import Cli


def test_the_templates_that_help_names(rsctl: Cli) -> None:
    assert template_names() == ["allreduce", "ddp", "fsdp", "single"]
    assert "ddp (default), fsdp, single or allreduce" in rsctl("init", "--help").out


@pytest.mark.parametrize("template", template_names())
def test_a_template_becomes_a_job(rsctl: Cli, template: str) -> None:
    done = rsctl("init", template)
    folder = templates_folder() / template
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert done.code == 0
    assert done.out.splitlines() == [f"{template}/{name}" for name in files]
    assert done.err == f"now: rsctl submit {template}/job.yaml\n"
    for name in files:
        original = (folder / name).read_bytes()
        assert (rsctl.folder / template / name).read_bytes() == original
    for target in ("process", "compose"):
        planned = rsctl("plan", f"{template}/job.yaml", "-t", target, "-o", "json")
        assert planned.code == 0, planned.err
        severities = {finding["severity"] for finding in planned.json["findings"]}
        assert "warning" not in severities


def test_ddp_is_the_default_and_the_folder_is_free(rsctl: Cli) -> None:
    assert rsctl("init").out.splitlines()[0] == "ddp/job.yaml"
    assert rsctl("init", "single", "a/b", "-q").err == ""
    assert (rsctl.folder / "a" / "b" / "job.yaml").is_file()
    (rsctl.folder / "here").mkdir()
    assert rsctl("init", "fsdp", "here").code == 0


def test_nothing_is_overwritten(rsctl: Cli) -> None:
    rsctl("init", "ddp")
    job = rsctl.folder / "ddp" / "job.yaml"
    job.write_text("mine")
    (rsctl.folder / "ddp" / "train.py").unlink()
    done = rsctl("init", "ddp")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: ddp/job.yaml exists already\n    -> name another folder\n"
    assert job.read_text() == "mine"
    assert not (rsctl.folder / "ddp" / "train.py").exists()


def test_an_unknown_template(rsctl: Cli) -> None:
    done = rsctl("init", "ddq")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: no template 'ddq'\n    -> use one of: allreduce, ddp, fsdp, single\n"


def test_a_folder_that_cannot_be_made(rsctl: Cli) -> None:
    rsctl.write("", "file")
    done = rsctl("init", "ddp", "file/below")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: cannot write file/below: Not a directory\n"


def test_the_templates_travel_in_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inside = tmp_path / "_data" / "job_templates" / "mine"
    inside.mkdir(parents=True)
    (inside / "job.yaml").touch()
    monkeypatch.setattr("rsctl.data._PACKAGE", tmp_path)
    assert template_names() == ["mine"]
