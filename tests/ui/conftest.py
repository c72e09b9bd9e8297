"""A server of `rsctl ui` over a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rsctl.ui.server import Served, serve
from tests.cli.conftest import Cli
from tests.cli.conftest import make_run as make_run
from tests.cli.conftest import rsctl as rsctl
from tests.cli.conftest import runs_end_with_the_test as runs_end_with_the_test


@pytest.fixture
def served(rsctl: Cli) -> Iterator[Served]:
    with serve() as server:
        yield server
