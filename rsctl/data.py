"""The data files of rsctl: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def templates_folder() -> Path:
    """The folder of the job templates, one folder each."""
    return _data("job_templates")


def template_names() -> list[str]:
    """The templates that `rsctl init` knows."""
    return sorted(path.parent.name for path in templates_folder().glob("*/job.yaml"))


def containers_folder() -> Path:
    """The folder of the Dockerfile fragments, one file each."""
    return _data("containers")


def _data(name: str) -> Path:
    inside = _PACKAGE / "_data" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
