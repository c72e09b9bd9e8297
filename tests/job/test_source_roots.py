"""From which folders a project's packages are imported, by each build backend's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.job.source_roots import find_module, programs, source_roots

PROJECT = "[project]\nname = 'x'\n"


def made(folder: Path, *files: str, pyproject: str | None = None) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject)
    return folder


@pytest.mark.parametrize(
    "settings",
    [
        "[tool.setuptools.packages.find]\nwhere = ['lib']",
        "[tool.setuptools.package-dir]\n'' = 'lib'",
        "[tool.poetry]\npackages = [{include = 'pkg', from = 'lib'}, 'other']",
        "[tool.hatch.build]\nsources = ['lib']",
        "[tool.hatch.build.targets.wheel]\nsources = ['lib']",
        "[tool.hatch.build.targets.wheel.sources]\n'lib' = ''\n'other' = 'x'",
        "[tool.hatch.build.targets.wheel]\npackages = ['lib/pkg']",
        "[tool.pdm.build]\npackage-dir = './lib/'",
        "[tool.uv.build-backend]\nmodule-root = 'lib'",
        "[tool.maturin]\npython-source = 'lib'",
    ],
)
def test_the_root_that_a_build_backend_names(tmp_path: Path, settings: str) -> None:
    made(tmp_path, "lib/pkg/__init__.py", "other/pkg/__init__.py", pyproject=settings)
    assert source_roots(tmp_path) == ["lib"]


@pytest.mark.parametrize("text", ["[options]\nwhere = lib\n", "package_dir =\n    = lib\n"])
def test_the_root_in_setup_cfg(tmp_path: Path, text: str) -> None:
    made(tmp_path, "lib/pkg/__init__.py", "src/pkg/__init__.py")
    (tmp_path / "setup.cfg").write_text(text)
    assert source_roots(tmp_path) == ["lib", "src"]


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        (PROJECT, ["src"]),
        ("[build-system]\n", ["src"]),
        ("[tool.poetry]\n", ["src"]),
        ("[tool.ruff]\n", []),
        (PROJECT + "[tool.uv.build-backend]\nmodule-root = 'src'", ["src"]),
        (PROJECT + "[tool.uv.build-backend]\nmodule-root = '/src'", ["src"]),
        ("[tool.uv.build-backend]\nmodule-root = '../x'", []),
        ("[tool.uv]\nbuild-backend = 7", []),
        ("[tool.setuptools.packages]\nfind = {where = 'src'}", []),
        ("[tool.poetry]\npackages = 'src'", ["src"]),
        ("[project", []),
        ("", []),
    ],
)
def test_src_is_a_root_of_a_project_alone(tmp_path: Path, text: str, roots: list[str]) -> None:
    made(tmp_path, "src/pkg/__init__.py", pyproject=text)
    assert source_roots(tmp_path) == roots


def test_a_root_has_packages_and_is_none(tmp_path: Path) -> None:
    made(tmp_path, "src/empty/data.txt", pyproject=PROJECT)
    assert source_roots(tmp_path) == []
    made(tmp_path, "src/names/module.py")  # a namespace
    assert source_roots(tmp_path) == ["src"]
    made(tmp_path, "src/__init__.py")
    assert source_roots(tmp_path) == []
    assert source_roots(tmp_path / "none") == []


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_settings_of_a_megabyte_at_most_are_read(tmp_path: Path, size: int) -> None:
    made(tmp_path, "src/pkg/__init__.py", pyproject=PROJECT.ljust(size))
    assert source_roots(tmp_path) == (["src"] if size == 1 << 20 else [])


def test_a_setup_file_makes_a_project(tmp_path: Path) -> None:
    made(tmp_path, "src/pkg/__init__.py", "setup.py")
    assert source_roots(tmp_path) == ["src"]


def test_programs_of_a_project(tmp_path: Path) -> None:
    made(
        tmp_path,
        *("src/b/__init__.py", "src/b/train.py", "src/b/__main__.py", "src/b/util.py"),
        *("src/a/__init__.py", "src/a/main.py", "top/__init__.py", "top/train.py"),
        *("no_package/train.py",),
        pyproject=PROJECT,
    )
    assert [(name, str(path.relative_to(tmp_path))) for name, path in programs(tmp_path)] == [
        ("a.main", "src/a/main.py"),
        ("b.train", "src/b/train.py"),
        ("b", "src/b/__main__.py"),
        ("top.train", "top/train.py"),
    ]


@pytest.mark.parametrize(
    ("files", "root"),
    [
        (["models.py"], "."),
        (["models/__init__.py"], "."),
        (["src/models.py", "models.py"], "src"),
        (["a/models.py", "a/b/models.py"], "a"),
        (["b/models.py", "a/c/models.py"], "b"),
        (["a/b/c/models/__init__.py"], "a/b/c"),
        (["a/b/c/d/models.py"], None),
        (["models/net.py"], None),
        (["src/models/net.py"], "src"),
        (["a/models/net.py"], None),
        ([".hidden/models.py"], None),
        (["_private/models.py"], None),
        (["env/models.py", "env/pyvenv.cfg"], None),
        (["other.py"], None),
    ],
)
def test_where_a_module_lies(tmp_path: Path, files: list[str], root: str | None) -> None:
    assert find_module(made(tmp_path, *files), "models") == root


def test_a_name_that_is_none_and_a_link_are_not_looked_for(tmp_path: Path) -> None:
    made(tmp_path, "elsewhere/models.py", "project/a.py")
    (tmp_path / "project" / "link").symlink_to(tmp_path / "elsewhere")
    assert find_module(tmp_path / "project", "models") is None
    assert find_module(tmp_path, "../models") is None
    assert find_module(tmp_path, "9") is None
    assert find_module(tmp_path / "none", "models") is None
