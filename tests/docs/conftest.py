"""What a reader of the first pages has installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.readers_environment import make_readers_environment


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the environment that README's two commands make."""
    return make_readers_environment(tmp_path_factory.mktemp("reader") / ".venv")
