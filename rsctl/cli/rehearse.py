"""`rsctl submit --rehearse`: the cloud of one run is played by this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.runs import emulator
from rsctl.spec.document import Document
from rsctl.targets.base import Plan, Submission

if TYPE_CHECKING:
    from rsctl.emulators.nodes import Kind


BEHAVIOURS = "docs/clouds.md says what each of them does"


class Rehearse:
    """What `submit` does otherwise for a run that is rehearsed.

    Raises RsctlError if the target is no cloud, or this machine cannot run nodes that way.
    """

    def __init__(self, target: str, way: str, behaviour: Sequence[str]) -> None:
        from rsctl.emulators.clouds import EMULATORS, check_behaviour

        if target not in EMULATORS:
            message = f"target {target} runs on this machine: it is a rehearsal already"
            remedy = f"leave --rehearse out, or name a cloud: --target {' or '.join(EMULATORS)}"
            raise RsctlError(ExitCode.USAGE, error("rehearse", message, remedy))
        self._target = target
        self._behaviour = parse_behaviour(behaviour)
        try:
            check_behaviour(target, self._behaviour)
        except ValueError as problem:
            finding = error("behaviour", f"--behaviour: {problem}", BEHAVIOURS)
            raise RsctlError(ExitCode.USAGE, finding) from None
        self._runner = _kind(way)

    def prepare(self, document: Document) -> list[Finding]:
        """Give the job what it lacks to be planned without an account, and say so."""
        from rsctl.rehearsal.job import complete_job

        if document.job is None:
            return []
        document.job, findings = complete_job(document.job, self._target)
        return findings

    def findings(self, submission: Submission) -> list[Finding]:
        """What the user is to know of this rehearsal, and errors for what it lacks."""
        from rsctl.rehearsal.job import rehearsal_findings

        return rehearsal_findings(submission, self._runner)

    @contextmanager
    def playing(self, submission: Submission) -> Iterator[Submission]:
        """Start the emulator, and yield what is sent to it; every command on the run finds it.

        It lives on, but for a run that could not be submitted.
        """
        from rsctl.rehearsal.image import rehearsed_submission
        from rsctl.rehearsal.job import make_settings
        from rsctl.rehearsal.start import start

        submission = rehearsed_submission(submission, self._runner)
        start(submission.plan.run, make_settings(submission, self._runner, self._behaviour))
        try:
            yield submission
        except BaseException:
            emulator.end(submission.plan.run)
            raise

    def end(self, plan: Plan) -> None:
        """End the emulator, with whatever still runs in it."""
        emulator.end(plan.run)


def parse_behaviour(texts: Sequence[str]) -> dict[str, Any]:
    """`stockouts=2` as a field and its value, which is JSON or else text. Raises RsctlError."""
    behaviour: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            message = f"--behaviour {text!r} is not NAME=VALUE"
            raise RsctlError(ExitCode.USAGE, error("behaviour", message, "such as stockouts=2"))
        try:
            behaviour[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            behaviour[name] = value
    return behaviour


def _kind(way: str) -> Kind:
    from rsctl.emulators.nodes.runners import make_runner

    return make_runner(way).kind
