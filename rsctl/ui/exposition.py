"""OpenMetrics text 1.0 for Prometheus: states of runs, and the metrics of unfinished runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from rsctl.api import JobState, Store
from rsctl.bench.formats.openmetrics import labels_text

MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def exposition(store: Store) -> str:
    """The number of runs in each state, and the last values of the metrics of unfinished runs.

    The name of a metric comes from the job, so that it is a label and not the name of a family.
    Raises StoreError.
    """
    return "\n".join([*_lines(store), "# EOF"]) + "\n"


def _lines(store: Store) -> Iterator[str]:
    runs = store.index()
    counts = Counter(run.state for run in runs)
    yield "# TYPE rsctl_runs gauge"
    yield "# HELP rsctl_runs Runs in the store by state."
    yield from (f"rsctl_runs{labels_text({'state': s.value})} {counts[s]}" for s in JobState)
    yield "# TYPE rsctl_run_metric gauge"
    yield "# HELP rsctl_run_metric The last value of a metric of an unfinished run."
    for run in runs:
        if run.state.is_final:
            continue
        labels = {"run": run.run, "name": run.name, "target": run.target}
        for replica, values in sorted(store.latest(run.run, "").items()):
            for metric, value in sorted(values.items()):
                text = labels_text({**labels, "replica": replica, "metric": metric})
                yield f"rsctl_run_metric{text} {_number(value)}"


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else f"{value:+}".capitalize()
