"""The machines of the clouds, their prices, and the sources of these prices."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from rsctl.estimate.catalog import accelerators, load
from rsctl.estimate.catalog.price_table import PriceTable
from rsctl.estimate.catalog.price_tables import price_tables as tables_of
from rsctl.estimate.costs.offers import ORDERS, MachineQuery, Offer, offers
from rsctl.estimate.costs.refresh import RefreshedPrices
from rsctl.estimate.costs.refresh import refresh_prices as fetch
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.target_info import all_targets, target_info


def machines(
    target: str | None = None,
    *,
    gpu: str | None = None,
    region: str | None = None,
    max_price: float | None = None,
    sort: str = "price",
) -> list[Offer]:
    """The machines of a target, by default of all clouds, the cheapest first.

    `gpu` is an accelerator such as `v100`, or `v100:8` for that many; `max_price` is in US dollars
    an hour on demand; `sort` is one of price, spot, price-per-gbps, gbps, vcpus, memory. Raises
    RsctlError for a target without machines, and for an invalid price table of the user.
    """
    if sort not in ORDERS:
        message = f"{sort!r} is not one of {', '.join(ORDERS)}"
        raise RsctlError(ExitCode.USAGE, error("value", message, "use one of these", "sort"))
    names = [name for name in _catalogues(target) if region is None or region in load(name).regions]
    if not names and region is not None:
        raise RsctlError(ExitCode.USAGE, _unknown(region, _catalogues(target)))
    if gpu is not None:
        _require_gpu(gpu.partition(":")[0], names)
    return offers(names, MachineQuery(gpu=gpu, region=region, max_price=max_price), sort)


def _require_gpu(name: str, catalogues: list[str]) -> None:
    """Raise RsctlError for an accelerator that none of these machines has."""
    gpus = sorted({each for catalogue in catalogues for each in accelerators(catalogue)})
    if name in gpus:
        return
    close = [each for each in gpus if each.startswith(name)]
    remedy = _meant(close or _similar(name, gpus)) or f"name one of {', '.join(gpus)}"
    message = f"{name!r} is not an accelerator in the catalogue of {' or '.join(catalogues)}"
    raise RsctlError(ExitCode.USAGE, error("accelerator", message, remedy))


def _unknown(region: str, catalogues: Iterable[str]) -> Finding:
    all_regions = [name for catalogue in catalogues for name in load(catalogue).regions]
    remedy = _meant(_similar(region, all_regions)) or "see the cloud's documentation"
    return error("region", f"{region!r} is not a known region of these clouds", remedy)


def _similar(name: str, known: list[str]) -> list[str]:
    return get_close_matches(name, known, n=2, cutoff=0.7)


def _meant(names: list[str]) -> str | None:
    return f"did you mean {' or '.join(names)}?" if names else None


def price_tables(target: str | None = None) -> dict[str, list[PriceTable]]:
    """The price tables by target, in the order in which they are asked. Raises RsctlError."""
    return {name: tables_of(name) for name in _catalogues(target)}


def refresh_prices(target: str | None = None) -> RefreshedPrices:
    """Fetch the price lists of a target, by default of all clouds whose credentials are here.

    They are kept in the configuration folder, and come before the catalogue's own. Raises
    RsctlError if none can be fetched.
    """
    return fetch(_catalogues(target))


def _catalogues(target: str | None) -> Iterable[str]:
    """The catalogues of a target, or all that targets have. Raises RsctlError."""
    if target is None:
        return [info.name for info in all_targets() if info.catalog is not None]
    if target_info(target).catalog is None:
        message = f"target {target} has no machines in the catalogue"
        remedy = f"name {' or '.join(_catalogues(None))}"
        raise RsctlError(ExitCode.USAGE, error("target", message, remedy))
    return [target]
