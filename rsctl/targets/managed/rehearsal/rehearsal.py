"""A rehearsal: the cloud of one run is an emulator on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rsctl.findings import ExitCode, Finding, RsctlError, error
from rsctl.runs import emulator
from rsctl.targets.base import Submission

if TYPE_CHECKING:
    from rsctl.targets.managed.emulator.nodes import Kind

BEHAVIOURS = "docs/reference/behaviours.md says what each of them does"


@dataclass(frozen=True)
class Rehearsal:
    """How a cloud is rehearsed.

    `runner` runs the nodes; `auto` is docker if an engine answers, otherwise processes. `behaviour`
    is how the emulator behaves, such as `{"stockouts": 2}`; docs/reference/behaviours.md lists all.
    """

    runner: Literal["auto", "docker", "process"] = "auto"
    behaviour: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The options of a command that rehearses in this way."""
        words = ["--rehearse", *([] if self.runner == "auto" else ["--rehearse-with", self.runner])]
        for name, value in self.behaviour.items():
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            words += ["--behaviour", f"{name}={text}"]
        return words


class RehearsedTarget:
    """The differences of a rehearsed submission to a target; `given` is how it is rehearsed.

    Raises RsctlError if the target is not a cloud, if its emulator has no such behavior, or if this
    machine cannot run nodes that way.
    """

    def __init__(self, target: str, rehearsal: Rehearsal) -> None:
        from rsctl.targets.managed.emulator.clouds import check_behaviour

        if not isinstance(rehearsal, Rehearsal):
            message = f"rehearse: {rehearsal!r} is not a Rehearsal"
            remedy = "give rsctl.api.Rehearsal(), or omit it"
            raise RsctlError(ExitCode.USAGE, error("argument", message, remedy))

        self.given = rehearsal
        self._behaviour = dict(rehearsal.behaviour)
        try:
            check_behaviour(target, self._behaviour)
        except ValueError as problem:
            raise unknown_behaviour(problem) from None
        self._runner = _kind(rehearsal.runner)

    @property
    def runner(self) -> Kind:
        """The runner of the nodes."""
        return self._runner

    @property
    def definition(self) -> str:
        """The properties that make two rehearsals of a job the same: runner and behavior."""
        return f"rehearsed: {self._runner} {sorted(self._behaviour.items())}"

    def findings(self, submission: Submission) -> list[Finding]:
        """The notes for the user on this rehearsal, and errors for missing requirements."""
        from rsctl.targets.managed.rehearsal.job import rehearsal_findings

        return rehearsal_findings(submission, self._runner)

    @contextmanager
    def emulating(self, submission: Submission) -> Iterator[Submission]:
        """Start the emulator, and yield the submission for it; every command on the run finds it.

        The emulator ends if an error stops the submission. It continues after an interruption,
        since it may already run a job, and `cancel` decides.
        """
        from rsctl.targets.managed.rehearsal.image import rehearsed_submission
        from rsctl.targets.managed.rehearsal.job import make_settings
        from rsctl.targets.managed.rehearsal.start import start

        submission = rehearsed_submission(submission, self._runner)
        start(submission.plan.run, make_settings(submission, self._runner, self._behaviour))
        try:
            yield submission
        except Exception:
            emulator.end(submission.plan.run)
            raise


def unknown_behaviour(problem: ValueError) -> RsctlError:
    """The error for a behaviour that an emulator does not have, or a value that it cannot take."""
    return RsctlError(ExitCode.USAGE, error("behaviour", f"--behaviour: {problem}", BEHAVIOURS))


def _kind(runner: str) -> Kind:
    from rsctl.targets.managed.emulator.nodes.runners import make_runner

    return make_runner(runner).kind
