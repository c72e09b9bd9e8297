"""Tests that need a Docker engine and the test base image; in CI they are never skipped."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

BASE = "rsctl-test-base:1"
"""The image that `.ci/test-base` makes."""


def _has_base() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "image", "inspect", BASE], capture_output=True).returncode == 0


needs_docker = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not _has_base(),
    reason="needs Docker and the test base: .ci/docker-engine, .ci/test-base",
)


def _has_registry() -> bool:
    if shutil.which("docker") is None or shutil.which("docker-registry") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True).returncode == 0


needs_registry = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not _has_registry(),
    reason="needs Docker and a registry: .ci/docker-engine, .ci/docker-registry",
)
