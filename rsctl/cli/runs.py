"""What the commands that take RUN have in common."""

from __future__ import annotations

from typing import Any

import msgspec

from rsctl.runs.store import Run, Store
from rsctl.targets import get
from rsctl.targets.base import Target


def find_run(store: Store, reference: str) -> tuple[Run, Target]:
    """A run, brought up to date, and its target. Raises RsctlError if there is none."""
    run = store.find(reference)
    target = get(run.target)
    if not run.state.is_final:
        target.reconcile(run.run)
        run = store.find(run.run)
    return run, target


def shown(run: Run) -> dict[str, Any]:
    """A run as `-o json` prints it: without its plan, which is long."""
    fields: dict[str, Any] = msgspec.to_builtins(run)
    del fields["plan"], fields["metrics_spec"]
    return fields
