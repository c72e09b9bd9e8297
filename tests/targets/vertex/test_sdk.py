"""Every request against Google's own types, and against what Google's SDK sends for the same job.

The SDK is the real one; a server on loopback takes its requests down. Where it is known to be
wrong, or to leave no choice, `corrected` says how.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.kit.rendering import RUN

from .case_parts import BASE_SDK, CONTAINER, Case
from .cases_options import OPTIONS, RUN_CASES
from .cases_packages import PACKAGES
from .cases_pools import MACHINES, REDUCERS
from .cases_samples import SAMPLES
from .rendering import render

CASES = MACHINES + REDUCERS + RUN_CASES + OPTIONS + PACKAGES + SAMPLES
PROJECT, REGION = "my-project", "us-central1"
PARENT = f"projects/{PROJECT}/locations/{REGION}"


class Recorder(ThreadingHTTPServer):
    """Says yes to everything, and keeps the bodies of what is created."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        kind = self.path.partition("?")[0].rpartition("/")[2]
        self._answer({"name": f"{PARENT}/{kind}/1"})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/v1/")
        schema = "system.ExperimentRun" if path.endswith("exp-first") else "system.Experiment"
        if "/trainingPipelines/" in path:
            self._answer({"name": path, "state": "PIPELINE_STATE_SUCCEEDED"})
        else:
            self._answer({"name": path, "schemaTitle": schema, "metadata": {}})

    def _answer(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """A server, and the SDK turned to it."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import aiplatform  # seconds, and only this test's

    server = Recorder()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    aiplatform.init(
        project=PROJECT,
        location=REGION,
        staging_bucket="gs://bucket",
        credentials=AnonymousCredentials(),
        api_endpoint=f"http://127.0.0.1:{server.server_port}",
        api_transport="rest",
    )
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def parsed(body: dict[str, Any]) -> dict[str, Any]:
    """A CustomJob as Google's own type has it. Raises ParseError for what is not one."""
    from google.cloud.aiplatform_v1.types import CustomJob
    from google.protobuf import json_format

    message = json_format.ParseDict(body, CustomJob.pb(CustomJob()))
    shown: dict[str, Any] = json_format.MessageToDict(message)
    return shown


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """A plan's body as it is sent, with a text for each secret."""
    return dict(json.loads(json.dumps(body).replace('"value": null', '"value": "hidden"')))


def built_by_sdk(case: Case, recorder: Recorder) -> dict[str, Any]:
    """What the SDK sends for the case's job.

    Its training job makes the pools from the few words that people use; it wraps them in a
    pipeline, so that its custom job is given these pools and the rest.
    """
    from google.cloud import aiplatform

    arguments = {**BASE_SDK, **case.sdk}
    strategy = arguments.pop("scheduling_strategy", None)
    if case.package:
        aiplatform.CustomPythonPackageTrainingJob(RUN, **case.package).run(**arguments)
    else:
        container = case.container or CONTAINER
        aiplatform.CustomContainerTrainingJob(RUN, **container).submit(**arguments)
    inputs = recorder.bodies.pop()["trainingTaskInputs"]
    names = ("labels", "encryption_spec_key_name")
    job = aiplatform.CustomJob(
        display_name=RUN,
        worker_pool_specs=[_pool(pool) for pool in inputs["worker_pool_specs"]],
        base_output_dir=inputs["base_output_directory"]["output_uri_prefix"],
        **{name: case.custom[name] for name in names if name in case.custom},
    )
    more = {name: value for name, value in case.custom.items() if name not in names}
    kept = (
        "service_account",
        "network",
        "tensorboard",
        "timeout",
        "restart_job_on_worker_restart",
        "disable_retries",
        "max_wait_duration",
        "persistent_resource_id",
        "enable_web_access",
    )
    job.submit(
        **{name: arguments[name] for name in kept if name in arguments},
        scheduling_strategy=strategy and _strategy(strategy),
        **more,
    )
    body = recorder.bodies.pop()
    if inputs.get("enable_dashboard_access"):  # which its custom job has no word for
        body["jobSpec"]["enableDashboardAccess"] = True
    return body


def _strategy(name: str) -> Any:
    from google.cloud.aiplatform_v1.types import Scheduling

    return Scheduling.Strategy[name]


def _pool(fields: dict[str, Any]) -> Any:
    """A pool of the pipeline's, whose keys are of either kind and whose numbers are floating."""
    from google.cloud.aiplatform_v1.types import WorkerPoolSpec
    from google.protobuf import json_format

    return WorkerPoolSpec.wrap(json_format.ParseDict(fields, WorkerPoolSpec.pb(WorkerPoolSpec())))


def corrected(theirs: dict[str, Any]) -> dict[str, Any]:
    """The SDK's request without its known defects.

    - It copies the workers' reservation to the reducers, which are another machine.
    """
    for pool in theirs["jobSpec"]["workerPoolSpecs"][2:]:
        pool["machineSpec"].pop("reservationAffinity", None)
    return theirs


def comparable(ours: dict[str, Any], lacks: tuple[str, ...]) -> dict[str, Any]:
    """Our request in the SDK's terms.

    - Labels by which rsctl finds the job again are ours only.
    - The SDK writes down the disk that it is anyway, for every pool.
    - `lacks` are fields that it cannot say.
    """
    labels = {k: v for k, v in ours.pop("labels").items() if not k.startswith("rsctl-")}
    if labels:
        ours["labels"] = labels
    for pool in ours["jobSpec"]["workerPoolSpecs"]:
        disk = {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}
        pool["diskSpec"] = {**disk, **pool.get("diskSpec", {})}
        for field in lacks:
            pool.pop(field, None)
        _drop_wait_for_workers(pool.get("containerSpec", {}))
    for field in lacks:
        ours["jobSpec"].pop(field, None)
    return ours


def _drop_wait_for_workers(container: dict[str, Any]) -> None:
    """Remove the variables by which the chief waits for the other workers; no case names them."""
    names = {entry["name"] for entry in container.get("env", ())}
    own = {"RSCTL_AWAITED_ROLES"} & names
    if own and "RSCTL_REDUCER_KIND" not in names:
        own.add("RSCTL_TOKEN")
    if "env" in container:
        container["env"] = [entry for entry in container["env"] if entry["name"] not in own]
        if own:  # rsctl's own token stands elsewhere then
            container["env"].sort(key=lambda entry: entry["name"] == "RSCTL_TOKEN")


def test_there_are_sixty_jobs() -> None:
    assert len(CASES) >= 60
    assert len({case.title for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_a_request_is_a_custom_job_to_the_letter(case: Case, tmp_path: Path) -> None:
    """Nothing in it is unknown to Google's type, and nothing of it gets lost there."""
    body = sent(render(tmp_path, case.spec)["request"]["body"])
    assert _without_empty(parsed(body)) == _without_empty(body)


def _without_empty(value: Any) -> Any:
    """Less what protobuf does not tell from nothing."""
    if isinstance(value, dict):
        return {k: _without_empty(v) for k, v in value.items() if v not in ("", False)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_a_request_is_what_googles_sdk_sends(
    case: Case, tmp_path: Path, recorder: Recorder
) -> None:
    ours = parsed(sent(render(tmp_path, case.spec)["request"]["body"]))
    theirs = parsed(built_by_sdk(case, recorder))
    assert comparable(ours, case.lacks) == corrected(theirs)


BY_OVERLAY = {
    "CustomJobSpec.models",
    "CustomJobSpec.protectedArtifactLocationId",
    "MachineSpec.gpuPartitionSize",
    "MachineSpec.tpuTopology",
}
BY_GOOGLE = {
    f"CustomJob.{name}"
    for name in ("name", "state", "createTime", "startTime", "endTime", "updateTime", "error")
} | {"CustomJob.webAccessUris", "CustomJob.satisfiesPzs", "CustomJob.satisfiesPzi"}


def test_every_field_is_set_by_the_spec_or_named_here(tmp_path: Path) -> None:
    """What Google's type has and no job of the table sets is left to an overlay, or is output."""
    from google.cloud.aiplatform_v1.types import CustomJob

    descriptor = CustomJob.pb(CustomJob()).DESCRIPTOR
    possible: set[str] = set()
    used: set[str] = set()
    for case in CASES:
        _fields(descriptor, sent(render(tmp_path, case.spec)["request"]["body"]), possible, used)
    assert possible - used == BY_OVERLAY | BY_GOOGLE


def _fields(descriptor: Any, body: dict[str, Any], possible: set[str], used: set[str]) -> None:
    """The fields of a message and of those in it that are used, by `Message.field`."""
    for field in descriptor.fields:
        name = f"{descriptor.name}.{field.json_name}"
        possible.add(name)
        if field.json_name not in body:
            continue
        used.add(name)
        value = body[field.json_name]
        is_plain = field.message_type is None or field.message_type.GetOptions().map_entry
        for item in value if isinstance(value, list) else [value]:
            if not is_plain and isinstance(item, dict):
                _fields(field.message_type, item, possible, used)
