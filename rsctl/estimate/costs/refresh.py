"""Fetches the clouds' price lists, and keeps them in the configuration folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rsctl.atomic_file import read_json, write_file
from rsctl.clients.endpoints import Endpoints
from rsctl.estimate.catalog.price_table import PriceTable
from rsctl.estimate.catalog.price_tables import REFRESHED
from rsctl.findings import ExitCode, Finding, RsctlError
from rsctl.target_info import all_targets, import_object
from rsctl.user_folders import configuration_folder


class RefreshedPrices(msgspec.Struct, kw_only=True, frozen=True):
    """The fetched price lists by target, their file, and the lists that failed."""

    path: str
    tables: dict[str, PriceTable]
    findings: list[Finding] = []


def refresh_prices(targets: Iterable[str] | None = None) -> RefreshedPrices:
    """Fetch the price lists of targets, by default of all, of which credentials are here.

    What cannot be fetched is a finding.

    Raises RsctlError if none can be fetched, or if they cannot be written down.
    """
    tables: dict[str, PriceTable] = {}
    problems: list[RsctlError] = []
    for info in all_targets():
        files = info.catalog
        if files is None or files.price_list is None or (targets and info.name not in targets):
            continue
        try:
            fetch = import_object(files.price_list)
            tables[info.name] = fetch(Endpoints.of_environment())
        except RsctlError as problem:
            problems.append(problem)
    findings = [finding for problem in problems for finding in problem.findings]
    if not tables:
        code = problems[0].exit_code if problems else ExitCode.USAGE
        raise RsctlError(code, *findings)
    path = configuration_folder() / REFRESHED
    _write(path, tables)
    return RefreshedPrices(path=str(path), tables=tables, findings=findings)


def _write(path: Path, tables: dict[str, PriceTable]) -> None:
    """Beside those of other targets that are there; a file that cannot be read is replaced."""
    kept = read_json(path, dict[str, list[PriceTable]]) or {}
    kept |= {target: [table] for target, table in tables.items()}
    write_file(
        path, msgspec.json.encode(kept), "set RSCTL_CONFIG to a folder that you can write to"
    )
