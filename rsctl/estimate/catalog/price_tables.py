"""Finds the price tables.

The user's own are in `prices.yaml` of the configuration folder, the tables that
`rsctl catalog --refresh` has fetched are in `prices.refreshed.json` beside it, and the catalogue's
in the file that `TargetInfo.catalog` names.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from rsctl.atomic_file import UNREADABLE
from rsctl.estimate import catalog
from rsctl.estimate.catalog.price_table import PriceTable
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.target_info import target_info
from rsctl.user_folders import configuration_folder

OWN = "prices.yaml"
REFRESHED = "prices.refreshed.json"


def price_tables(target: str) -> list[PriceTable]:
    """The tables of a target, in the order in which they are asked.

    Raises RsctlError with all mistakes of the user's own.
    """
    folder = configuration_folder()
    return [
        *own_tables(folder / OWN).get(target, []),
        *refreshed_tables(folder / REFRESHED).get(target, []),
        *_catalogue_tables(target),
    ]


def own_tables(path: Path) -> dict[str, list[PriceTable]]:
    """The user's own tables by target; none without a file. Raises RsctlError."""
    version = _version(path)
    return _read_own(path, version) if version else {}


def refreshed_tables(path: Path) -> dict[str, list[PriceTable]]:
    """The tables that were fetched, by target; none without a file. Raises RsctlError."""
    version = _version(path)
    return _read_refreshed(path, version) if version else {}


def _version(path: Path) -> tuple[int, int] | None:
    """By which a file is known to be unchanged; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _read_own(path: Path, version: tuple[int, int]) -> dict[str, list[PriceTable]]:
    from rsctl.estimate.catalog.own_prices import read_own_prices  # which few plans need

    return {target: [table] for target, table in read_own_prices(str(path)).items()}


@lru_cache(maxsize=4)
def _read_refreshed(path: Path, version: tuple[int, int]) -> dict[str, list[PriceTable]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, list[PriceTable]])
    except UNREADABLE as problem:
        message = f"cannot read the fetched prices: {path}: {problem}"
        remedy = "fetch them again: rsctl catalog --refresh   or remove the file"
        raise RsctlError(ExitCode.ENVIRONMENT, error("prices", message, remedy)) from None


@lru_cache
def _catalogue_tables(target: str) -> list[PriceTable]:
    files = target_info(target).catalog
    if files is None or files.prices is None:
        return []
    return catalog.read_file(files.prices, list[PriceTable])
