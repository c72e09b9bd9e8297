"""Price tables: what machines cost an hour, each with its source and date; and where they are.

A table is quoted, never made up: what no table has, has no price. The user's own are in
`prices.yaml` of the configuration folder, those that `rsctl catalog --refresh` has fetched in
`prices.refreshed.json` beside it, and the catalogue's in `TARGET_prices.yaml` beside this file.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Optional

import msgspec
from msgspec import Meta

from rsctl import catalog
from rsctl.findings import ExitCode, RsctlError, error

OWN = "prices.yaml"
REFRESHED = "prices.refreshed.json"
ANY = "any"
"""In the place of a region: the price holds in all that have none of their own."""

_Dollars = Annotated[float, Meta(ge=0)]


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """US dollars an hour, on demand and as spot; None where it is not known."""

    on_demand: Annotated[Optional[_Dollars], Meta(description="US dollars an hour on demand.")] = (
        None
    )
    spot: Annotated[Optional[_Dollars], Meta(description="US dollars an hour as spot.")] = None


class PriceTable(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Prices of one source, in US dollars an hour by name and region.

    Those of `machines` are with their accelerators, unless these are attached to the machine:
    then each costs what `accelerators` says.
    """

    source: Annotated[str, Meta(description="Where the prices are from.")]
    as_of: Annotated[str, Meta(description="The date on which they were so.")]
    estimate: Annotated[Optional[str], Meta(description="Why they are estimates, if they are.")] = (
        None
    )
    fee: Annotated[
        _Dollars,
        Meta(description="A part of the on-demand price that each price here is to be raised by."),
    ] = 0.0
    elsewhere: Annotated[
        Optional[str],
        Meta(description="The region whose prices are estimates for regions that have none."),
    ] = None
    machines: Annotated[
        dict[str, dict[str, Rates]],
        Meta(description="Prices of machines by name, then by region; `any` is every region."),
    ] = {}
    accelerators: Annotated[
        dict[str, dict[str, Rates]],
        Meta(description="Prices of one accelerator that is attached to a machine, likewise."),
    ] = {}


class OwnPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's `prices.yaml`."""

    vertex: Annotated[Optional[PriceTable], Meta(description="Prices of Vertex AI.")] = None
    sagemaker: Annotated[Optional[PriceTable], Meta(description="Prices of SageMaker.")] = None


def configuration_folder() -> Path:
    """`RSCTL_CONFIG`, else the platform's folder for rsctl's configuration. It may not exist."""
    chosen = os.environ.get("RSCTL_CONFIG")
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("rsctl", appauthor=False))


def price_tables(target: str) -> list[PriceTable]:
    """The tables of `vertex` or `sagemaker`, in the order in which they are asked.

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
    """By which a file is known to be unchanged; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _read_own(path: Path, version: tuple[int, int]) -> dict[str, list[PriceTable]]:
    del version
    from rsctl.catalog.own_prices import read_own_prices  # which few plans need

    own = read_own_prices(str(path))
    found = {"vertex": own.vertex, "sagemaker": own.sagemaker}
    return {target: [table] for target, table in found.items() if table is not None}


@lru_cache(maxsize=4)
def _read_refreshed(path: Path, version: tuple[int, int]) -> dict[str, list[PriceTable]]:
    del version
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, list[PriceTable]])
    except (OSError, msgspec.DecodeError) as problem:
        message = f"the prices that were fetched cannot be read: {path}: {problem}"
        remedy = "fetch them again: rsctl catalog --refresh   or remove the file"
        raise RsctlError(ExitCode.ENVIRONMENT, error("prices", message, remedy)) from None


@lru_cache
def _catalogue_tables(target: str) -> list[PriceTable]:
    return catalog.read_data(f"{target}_prices.yaml", list[PriceTable])
