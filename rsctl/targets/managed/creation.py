"""Creates a run's job in the cloud; a job is not lost if its sender is interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from time import sleep
from typing import Any

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.folder import RunFolder
from rsctl.runs.placements import is_ending, request_cancel
from rsctl.runs.store import Store
from rsctl.targets.base import Unanswered
from rsctl.targets.managed.endpoints import endpoints_of
from rsctl.targets.managed.service import JobService, answer_of, cancel_job

_FIND_TRIES, _FIND_SECONDS = 3, 2.0  # for a job that may be listed only a moment after it was made


class JobCreator:
    """Creates the job of a run at a service, and records its URL."""

    def __init__(self, run: str, service: JobService) -> None:
        self._run, self._service, self._store = run, service, Store()

    def create(
        self,
        planned: Mapping[str, Any],
        request: dict[str, Any],
        cancels_if_interrupted: bool = True,
    ) -> None:
        """Send a request, `planned` with its placeholders resolved.

        An interruption waits for the answer: a request in progress may create a job even after its
        sender has ended. Then the job is cancelled; if that fails, it is recorded and continues.
        Raises RsctlError; Unanswered if a job may exist.
        """
        RunFolder(self._run).note_request()
        with ThreadPoolExecutor(1) as threads:
            creation = threads.submit(self._service.create, self._run, request)
            try:
                url = creation.result()
                try:
                    self._locate(url)
                except RsctlError as problem:  # there is a job
                    raise Unanswered(self._run, problem) from None
            except KeyboardInterrupt:
                if cancels_if_interrupted:
                    self._cancel_created(planned, creation)
                else:
                    with suppress(RsctlError):  # the next update looks for the job
                        self._locate(creation.result())
                raise

    def _locate(self, url: str) -> None:
        """Record the job's URL; cancels the job if its cancellation was requested meanwhile."""
        self._store.locate(self._run, url)
        if is_ending(self._store, self._run):
            cancel_job(self._service.open(url))

    def _cancel_created(self, planned: Mapping[str, Any], creation: Future[str]) -> None:
        """Cancel the job that an interrupted request has made, if any. Raises Unanswered."""
        request_cancel(self._store, self._run)
        try:
            url = creation.result()
        except (Unanswered, KeyboardInterrupt):
            url = self._find(planned)
        except RsctlError:  # it was refused
            return
        self._store.locate(self._run, url)
        try:
            answer_of(self._service.open(url).cancel)
        except RsctlError as problem:
            raise Unanswered(self._run, problem) from None

    def _find(self, planned: Mapping[str, Any]) -> str:
        """The URL of the run's job after a lost answer. Raises Unanswered."""
        for _ in range(_FIND_TRIES):
            try:
                url = answer_of(lambda: self._service.find(planned, self._run))
            except RsctlError as problem:
                raise Unanswered(self._run, problem) from None
            if url is not None:
                return url
            sleep(_FIND_SECONDS * endpoints_of(self._run).time_scale)
        finding = error("interrupted", "interrupted before the cloud had answered")
        raise Unanswered(self._run, RsctlError(ExitCode.ENVIRONMENT, finding))
