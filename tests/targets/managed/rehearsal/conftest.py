"""Rehearsals call nothing beyond this machine."""

import pytest

from tests.targets.managed.emulator.conftest import bare_environment as bare_environment


@pytest.fixture(autouse=True)
def _home() -> None:
    """The store is the one of every test, not that of the tests of jobs in a fake cloud."""
