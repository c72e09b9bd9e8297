"""A file that changes between plan and build never makes another image than the one planned."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.images import context
from rsctl.images.recipe import make_recipe

from .conftest import ReadJob
from .engines import Install, calls, image, named

Change = Callable[[Path], object]


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("requirements.txt")


CHANGES: dict[str, Change] = {
    "saved": lambda path: path.write_text("print(2)\n"),
    "saved, of the same size": lambda path: path.write_text("PRINT()\n"),
    "emptied": lambda path: path.write_text(""),
    "removed": Path.unlink,
    "a folder": replace_by_folder,
    "a link": replace_by_link,
}


def assert_changed(error: RsctlError, names: str = "train.py") -> None:
    """The finding that a user sees, and nothing else."""
    (finding,) = error.findings
    assert (error.exit_code, finding.code, finding.path) == (
        ExitCode.ENVIRONMENT,
        "changed",
        "image.source",
    )
    assert finding.message == f"files changed while the image was being built: {names}"
    assert finding.remedy == (
        "run the command again; list files that other programs write in .dockerignore"
    )


@pytest.mark.parametrize("name", ["buildx", "buildkit", "classic", "podman"])
def test_no_builder_builds_what_was_changed(
    name: str, job: ReadJob, tmp_path: Path, install: Install
) -> None:
    recipe = make_recipe(job("base: base:1\n  source: ."), "compose")
    builder = named(name)
    folder = install(**{builder.program: [image(user="jovyan")]})
    CHANGES["saved"](tmp_path / "train.py")
    with pytest.raises(RsctlError) as caught:
        builder.build(recipe, print)
    assert_changed(caught.value)
    assert [call.split()[1:3] for call in calls(folder)] == [["image", "inspect"]]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change: str, job: ReadJob, tmp_path: Path) -> None:
    recipe = make_recipe(job("base: base\n  source: ."), "compose")
    CHANGES[change](tmp_path / "train.py")
    with pytest.raises(RsctlError) as caught:
        recipe.write_context(io.BytesIO(), cache_mounts=True)
    assert_changed(caught.value)


def test_a_file_that_shrinks_while_it_is_read(
    job: ReadJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe(job("base: base\n  source: ."), "compose")
    header = context._tar_info

    def shrink(entry: context.ContextEntry, *rest: object) -> object:
        info = header(entry, *rest)  # type: ignore[arg-type]
        if entry.path == tmp_path / "train.py":
            os.truncate(entry.path, 3)
        return info

    monkeypatch.setattr(context, "_tar_info", shrink)
    with pytest.raises(RsctlError) as caught:
        recipe.write_context(io.BytesIO(), cache_mounts=True)
    assert_changed(caught.value)


def test_what_the_plan_does_not_have_is_not_in_the_image(job: ReadJob, tmp_path: Path) -> None:
    recipe = make_recipe(job("base: base\n  source: ."), "compose")
    before, after = io.BytesIO(), io.BytesIO()
    recipe.write_context(before, cache_mounts=True)
    (tmp_path / "new.py").write_text("print()\n")
    os.utime(tmp_path / "train.py", (1, 1))
    recipe.write_context(after, cache_mounts=True)
    assert before.getvalue() == after.getvalue()


def test_requirements_are_those_that_were_read(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("requirements.txt\n")  # of the source
    recipe = make_recipe(job("base: base\n  python: requirements.txt"), "compose")
    (tmp_path / "requirements.txt").write_text("numpy==1.0\n")
    out = io.BytesIO()
    recipe.write_context(out, cache_mounts=True)
    assert b"numpy==2.0" in out.getvalue()
