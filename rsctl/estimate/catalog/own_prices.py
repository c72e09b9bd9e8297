"""Reads the user's own price tables, with every mistake as a finding at its line."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from rsctl.estimate.catalog.price_table import OwnPrices, PriceTable
from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.job.decode import Decoder, TooMany
from rsctl.job.file_text import YamlError, read_text
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import Mapping, locate


def read_own_prices(path: str) -> OwnPrices:
    """The tables of a YAML file. Raises RsctlError with all that is wrong with it."""
    findings: list[Finding] = []
    try:
        root = parse(read_text(path), path, findings)
    except YamlError as problem:
        raise RsctlError(ExitCode.USAGE, *findings, *problem.findings) from None
    if not isinstance(root, Mapping):
        example = "start with vertex: or sagemaker:, see docs/costs.md"
        empty = error("prices", "it has no tables", example)
        raise RsctlError(ExitCode.USAGE, *findings, replace(empty, file=path, line=1, column=1))
    decoder = Decoder(OwnPrices, {}, Path(path).parent)
    own = None
    with suppress(TooMany):
        own = decoder.decode_root(root)
    findings += decoder.findings
    if isinstance(own, OwnPrices):
        for finding in _findings(own):
            mark = locate(root, finding.path)
            findings.append(replace(finding, file=mark.file, line=mark.line, column=mark.column))
    if own is None or any(finding.is_error for finding in findings):
        raise RsctlError(ExitCode.USAGE, *findings)
    return own  # type: ignore[no-any-return]


def _findings(own: OwnPrices) -> Iterator[Finding]:
    for target in ("vertex", "sagemaker"):
        table: PriceTable | None = getattr(own, target)
        if table is None:
            continue
        try:
            datetime.date.fromisoformat(table.as_of)
        except (ValueError, TypeError):
            message = f"{table.as_of!r} is not a valid date"
            yield error("prices", message, "write it in the form 2026-11-01", f"{target}.as_of")
