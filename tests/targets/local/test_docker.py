"""What target compose says of a machine without Docker, or with a part of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rsctl.findings import Finding, error
from rsctl.targets.local.docker import missing


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (
            {},
            error(
                "docker",
                "the docker command is not installed",
                "install Docker, or use --target process",
            ),
        ),
        (
            {"docker": "echo first >&2; echo ' Is the daemon running?' >&2; echo >&2; exit 1"},
            error(
                "docker",
                "no Docker engine answers: Is the daemon running?",
                "start it, or use --target process",
            ),
        ),
        (
            {"docker": "[ $1 = version ]"},
            error(
                "compose", "docker compose is not installed", "install the Docker compose plugin"
            ),
        ),
        ({"docker": "[ $1 = version ]", "docker-compose": "[ $1 = version ]"}, None),
        ({"docker": "[ $1 = version ] || [ $1 = compose ]"}, None),
    ],
)
def test_what_is_missing_for_containers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: dict[str, str],
    expected: Finding | None,
) -> None:
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert missing() == ([expected] if expected else [])
