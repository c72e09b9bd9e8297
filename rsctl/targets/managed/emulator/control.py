"""The control API of an emulator: its state, its behaviour, faults and preemptions.

They take the emulator's own credentials, as all routes do:

- `GET /emulator/state`: `{"idle", "jobs", "behaviour", "faults"}`, the last how many are to come
- `POST /emulator/behaviour` with fields of the cloud's `Behaviour`: `{"stockouts": 1}`
- `POST /emulator/faults` with the fields of a `Fault`: `{"route": "logging.entries.list",
  "times": 3, "status": 503}`
- `POST /emulator/jobs/JOB:preempt`, with the machine, `{"task": "workerpool1-0"}` on Vertex AI and
  `{"host": "algo-2"}` on SageMaker, or `{}` for the last one
- `POST /emulator/credentials:expire`: all calls but those of this API are refused from now on
"""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from typing import Any, NamedTuple, Protocol

import msgspec

from rsctl.targets.managed.emulator.behaviour import EmulatorBehaviour
from rsctl.targets.managed.emulator.faults import Fault, Faults
from rsctl.targets.managed.emulator.http import Refused, Reply, Request, Route, route

_PREFIX = "/emulator/"


class ControlTerms(NamedTuple):
    """A cloud's terms: the field that names a job's machine, and its error codes for 400 and 404.

    `gone` is the message for a job that has no machines to lose.
    """

    machine: str
    invalid: str
    missing: str
    gone: str


class Controlled(Protocol):
    """An emulator, as far as it is controlled."""

    faults: Faults
    control_terms: ControlTerms

    @property
    def behaviour(self) -> EmulatorBehaviour:
        """How the cloud behaves."""

    @property
    def is_idle(self) -> bool:
        """Whether no job is in progress."""

    def shown_jobs(self) -> list[dict[str, Any]]:
        """All jobs in brief, as JSON."""

    def preempt(self, job: str, machine: str | None = None) -> None:
        """Take a machine of a job away, the last one if none is named. Raises KeyError."""

    def expire(self) -> None:
        """Refuse all calls but those of control from now on, as for expired credentials."""

    def refuse(self, status: int, code: str, message: str) -> Refused:
        """An error to raise."""


class Control:
    """The routes of the control API."""

    def __init__(self, emulator: Controlled) -> None:
        self._emulator = emulator

    def routes(self) -> list[Route]:
        """All routes."""
        return [
            route("emulator.state", "GET", _PREFIX + "state", self._state),
            route("emulator.behaviour", "POST", _PREFIX + "behaviour", self._change),
            route("emulator.faults", "POST", _PREFIX + "faults", self._fault),
            route("emulator.preempt", "POST", _PREFIX + "jobs/{job}:preempt", self._preempt),
            route("emulator.expire", "POST", _PREFIX + "credentials:expire", self._expire),
        ]

    def _state(self, request: Request) -> Reply:
        emulator = self._emulator
        state = {"idle": emulator.is_idle, "jobs": emulator.shown_jobs()}
        behaviour = asdict(emulator.behaviour)
        return Reply.of({**state, "behaviour": behaviour, "faults": emulator.faults.to_come})

    def _change(self, request: Request) -> Reply:
        try:
            self._emulator.behaviour.change(request.json())
        except ValueError as problem:
            raise self._invalid(str(problem)) from None
        return Reply.of(asdict(self._emulator.behaviour))

    def _fault(self, request: Request) -> Reply:
        wanted = self._object(request)
        known = [field.name for field in fields(Fault)]
        if not wanted.keys() <= set(known):
            raise self._invalid(f"the fields of a fault are {', '.join(known)}")
        try:
            fault = msgspec.convert(wanted, Fault)
            re.compile(fault.path)
        except (msgspec.ValidationError, re.error) as problem:
            raise self._invalid(f"this is not a fault: {problem}") from None
        self._emulator.faults.add(fault)
        return Reply.of({})

    def _preempt(self, request: Request) -> Reply:
        terms = self._emulator.control_terms
        machine = self._object(request).get(terms.machine)
        try:
            self._emulator.preempt(request.parts["job"], machine)
        except KeyError:
            raise self._emulator.refuse(404, terms.missing, terms.gone) from None
        return Reply.of({})

    def _expire(self, request: Request) -> Reply:
        self._emulator.expire()
        return Reply.of({})

    def _object(self, request: Request) -> dict[str, Any]:
        try:
            content = request.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._invalid("expected a JSON object")
        return content

    def _invalid(self, message: str) -> Refused:
        return self._emulator.refuse(400, self._emulator.control_terms.invalid, message)
