"""Vertex AI's MetadataService as far as experiments go: a store, its contexts, their children."""

from __future__ import annotations

import re
from typing import Any

from rsctl.runs.stream.events import now
from rsctl.targets.managed.emulator.http import Reply, Request, Route, route
from rsctl.targets.vertex.emulator.google_services import GoogleEmulator

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_FIELDS = frozenset(
    {"name", "displayName", "schemaTitle", "schemaVersion", "metadata", "description", "labels"}
    | {"etag", "createTime", "updateTime", "parentContexts", "uri", "state"}
)
_SCHEMA = re.compile(r'schema_title="([^"]*)"')
_PARENT = re.compile(r'parent_contexts:((?:"[^"]*",?)+)')
_TENSORBOARD_RUN = "google.VertexTensorboardRun"
_SCHEMAS = ("system.Experiment", "system.ExperimentRun")


class Metadata:
    """The default metadata store of one project in one region; it is there once it was created.

    Filters are those that google-cloud-aiplatform sends. There are no executions, and artifacts
    are those that name a run of a TensorBoard.
    """

    def __init__(self, emulator: GoogleEmulator, region: str) -> None:
        self._emulator = emulator
        self._location = f"projects/{emulator.number}/locations/{region}"
        self._store = f"{self._location}/metadataStores/default"
        self._has_store = False
        self.contexts: dict[str, dict[str, Any]] = {}
        self._artifacts: dict[str, dict[str, Any]] = {}

    def routes(self) -> list[Route]:
        """The routes of the service."""
        stores = "/v1/projects/{project}/locations/{location}/metadataStores"
        store, name = stores + "/{store}", "aiplatform.metadata."
        contexts = store + "/contexts"
        return [
            route(name + "createStore", "POST", stores, self._create_store),
            route(name + "getStore", "GET", store, self._get_store),
            route(name + "createContext", "POST", contexts, self._create),
            route(name + "listContexts", "GET", contexts, self._list),
            route(name + "getContext", "GET", contexts + "/{context}", self._get),
            route(name + "patchContext", "PATCH", contexts + "/{context}", self._patch),
            route(
                name + "addContextChildren",
                "POST",
                contexts + "/{context}:addContextChildren",
                self._add_children,
            ),
            route(name + "listExecutions", "GET", store + "/executions", self._no_executions),
            route(name + "getExecution", "GET", store + "/executions/{id}", self._missing),
            route(name + "createArtifact", "POST", store + "/artifacts", self._create_artifact),
            route(name + "getArtifact", "GET", store + "/artifacts/{id}", self._get_artifact),
            route(
                name + "addContextArtifactsAndExecutions",
                "POST",
                contexts + "/{context}:addContextArtifactsAndExecutions",
                self._add_artifacts,
            ),
        ]

    def _create_store(self, request: Request) -> Reply:
        if self._has_store:
            raise self._emulator.refuse(
                409, "ALREADY_EXISTS", f"MetadataStore {self._store} exists."
            )
        self._has_store = True
        kind = "type.googleapis.com/google.cloud.aiplatform.v1.MetadataStore"
        operation = {
            "name": f"{self._location}/metadataStores/default/operations/1",
            "done": True,
            "response": {"@type": kind, "name": self._store},
        }
        return Reply.of(operation)

    def _get_store(self, request: Request) -> Reply:
        self._need_store(request)
        return Reply.of({"name": self._store})

    def _create(self, request: Request) -> Reply:
        self._need_store(request)
        identity = request.query.get("contextId", "")
        if not _ID.fullmatch(identity):
            raise self._emulator.invalid(f"Invalid context id {identity!r}.")
        if identity in self.contexts:
            message = f"Context with name {self._store}/contexts/{identity} already exists"
            raise self._emulator.refuse(409, "ALREADY_EXISTS", message)
        body = self._body(request)
        if body.get("schemaTitle") not in _SCHEMAS:
            message = f"MetadataSchema {body.get('schemaTitle')!r} is not registered."
            raise self._emulator.invalid(message)
        times = dict.fromkeys(("createTime", "updateTime"), now())
        made = {**body, "name": f"{self._store}/contexts/{identity}", "parentContexts": []}
        self.contexts[identity] = {**made, **times, "etag": "1"}
        return Reply.of(self.contexts[identity])

    def _get(self, request: Request) -> Reply:
        return Reply.of(self._context(request))

    def _patch(self, request: Request) -> Reply:
        context = self._context(request)
        body = self._body(request)
        mask = request.query.get("updateMask", "")
        names = [name.split(".")[0] for name in mask.split(",") if name] or list(body)
        for name in names:
            if name in ("displayName", "metadata", "description", "labels") and name in body:
                context[name] = body[name]
        context |= {"updateTime": now(), "etag": str(int(context["etag"]) + 1)}
        return Reply.of(context)

    def _add_children(self, request: Request) -> Reply:
        parent = self._context(request)
        body = request.json()
        names = body.get("childContexts", body.get("child_contexts", []))
        children = [self.contexts.get(name.rpartition("/")[2]) for name in names]
        if None in children:
            raise self._emulator.refuse(404, "NOT_FOUND", "a child context was not found")
        for child in children:
            if child is not None and parent["name"] not in child["parentContexts"]:
                child["parentContexts"].append(parent["name"])
        return Reply.of({})

    def _list(self, request: Request) -> Reply:
        self._need_store(request)
        wanted = request.query.get("filter", "")
        schemas, parents = _SCHEMA.findall(wanted), _PARENT.search(wanted)
        if wanted and not schemas and not parents:
            raise self._emulator.invalid(f"filter {wanted!r} is not emulated")
        above = {_short(name) for name in re.findall(r'"([^"]*)"', parents[1])} if parents else None
        found = [
            context
            for context in self.contexts.values()
            if (not schemas or context["schemaTitle"] in schemas)
            and (above is None or above & set(map(_short, context["parentContexts"])))
        ]
        return Reply.of({"contexts": found})

    def _create_artifact(self, request: Request) -> Reply:
        self._need_store(request)
        body = self._body(request)
        if body.get("schemaTitle") != _TENSORBOARD_RUN:
            message = f"MetadataSchema {body.get('schemaTitle')!r} is not emulated."
            raise self._emulator.invalid(message)
        identity = request.query.get("artifactId", "")
        name = f"{self._store}/artifacts/{identity}"
        if identity in self._artifacts:
            raise self._emulator.refuse(409, "ALREADY_EXISTS", f"Artifact {name} already exists")
        times = dict.fromkeys(("createTime", "updateTime"), now())
        self._artifacts[identity] = {**body, "name": name, **times}
        return Reply.of(self._artifacts[identity])

    def _get_artifact(self, request: Request) -> Reply:
        found = self._artifacts.get(request.parts["id"])
        return Reply.of(found) if found else self._missing(request)

    def _add_artifacts(self, request: Request) -> Reply:
        self._context(request)
        for name in request.json().get("artifacts", []):
            if name.rpartition("/")[2] not in self._artifacts:
                raise self._emulator.refuse(404, "NOT_FOUND", f"{name} was not found.")
        return Reply.of({})

    def _no_executions(self, request: Request) -> Reply:
        self._need_store(request)
        return Reply.of({})

    def _missing(self, request: Request) -> Reply:
        raise self._emulator.refuse(404, "NOT_FOUND", f"{request.path} was not found.")

    def _context(self, request: Request) -> dict[str, Any]:
        self._need_store(request)
        found = self.contexts.get(request.parts["context"])
        if found is None:
            raise self._emulator.refuse(404, "NOT_FOUND", f"{request.path} was not found.")
        return found

    def _body(self, request: Request) -> dict[str, Any]:
        body = self._emulator.json_object(request)
        for name in body:
            if name not in _FIELDS:
                message = f"Invalid JSON payload received. Unknown name \"{name}\" at 'context'"
                raise self._emulator.invalid(message)
        return body

    def _need_store(self, request: Request) -> None:
        if request.parts["store"] != "default" or not self._has_store:
            raise self._emulator.refuse(
                404, "NOT_FOUND", "The specified MetadataStore was not found."
            )


def _short(name: str) -> str:
    """A context's name without its project, which has a number and an id."""
    return name.partition("/metadataStores/")[2]
