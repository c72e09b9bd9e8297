"""The rules of a gate: the job file's `gate:` block, overridden by the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import msgspec

from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.units import Regression


class GateRules(msgspec.Struct, kw_only=True):
    """`floors` by metric, `repeat` None if it is not set. A baseline `is_from_file` if the job file
    names it: then it is relative to that file's folder.
    """

    baseline: Optional[str] = None
    floors: dict[str, Floor] = {}
    repeat: Optional[int] = None
    confirm: int = 0
    is_from_file: bool = False


def rules_of(
    block: Mapping[str, Any],
    baseline: str | None = None,
    max_regression: Sequence[str] = (),
    repeat: int | None = None,
    confirm: int | None = None,
) -> GateRules:
    """The rules of a `gate:` block as it is written, and of options. Raises RsctlError."""
    if baseline == "":
        finding = error(
            "baseline", "--baseline is empty", "give FILE, gs://…, s3://…, git:REF:PATH or a bench"
        )
        raise RsctlError(ExitCode.USAGE, finding)
    floors = {n: _floor(n, str(v)) for n, v in (block.get("max_regression") or {}).items()}
    for text in max_regression:
        name, _, amount = text.partition("=")
        floors[name] = _floor(name, amount)
    from_file = block.get("baseline")
    return GateRules(
        baseline=baseline or from_file,
        floors=floors,
        repeat=repeat or block.get("repeat"),
        confirm=int(block.get("confirm") or 0) if confirm is None else confirm,
        is_from_file=baseline is None and from_file is not None,
    )


def _floor(name: str, text: str) -> Floor:
    try:
        allowed = Regression.parse(text)
    except ValueError as problem:
        message = f"max_regression {name}={text}: expected {': '.join(map(str, problem.args))}"
        finding = error("gate", message, f"for example {name or 'throughput'}=5%")
        raise RsctlError(ExitCode.USAGE, finding) from None
    if not name:
        finding = error(
            "gate", f"max_regression ={text} does not name a metric", "for example throughput=5%"
        )
        raise RsctlError(ExitCode.USAGE, finding)
    return Floor(allowed.amount, allowed.is_relative)
