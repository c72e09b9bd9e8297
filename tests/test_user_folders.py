"""The folders of the user's own files."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from rsctl.user_folders import configuration_folder, data_folder


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
