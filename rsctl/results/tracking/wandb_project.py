"""Weights & Biases: a run of a project, by W&B's own client (extra `wandb`).

The client sends in the background and raises nothing when that fails. So each call is a session of
its own, which ends when its client has sent all, and the next one asks the server for its state.

With WANDB_MODE=offline nothing is sent: each session leaves a folder `offline-run-…` below the
run's, or below WANDB_DIR, and `wandb sync` sends them, all to the one run. With `disabled` nothing
is done at all. Sessions are few then: data that arrives within minutes goes into one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rsctl.clients.private import is_private, not_private, without_secrets
from rsctl.findings import JobState
from rsctl.installation import needs_extra
from rsctl.results.tracking.cursor import tracking_folder
from rsctl.runs.tracker import MetricPoint, Result, State, TrackedRun, TrackerError, one_line

STEP = "rsctl/step"
"""The value that W&B draws metrics over. Its own step is the number of the row."""

_SECONDS = 60.0
_OFFLINE_SECONDS = 300.0
_MODES = {"offline": "offline", "dryrun": "offline", "disabled": "disabled"}
_RETRIES = 2
_REMEDIES = [
    (r"user is not logged in|error 401", "set WANDB_API_KEY to a key of this server"),
    (r"permission denied|error 403", "check that the user of WANDB_API_KEY may write to {}"),
    (r"entity .* not found", "check the entity of {}"),
]


class WandbProject:
    """See Tracker. A run is found by its id. Its rows are numbered from the run's beginning, and
    the client drops rows whose number is not higher than the server's last one, so a row that is
    sent again is not stored twice.
    """

    seconds_between = 30.0
    takes_files = True

    def __init__(self, location: str, run: TrackedRun) -> None:
        message = "tracking with Weights & Biases needs its client, which is not installed"
        with needs_extra("wandb", "extra", message, "install it: {}"):
            import wandb
        self._wandb: Any = wandb
        self._run = run
        self._server, self._entity, self._project = _parts(location)
        self._mode = _MODES.get(os.environ.get("WANDB_MODE", ""), "online")
        if self._mode != "online":
            self.seconds_between = _OFFLINE_SECONDS
        if not is_private(self._server or "https://default"):
            shown = without_secrets(self._server or "")
            raise not_private(f"the W&B server is {shown!r}", self._server or "")

    def begin(self, state: State) -> None:
        """See Tracker."""
        with self._session():
            pass
        state["rows"] = 0

    def send(self, points: Sequence[MetricPoint], state: State) -> None:
        """See Tracker."""
        first = state["rows"]
        with self._session() as session:
            for row, point in enumerate(points, first):
                values = {_name(point.tag): point.value, STEP: point.step}
                session.log({**values, "_timestamp": point.seconds}, step=row)
        state["rows"] = first + len(points)
        if self._mode == "online":
            with self._session() as session:
                _require(session.starting_step >= state["rows"], "values")

    def end(self, result: Result, state: State) -> None:
        """See Tracker."""
        summary = {f"rsctl/{name}": text for name, text in result.texts.items()}
        summary["rsctl/state"] = result.state.value
        with self._session() as session:
            session.summary.update({**result.named_samples, **summary})
            for file in result.files:
                session.save(str(file), base_path=str(file.parent), policy="now")
        if self._mode == "online":
            with self._session(result.state) as session:
                _require(session.summary.get("rsctl/state") == result.state.value, "result")

    @contextmanager
    def _session(self, end: JobState | None = None) -> Iterator[Any]:
        """A client that continues the run, and ends it with `end`; closed when all is sent."""
        wandb = self._wandb
        with self._folder() as folder:
            try:
                session = wandb.init(
                    entity=self._entity,
                    project=self._project,
                    id=self._run.run.run,
                    name=self._run.run.run,
                    **({"resume": "allow"} if self._mode == "online" else {}),
                    reinit="create_new",
                    config={**self._run.tags, **self._run.parameters},
                    settings=self._settings(folder, is_end=end is not None),
                )
                session.define_metric("*", step_metric=STEP)
                yield session
                session.finish(exit_code=int(end is not None and end is not JobState.SUCCEEDED))
            except (wandb.Error, TimeoutError) as problem:
                raise TrackerError(self._explained(problem)) from None

    def _explained(self, problem: Exception) -> str:
        """The report of the client, with the remedy if the server refuses the key or the place."""
        text = one_line(problem)
        remedy = next((each for known, each in _REMEDIES if re.search(known, text)), None)
        return f"{text} ({remedy.format(f'{self._entity}/{self._project}')})" if remedy else text

    @contextmanager
    def _folder(self) -> Iterator[str]:
        """The folder of a session's files, which stay if they are not sent."""
        own = tracking_folder(self._run.run.run)
        if self._mode == "offline":
            folder = Path(os.environ.get("WANDB_DIR") or own)
            folder.mkdir(parents=True, exist_ok=True)
            yield str(folder)
            return
        with TemporaryDirectory(dir=own, ignore_cleanup_errors=True) as temporary:
            yield temporary

    def _settings(self, folder: str, *, is_end: bool) -> Any:
        """A client that reports nothing about this machine, because the training runs elsewhere."""
        server = {"base_url": self._server} if self._server else {}
        return self._wandb.Settings(
            **server,
            mode=self._mode,
            root_dir=folder,
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
            save_code=False,
            init_timeout=_SECONDS,
            finish_timeout=_SECONDS,
            finish_timeout_raises=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            x_update_finish_state=is_end,
            x_graphql_retry_max=_RETRIES,
            x_file_stream_retry_max=_RETRIES,
            x_file_transfer_retry_max=_RETRIES,
        )


def _parts(location: str) -> tuple[str | None, str, str]:
    """The server, None for the client's own, the entity and the project."""
    server, entity, project = f"/{location}".rsplit("/", 2)
    return server.strip("/") or None, entity, project


def _name(tag: str) -> str:
    """A name that W&B takes, a different one for each tag: names that begin with an underscore are
    its own, and those below `rsctl/` are rsctl's.
    """
    return f"rsctl/{tag}" if tag.startswith(("_", "rsctl/")) else tag


def _require(is_there: bool, what: str) -> None:
    """Raise TrackerError if the server does not have the data that it was sent."""
    if not is_there:
        raise TrackerError(f"the W&B server did not accept the run's {what}")
