"""The rules of a gate: the job file's `gate:` block, overridden by the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import msgspec

from rsctl.bench.floors import Floors, make_floors
from rsctl.bench.verdict import ALPHA
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.gate_checks import HISTORY_FORMS as FORMS


class GateRules(msgspec.Struct, kw_only=True):
    """`floors` by metric, `repeat` None if it is not set. A baseline `is_from_file` if the job file
    names it, and a history `is_history_from_file`: then it is relative to that file's folder.
    `given` are the allowed regressions of options, as they were given.

    The last commits of `history` replace the baseline, or limit it if they `only_limit`. The gate
    decides `looks` times about one baseline.
    """

    baseline: Optional[str] = None
    floors: Floors = msgspec.field(default_factory=Floors)
    given: Sequence[str] = ()
    repeat: Optional[int] = None
    confirm: int = 0
    looks: int = 1
    is_from_file: bool = False
    history: Optional[str] = None
    window: Optional[int] = None
    is_history_from_file: bool = False
    only_limit: bool = False

    @property
    def alpha(self) -> float:
        """The error bound of one decision. All `looks` together have that of one gate, however
        they depend on each other (Bonferroni).
        """
        return ALPHA / self.looks

    def require_floors(self, code: str) -> None:
        """Raise RsctlError, with a finding of this code, if no metric has an allowed regression."""
        if not self.floors:
            remedy = "give --max-regression METRIC=5%, or set gate.max_regression in the job file"
            message = "no metric has an allowed regression"
            raise RsctlError(ExitCode.USAGE, error(code, message, remedy))


def rules_of(
    block: Mapping[str, Any],
    baseline: str | None = None,
    max_regression: Sequence[str] = (),
    repeat: int | None = None,
    confirm: int | None = None,
    history: str | None = None,
    window: int | None = None,
    looks: int | None = None,
) -> GateRules:
    """The rules of a `gate:` block as it is written, and of options. Raises RsctlError.

    A baseline or a history that is given as an option overrides both of the block.
    """
    for name, given in (("baseline", baseline), ("history", history)):
        if given == "":
            remedy = "give FILE, gs://…, s3://…, git:REF:PATH or a bench"
            finding = error(name, f"--{name} is empty", remedy if name == "baseline" else FORMS)
            raise RsctlError(ExitCode.USAGE, finding)
    floors = make_floors(block, max_regression)
    is_given = baseline is not None or history is not None
    of_file = block.get("baseline")
    known_history = history if is_given else block.get("history")
    if window is not None and known_history is None:
        remedy = "give --history WHERE, or set gate.history in the job file"
        raise RsctlError(ExitCode.USAGE, error("gate", "--window needs a history", remedy))
    return GateRules(
        baseline=baseline or of_file,
        floors=floors,
        given=max_regression,
        repeat=repeat or block.get("repeat"),
        confirm=int(block.get("confirm") or 0) if confirm is None else confirm,
        looks=looks or block.get("looks") or 1,
        is_from_file=baseline is None and of_file is not None,
        history=known_history,
        window=window or block.get("window"),
        is_history_from_file=not is_given,
        only_limit=(baseline if is_given else of_file) is not None,
    )
