"""The routes by which a rehearsal is made to go wrong, and asked how it goes.

They take the emulator's own credentials, as all routes do:

- `GET /emulator/state`: `{"idle", "jobs": [{"name", "state", "stand_in"}], "behaviour"}`
- `POST /emulator/behaviour` with fields of `Behaviour`: `{"stockouts": 1}`
- `POST /emulator/faults` with the fields of a `Fault`: `{"route": "logging.entries.list",
  "times": 3, "status": 503}`
- `POST /emulator/jobs/ID:preempt`, with `{"task": "workerpool1-0"}` or `{}` for the last machine
- `POST /emulator/credentials:expire`: tokens that were given so far are no longer good
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, fields
from typing import Any

from rsctl.emulators.faults import Fault
from rsctl.emulators.google import GoogleEmulator
from rsctl.emulators.http import Reply, Request, Route, route
from rsctl.emulators.vertex.behaviour import Behaviour
from rsctl.emulators.vertex.record import Record


class Control:
    """What is not of the cloud but of the emulator."""

    def __init__(
        self,
        emulator: GoogleEmulator,
        behaviour: Behaviour,
        records: Callable[[], Collection[Record]],
        is_idle: Callable[[], bool],
        preempt: Callable[[str, str | None], None],
    ) -> None:
        self._emulator = emulator
        self._behaviour = behaviour
        self._records = records
        self._is_idle = is_idle
        self._preempt = preempt

    def routes(self) -> list[Route]:
        """What it answers."""
        place = "/emulator/"
        return [
            route("emulator.state", "GET", place + "state", self._state),
            route("emulator.behaviour", "POST", place + "behaviour", self._change),
            route("emulator.faults", "POST", place + "faults", self._fault),
            route("emulator.preempt", "POST", place + "jobs/{job}:preempt", self._take_away),
            route("emulator.expire", "POST", place + "credentials:expire", self._expire),
        ]

    def _state(self, request: Request) -> Reply:
        del request
        jobs = [
            {"name": record.shown["name"], "state": record.state, "stand_in": record.stand_in}
            for record in self._records()
        ]
        state = {"idle": self._is_idle(), "jobs": jobs, "behaviour": asdict(self._behaviour)}
        return Reply.of(state)

    def _change(self, request: Request) -> Reply:
        try:
            self._behaviour.change(request.json())
        except ValueError as problem:
            raise self._emulator.refuse(400, "INVALID_ARGUMENT", str(problem)) from None
        return Reply.of(asdict(self._behaviour))

    def _fault(self, request: Request) -> Reply:
        wanted = self._object(request)
        known = {field.name for field in fields(Fault)}
        if not set(wanted) <= known or not isinstance(wanted.get("route"), str):
            message = f"a fault has a route, and some of {', '.join(sorted(known))}"
            raise self._emulator.refuse(400, "INVALID_ARGUMENT", message)
        self._emulator.faults.add(Fault(**wanted))
        return Reply.of({})

    def _take_away(self, request: Request) -> Reply:
        task = self._object(request).get("task")
        try:
            self._preempt(request.parts["job"], task)
        except KeyError:
            raise self._emulator.refuse(404, "NOT_FOUND", "no such job goes on") from None
        return Reply.of({})

    def _expire(self, request: Request) -> Reply:
        del request
        self._emulator.access.expire()
        return Reply.of({})

    def _object(self, request: Request) -> dict[str, Any]:
        try:
            content = request.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._emulator.refuse(400, "INVALID_ARGUMENT", "a JSON object is expected")
        return content
