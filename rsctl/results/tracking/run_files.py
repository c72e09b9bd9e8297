"""The files that trackers get of a run that has ended.

job.yaml       the job file, without secrets, unless the job was made in Python
report.html    what `rsctl report RUN` writes
result.json    how the run ended, and its samples
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import msgspec

from rsctl.atomic_file import write_file
from rsctl.results.tracking.cursor import tracking_folder
from rsctl.runs.records import RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.ndjson import finite

_MAKING = Lock()
"""Held by the one thread that makes files, so that they are made once."""

_RESULT = (
    *("run", "name", "target", "url", "state", "exit_code", "reason", "attempt"),
    *("created", "started", "ended", "first_failure", "settings"),
)


def run_files(store: Store, run: RunRecord, samples: Mapping[str, float]) -> list[Path]:
    """The files of a run that is complete, in its folder; made once.

    Raises OSError, or RsctlError if a file cannot be written.
    """
    folder = tracking_folder(run.run) / "files"
    with _MAKING:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not (folder / "result.json").exists():
            for name, content in _contents(store, run, samples):
                write_file(folder / name, content.encode(errors="replace"))
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _contents(store: Store, run: RunRecord, samples: Mapping[str, float]) -> list[tuple[str, str]]:
    """Names and contents, the result last: it says that all files exist."""
    from rsctl.results.report.build import make_report

    fields = msgspec.to_builtins(run)
    result = {**{name: fields[name] for name in _RESULT}, "samples": finite(dict(samples))}
    found = [("job.yaml", run.spec)] if run.spec is not None else []
    found.append(("report.html", make_report(store, [run], {}).html))
    return [*found, ("result.json", msgspec.json.encode(result).decode())]
