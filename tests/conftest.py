"""What every test stands on: a store of its own, and an environment that says nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kit.botocore_data import share_botocore_data

settings.register_profile("rsctl", derandomize=True, deadline=None, database=None)
settings.load_profile("rsctl")


_SLOWEST = ("targets", "pytorch", "examples", "tracking", "image", "emulators", "runtime")
_HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest folders come first, so that no worker has a long file to itself at the end."""
    tests = Path(__file__).parent
    rank = {name: number for number, name in enumerate(_SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path.relative_to(tests).parts[0], len(rank)))


@pytest.fixture(autouse=True)
def default_signals() -> None:
    """Signals are handled as in a fresh process, whatever started pytest or a test left behind."""
    for number, handler in _HANDLERS.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def botocore_data() -> None:
    """Sessions of boto3 share what they read."""
    share_botocore_data()


@pytest.fixture(autouse=True)
def rsctl_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """RSCTL_HOME of this test; it does not exist yet."""
    home = tmp_path / "rsctl-home"
    monkeypatch.setenv("RSCTL_HOME", str(home))
    monkeypatch.setenv("RSCTL_CONFIG", str(tmp_path / "rsctl-config"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "RSCTL_DEBUG", "RSCTL_BASE"):
        monkeypatch.delenv(name, raising=False)
    return home
