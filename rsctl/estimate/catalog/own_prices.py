"""Reads the user's own price tables, with every mistake as a finding at its line."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

import msgspec
from msgspec.structs import asdict, replace

from rsctl.estimate.catalog.price_table import PriceTable
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.decode import Decoder, TooMany
from rsctl.job.file_text import YamlError, read_text
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import Mapping as Block
from rsctl.job.yaml_tree import locate
from rsctl.target_info import all_targets


def read_own_prices(path: str) -> dict[str, PriceTable]:
    """The tables of a YAML file by target. Raises RsctlError with all of its errors."""
    findings: list[Finding] = []
    try:
        root = parse(read_text(path), path, findings)
    except YamlError as problem:
        raise RsctlError(ExitCode.USAGE, *findings, *problem.findings) from None
    targets = [info.name for info in all_targets() if info.catalog is not None]
    if not isinstance(root, Block):
        names = " or ".join(f"{name}:" for name in targets)
        example = f"begin with {names}, see docs/guides/costs.md"
        empty = error("prices", "it has no tables", example)
        raise RsctlError(ExitCode.USAGE, *findings, replace(empty, file=path, line=1, column=1))
    decoder = Decoder(_type_with(targets), {}, Path(path).parent)
    tables: dict[str, PriceTable] = {}
    with suppress(TooMany):
        given = asdict(decoder.decode_root(root))
        tables = {name: table for name, table in given.items() if table is not None}
    findings += decoder.findings
    for finding in _findings(tables):
        mark = locate(root, finding.path)
        findings.append(replace(finding, file=mark.file, line=mark.line, column=mark.column))
    if any(finding.is_error for finding in findings):
        raise RsctlError(ExitCode.USAGE, *findings)
    return tables


def _type_with(targets: list[str]) -> type[msgspec.Struct]:
    """The type of the file: a table for each target that has prices."""
    table: Any = Optional[PriceTable]
    return msgspec.defstruct("OwnPrices", [(name, table, None) for name in targets], frozen=True)


def _findings(tables: Mapping[str, PriceTable]) -> Iterator[Finding]:
    for target, table in tables.items():
        try:
            datetime.date.fromisoformat(table.as_of)
        except (ValueError, TypeError):
            message = f"{table.as_of!r} is not a date"
            yield error("prices", message, "write it in the form 2026-11-01", f"{target}.as_of")
