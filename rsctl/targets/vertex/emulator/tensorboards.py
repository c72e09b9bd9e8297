"""Vertex AI's TensorboardService as far as experiments go: scalars of runs, by step."""

from __future__ import annotations

from typing import Any

from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.http import Reply, Request, Route, route
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator

_MOST_POINTS = 5000
Resource = dict[str, Any]


class Tensorboards:
    """The TensorBoard instances of one project in one region, by their names in full.

    Ids of instances and time series are numbers that are given here. A value that is written again
    at a step replaces the one that is there, as Google's reference has it.
    """

    def __init__(self, emulator: GoogleEmulator, region: str) -> None:
        self._emulator = emulator
        self._location = f"projects/{emulator.number}/locations/{region}"
        self._resources: dict[str, Resource] = {}
        self._values: dict[str, dict[int, Resource]] = {}

    def routes(self) -> list[Route]:
        """The routes of the service."""
        boards = "/v1/projects/{project}/locations/{location}/tensorboards"
        board = boards + "/{board}"
        experiments = board + "/experiments"
        runs = experiments + "/{experiment}/runs"
        run, series = runs + "/{run}", runs + "/{run}/timeSeries"
        name = "aiplatform.tensorboard."
        return [
            route(name + "create", "POST", boards, self._create_board),
            route(name + "batchRead", "GET", board + ":batchRead", self._read),
            route(name + "get", "GET", board, self._get),
            route(name + "createExperiment", "POST", experiments, self._create),
            route(name + "getExperiment", "GET", experiments + "/{experiment}", self._get),
            route(name + "createRun", "POST", runs, self._create),
            route(name + "write", "POST", run + ":write", self._write),
            route(name + "getRun", "GET", run, self._get),
            route(name + "createTimeSeries", "POST", series, self._create_series),
            route(name + "listTimeSeries", "GET", series, self._list_series),
        ]

    def _create_board(self, request: Request) -> Reply:
        made = self._add(f"{self._location}/tensorboards", str(len(self._resources) + 1), request)
        kind = "type.googleapis.com/google.cloud.aiplatform.v1.Tensorboard"
        operation = {
            "name": f"{made['name']}/operations/1",
            "done": True,
            "response": {"@type": kind, **made},
        }
        return Reply.of(operation)

    def _create(self, request: Request) -> Reply:
        """An experiment or a run, with the id that the caller gives."""
        parent = self._name(request, "/experiments", "/runs")
        self._need(parent)
        what = "tensorboardRunId" if request.path.endswith("/runs") else "tensorboardExperimentId"
        identity = request.query.get(what, "")
        if not identity:
            raise self._emulator.invalid(f"{what} is required.")
        return Reply.of(self._add(f"{parent}/{request.path.rpartition('/')[2]}", identity, request))

    def _create_series(self, request: Request) -> Reply:
        run = self._name(request, "/timeSeries")
        self._need(run)
        shown = self._emulator.json_object(request).get("displayName")
        if any(each["displayName"] == shown for each in self._series(run)):
            message = f"TensorboardTimeSeries with display name {shown!r} already exists in {run}."
            raise self._emulator.refuse(409, "ALREADY_EXISTS", message)
        made = self._add(f"{run}/timeSeries", str(len(self._resources) + 1), request)
        self._values[made["name"]] = {}
        return Reply.of(made)

    def _list_series(self, request: Request) -> Reply:
        return Reply.of({"tensorboardTimeSeries": self._series(self._name(request, "/timeSeries"))})

    def _get(self, request: Request) -> Reply:
        return Reply.of(self._need(self._name(request)))

    def _write(self, request: Request) -> Reply:
        run = self._name(request, ":write")
        self._need(run)
        try:
            written = [
                (
                    f"{run}/timeSeries/{each['tensorboardTimeSeriesId']}",
                    int(value.get("step", 0)),
                    value,
                )
                for each in self._emulator.json_object(request).get("timeSeriesData", [])
                for value in each["values"]
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._emulator.invalid("Invalid timeSeriesData.") from None
        if len(written) > _MOST_POINTS:
            message = f"More than {_MOST_POINTS} data points in one request."
            raise self._emulator.invalid(message)
        for name, _, _ in written:
            self._need(name)
        for name, step, value in written:
            self._values[name][step] = value
        return Reply.of({})

    def _read(self, request: Request) -> Reply:
        names = request.queries.get("timeSeries", [])
        found = [
            {
                "tensorboardTimeSeriesId": name.rpartition("/")[2],
                "valueType": "SCALAR",
                "values": [value for _, value in sorted(self._values[name].items())],
            }
            for name in map(self._own, names)
            if self._need(name)
        ]
        return Reply.of({"timeSeriesData": found})

    def _series(self, run: str) -> list[Resource]:
        prefix = f"{run}/timeSeries/"
        return [each for name, each in self._resources.items() if name.startswith(prefix)]

    def _add(self, parent: str, identity: str, request: Request) -> Resource:
        name = f"{parent}/{identity}"
        if name in self._resources:
            raise self._emulator.refuse(409, "ALREADY_EXISTS", f"{name} already exists.")
        body, created = self._emulator.json_object(request), now()
        made = {**body, "name": name, "createTime": created, "updateTime": created}
        self._resources[name] = made
        return made

    def _need(self, name: str) -> Resource:
        if name not in self._resources:
            raise self._emulator.refuse(404, "NOT_FOUND", f"{name} was not found.")
        return self._resources[name]

    def _name(self, request: Request, *ends: str) -> str:
        """The resource that a path names, less what follows it."""
        path = request.path.partition("/v1/")[2]
        for end in ends:
            path = path.removesuffix(end)
        return self._own(path)

    def _own(self, name: str) -> str:
        """A name with the project's number, which callers may give by its id."""
        return f"{self._location}/tensorboards/{name.partition('/tensorboards/')[2]}"
