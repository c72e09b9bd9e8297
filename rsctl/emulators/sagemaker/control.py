"""The routes by which a rehearsal is made to go wrong, and asked how it goes.

They take the emulator's own credentials, as all routes do:

- `GET /emulator/state`: `{"idle", "jobs": [{"name", "status", "secondary"}], "behaviour"}`
- `POST /emulator/behaviour` with fields of `Behaviour`: `{"stockouts": 1}`
- `POST /emulator/faults` with the fields of a `Fault`: `{"route": "logs.FilterLogEvents",
  "times": 3, "status": 400, "code": "ThrottlingException"}`
- `POST /emulator/jobs/NAME:preempt`, with `{"host": "algo-2"}` or `{}` for the last machine: a job
  on spot machines is interrupted as a whole
- `POST /emulator/credentials:expire`: from now on the credentials are no longer good
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, fields
from typing import Any

from rsctl.emulators.aws import AwsEmulator
from rsctl.emulators.faults import Fault
from rsctl.emulators.http import Reply, Request, Route, route
from rsctl.emulators.sagemaker.behaviour import Behaviour
from rsctl.emulators.sagemaker.record import Record

_INVALID = "ValidationException"


class Control:
    """What is not of the cloud but of the emulator."""

    def __init__(
        self,
        emulator: AwsEmulator,
        behaviour: Behaviour,
        records: Callable[[], Collection[Record]],
        is_idle: Callable[[], bool],
        interrupt: Callable[[str, str | None], None],
        expire: Callable[[], None],
    ) -> None:
        self._emulator = emulator
        self._behaviour = behaviour
        self._records = records
        self._is_idle = is_idle
        self._interrupt = interrupt
        self._expire = expire

    def routes(self) -> list[Route]:
        """What it answers."""
        place = "/emulator/"
        return [
            route("emulator.state", "GET", place + "state", self._state),
            route("emulator.behaviour", "POST", place + "behaviour", self._change),
            route("emulator.faults", "POST", place + "faults", self._fault),
            route("emulator.preempt", "POST", place + "jobs/{job}:preempt", self._take_away),
            route("emulator.expire", "POST", place + "credentials:expire", self._run_out),
        ]

    def _state(self, request: Request) -> Reply:
        del request
        jobs = [
            {"name": record.name, "status": record.status, "secondary": record["SecondaryStatus"]}
            for record in self._records()
        ]
        state = {"idle": self._is_idle(), "jobs": jobs, "behaviour": asdict(self._behaviour)}
        return Reply.of(state)

    def _change(self, request: Request) -> Reply:
        try:
            self._behaviour.change(request.json())
        except ValueError as problem:
            raise self._emulator.refuse(400, _INVALID, str(problem)) from None
        return Reply.of(asdict(self._behaviour))

    def _fault(self, request: Request) -> Reply:
        wanted = self._object(request)
        known = {field.name for field in fields(Fault)}
        if not set(wanted) <= known or not isinstance(wanted.get("route"), str):
            message = f"a fault has a route, and some of {', '.join(sorted(known))}"
            raise self._emulator.refuse(400, _INVALID, message)
        self._emulator.faults.add(Fault(**wanted))
        return Reply.of({})

    def _take_away(self, request: Request) -> Reply:
        host = self._object(request).get("host")
        try:
            self._interrupt(request.parts["job"], host)
        except KeyError:
            raise self._emulator.refuse(404, _INVALID, "no such job is training") from None
        return Reply.of({})

    def _run_out(self, request: Request) -> Reply:
        del request
        self._expire()
        return Reply.of({})

    def _object(self, request: Request) -> dict[str, Any]:
        try:
            content = request.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._emulator.refuse(400, _INVALID, "a JSON object is expected")
        return content
