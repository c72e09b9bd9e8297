"""`rsctl catalog`: cloud machines and their prices."""

from __future__ import annotations

from typing import Annotated, Literal, Optional

import msgspec
import typer

from rsctl.api import Offer, Price, PriceTable, machines, price_tables, refresh_prices
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.cli.views.table import write_table
from rsctl.job.units import Accelerator
from rsctl.runs.stream.sanitize import sanitize_line

_Sort = Literal["price", "spot", "price-per-gbps", "gbps", "vcpus", "memory"]


def _parse_gpu(text: str) -> str:
    """Parse an accelerator. Raises typer.BadParameter."""
    try:
        return str(Accelerator.parse(text))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a valid accelerator; use a name such as l4 or a100-40gb:8"
        ) from None


@make_command("catalog")
def command(
    context: typer.Context,
    what: Annotated[
        Literal["machines", "prices"],
        typer.Argument(
            metavar="[machines|prices]",
            help="`machines` lists machine types; `prices` lists the price tables in order of "
            "precedence.",
        ),
    ] = "machines",
    target: Annotated[
        Optional[str],
        typer.Option(
            "--target", "-t", metavar="TARGET", help="List only vertex or only sagemaker."
        ),
    ] = None,
    gpu: Annotated[
        Optional[str],
        typer.Option(
            "--gpu",
            metavar="NAME[:COUNT]",
            parser=_parse_gpu,
            help="List only machines with this accelerator, such as l4 or a100-40gb:8.",
        ),
    ] = None,
    region: Annotated[
        Optional[str],
        typer.Option("--region", metavar="REGION", help="Show prices and machines of this region."),
    ] = None,
    max_price: Annotated[
        Optional[float],
        typer.Option(
            "--max-price",
            metavar="USD",
            min=0,
            help="List only machines up to this on-demand price per hour.",
        ),
    ] = None,
    sort: Annotated[
        Optional[_Sort],
        typer.Option(
            "--sort",
            help="Sort by price, lowest first, or by size, largest first.",
            show_default="price",
        ),
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Fetch the clouds' price lists first; needs credentials."),
    ] = False,
    output: options.Output = "text",
) -> None:
    """List cloud machines and their prices.

    Exit code: 0; with --refresh, 3 if no cloud has credentials.
    """
    if what == "prices":
        _refuse_filters(context, gpu=gpu, region=region, max_price=max_price, sort=sort)
    if refresh:
        _refresh(target)
    if what == "prices":
        _show_tables(target, output)
        return
    entries = machines(target, gpu=gpu, region=region, max_price=max_price, sort=sort or "price")
    if output == "json":
        print_json({"machines": entries})
    elif entries:
        _write(entries, sort or "price")
    else:
        print_message("no machine matches; to list all: rsctl catalog")


def _refuse_filters(context: typer.Context, **filters: object) -> None:
    """Raise an error for options that the price tables do not use."""
    options_given = [
        f"--{name.replace('_', '-')}" for name, value in filters.items() if value is not None
    ]
    if options_given:
        are = "is" if len(options_given) == 1 else "are"
        names = ", ".join(options_given)
        context.fail(f"{names} {are} for machines and cannot be used with price tables")


def _refresh(target: str | None) -> None:
    fetched = refresh_prices(target)
    show_findings(fetched.findings)
    for name, table in fetched.tables.items():
        regions = {region for by_region in table.machines.values() for region in by_region}
        print_message(
            f"{name}: prices of {len(table.machines)} machines in {len(regions)} regions as of "
            f"{table.as_of}, saved in {fetched.path}"
        )


def _write(found: list[Offer], sort: str) -> None:
    """Print the machines as a table; with dollars per hour per Gbit/s only if sorted by them."""
    head = ("MACHINE", "GPUS", "VCPUS", "GIB", "GBIT/S", "USD/H", "SPOT USD/H", "USD/H PER GBIT/S")
    rows = [_row(offer, is_per_gbps=sort == "price-per-gbps") for offer in found]
    write_table([(*head, "REGION", "PRICE OF"), *rows])
    estimates = [p for o in found for p in (o.on_demand, o.spot) if p and p.estimate]
    if estimates:
        print_message(
            "~ marks an estimate; for its reason and source: rsctl catalog prices, or -o json"
        )


def _row(offer: Offer, is_per_gbps: bool) -> tuple[str, ...]:
    price = offer.on_demand or offer.spot
    per_gbps = offer.per_gbps if is_per_gbps else None
    return (
        offer.machine,
        (offer.accelerator or "") + (" (retired)" if offer.retired else ""),
        str(offer.vcpus),
        f"{offer.memory_gib:g}",
        f"{offer.gbps:g}" if offer.gbps else "",
        _dollars(offer.on_demand),
        _dollars(offer.spot),
        "" if per_gbps is None else f"{per_gbps:.4f}",
        price.region if price else "",
        price.as_of if price else "unknown",
    )


def _dollars(price: Price | None) -> str:
    if price is None:
        return ""
    return f"{'~' if price.estimate else ''}{price.dollars:.3f}"


def _show_tables(target: str | None, output: str) -> None:
    tables = price_tables(target)
    if output == "json":
        print_json({"prices": msgspec.to_builtins(tables)})
        return
    for name, found in tables.items():
        typer.echo(name)
        for table in found:
            typer.echo(sanitize_line(f"  {_about(table)}"))


def _about(table: PriceTable) -> str:
    regions = {
        r for prices in (table.machines, table.accelerators) for p in prices.values() for r in p
    }
    counts = [(len(table.machines), "machine"), (len(table.accelerators), "accelerator")]
    parts = " and ".join(f"{n} {name}{'s' * (n > 1)}" for n, name in counts if n)
    where = f"{len(regions)} regions" if len(regions) > 1 else ", ".join(regions)
    estimate = f"; an estimate: {table.estimate}" if table.estimate else ""
    return f"{table.as_of}  {table.source}: {parts} in {where}{estimate}"
