"""The folders of the user's own files."""

from __future__ import annotations

import pwd
from pathlib import Path

import platformdirs
import pytest

from rsctl.user_folders import configuration_folder, data_folder, docker_folder


@pytest.mark.parametrize("chosen", [None, "", " ", "/etc/someone"])
def test_the_folders_are_the_platforms(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    for name in ("RSCTL_HOME", "RSCTL_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    if chosen is not None:
        monkeypatch.setenv("XDG_DATA_HOME", chosen)
        monkeypatch.setenv("XDG_CONFIG_HOME", chosen)
    assert data_folder() == Path(platformdirs.user_data_dir("rsctl", appauthor=False))
    assert configuration_folder() == Path(platformdirs.user_config_dir("rsctl", appauthor=False))


def test_the_users_own_choice_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSCTL_HOME", "~/runs")
    monkeypatch.setenv("RSCTL_CONFIG", "prices")
    assert data_folder() == Path.home() / "runs"
    assert configuration_folder() == Path.cwd() / "prices"


def test_a_user_without_a_home_has_the_root_as_in_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store there cannot be written, and that error names RSCTL_HOME as the remedy."""

    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "RSCTL_HOME", "RSCTL_CONFIG", "XDG_DATA_HOME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert data_folder() == Path("/.local/share/rsctl")
    assert configuration_folder() == Path("/.config/rsctl")
    assert docker_folder() == Path("/.docker")
