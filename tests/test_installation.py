"""What users are told to type to install what rsctl can do without."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from rsctl.installation import install_command


def test_the_command_names_packages_and_never_our_own_name() -> None:
    assert install_command("local") == f"{sys.executable} -m pip install numpy 'torch>=2.5'"
    assert "rsctl" not in install_command("sdk").removeprefix(sys.executable)


def test_where_rsctl_is_not_installed_its_checkout_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_found(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", not_found)
    assert install_command("local") == "pip install '.[local]' in a checkout of rsctl"
