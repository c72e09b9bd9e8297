"""Endpoints are values: what a client reaches depends on them, and on nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rsctl.clients.aws import Aws
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import NoAnswer
from rsctl.clients.google import Google
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.home import run_directory
from rsctl.targets.managed.endpoints import endpoints_of, shared_service
from rsctl.targets.sagemaker.client import SageMakerService
from rsctl.targets.sagemaker.emulator import Behaviour as AwsBehaviour
from rsctl.targets.sagemaker.emulator import SageMakerEmulator
from rsctl.targets.vertex.client import VertexService
from rsctl.targets.vertex.emulator import Behaviour as GoogleBehaviour
from rsctl.targets.vertex.emulator import VertexEmulator
from tests.targets.sagemaker.emulator.conftest import FakeRunner as AwsRunner
from tests.targets.vertex.emulator.conftest import FakeRunner as GoogleRunner

NOWHERE = "http://127.0.0.1:1"
RUNS = [f"run-{number}" for number in range(4)]


@pytest.fixture(autouse=True)
def _misleading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment that leads elsewhere, with proxies and a profile that does not exist."""
    config = tmp_path / "config"
    config.write_text("[default]\nendpoint_url = http://127.0.0.1:2\n")
    for name, value in {
        "AWS_ENDPOINT_URL": NOWHERE,
        "AWS_ENDPOINT_URL_SAGEMAKER": NOWHERE,
        "AWS_ACCESS_KEY_ID": "the user's",
        "AWS_SECRET_ACCESS_KEY": "the user's",
        "AWS_SESSION_TOKEN": "the user's",
        "AWS_PROFILE": "nobody",
        "AWS_CONFIG_FILE": str(config),
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "AWS_DEFAULTS_MODE": "unknown",
        "AWS_SHARED_CREDENTIALS_FILE": str(config),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": NOWHERE,
        "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere.json",
        "HTTP_PROXY": NOWHERE,
        "http_proxy": NOWHERE,
        "RSCTL_CLOUD_PACE": "0",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


def rehearse(run: str, variables: dict[str, str]) -> None:
    """What an emulator leaves in its run's folder."""
    folder = run_directory(run)
    folder.mkdir(parents=True)
    (folder / "rehearsal.json").write_text("{}")
    (folder / "emulator.json").write_text(json.dumps({**variables, "RSCTL_CLOUD_PACE": "0.01"}))


@pytest.fixture
def vertex(tmp_path: Path) -> Iterator[dict[str, VertexEmulator]]:
    """Each run's own emulator."""
    emulators: dict[str, Any] = {}
    for run in RUNS:
        behaviour = GoogleBehaviour(pace=0.01)
        emulator = VertexEmulator(tmp_path / run, GoogleRunner(), behaviour=behaviour)  # type: ignore[arg-type]
        emulators[run] = emulator.__enter__()
        rehearse(run, emulator.environment())
    yield emulators
    for emulator in emulators.values():
        emulator.__exit__(None, None, None)


@pytest.fixture
def sagemaker(tmp_path: Path) -> Iterator[dict[str, SageMakerEmulator]]:
    emulators: dict[str, Any] = {}
    for run in RUNS:
        behaviour = AwsBehaviour(pace=0.01)
        emulator = SageMakerEmulator(tmp_path / run, AwsRunner(), behaviour=behaviour)  # type: ignore[arg-type]
        emulators[run] = emulator.__enter__()
        rehearse(run, emulator.environment())
    yield emulators
    for emulator in emulators.values():
        emulator.__exit__(None, None, None)


def test_runs_in_threads_reach_each_its_own_vertex_ai(vertex: dict[str, VertexEmulator]) -> None:
    before = dict(os.environ)

    def seen(run: str) -> tuple[str, bool]:
        service = shared_service(VertexService, endpoints_of(run))
        request = {"url": "https://x/v1/projects/rehearsal/locations/us-central1/customJobs"}
        found = service.find(request, run)
        google = Google(endpoints_of(run))
        return google.endpoints.google_url("aiplatform", "us-central1"), found is None

    with ThreadPoolExecutor(len(RUNS)) as threads:
        for _ in range(3):
            answers = list(threads.map(seen, RUNS))
            assert answers == [(vertex[run].url, True) for run in RUNS]
    assert dict(os.environ) == before
    vertex[RUNS[1]].access.expire()  # its token is refused, and is renewed: nobody else notices
    assert list(map(seen, RUNS)) == answers


def test_runs_in_threads_reach_each_its_own_sagemaker(
    sagemaker: dict[str, SageMakerEmulator],
) -> None:
    before = dict(os.environ)

    def buckets(run: str) -> list[str]:
        aws = Aws(endpoints_of(run), "us-east-1")
        aws.request("sagemaker", "list_training_jobs")
        aws.request("s3", "put_object", {"Bucket": "staging", "Key": run, "Body": b"x"})
        listed = aws.request("s3", "list_objects_v2", {"Bucket": "staging"})
        return [entry["Key"] for entry in listed["Contents"]]

    with ThreadPoolExecutor(len(RUNS)) as threads:
        assert list(threads.map(buckets, RUNS)) == [[run] for run in RUNS]
    assert dict(os.environ) == before


def test_equal_endpoints_share_a_service(vertex: dict[str, VertexEmulator]) -> None:
    first = shared_service(VertexService, endpoints_of(RUNS[0]))
    assert shared_service(VertexService, endpoints_of(RUNS[0])) is first
    assert shared_service(VertexService, endpoints_of(RUNS[1])) is not first
    assert shared_service(VertexService, endpoints_of("of-the-cloud")) is not first
    assert isinstance(shared_service(SageMakerService, endpoints_of(RUNS[0])), SageMakerService)
    assert vertex


def test_a_rehearsed_run_never_reaches_the_cloud() -> None:
    """Even if all that its emulator has left is lost."""
    rehearse("lost", {})
    (run_directory("lost") / "emulator.json").unlink()
    endpoints = endpoints_of("lost")
    assert endpoints.is_emulator
    for call in (
        lambda: endpoints.google_url("aiplatform", "us-central1"),
        lambda: Aws(endpoints, "us-east-1").request("sagemaker", "list_training_jobs"),
    ):
        with pytest.raises(RsctlError) as refused:
            call()
        assert refused.value.findings[0].code == "endpoint"


def test_a_scale_that_is_none() -> None:
    for text, scale in (("0.5", 0.5), ("-1", 0.0), ("fast", 1.0)):
        assert Endpoints.of_environment({"RSCTL_CLOUD_PACE": text}).time_scale == scale
    assert Endpoints.of_environment({}).time_scale == 1.0


OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"


@pytest.mark.parametrize(
    ("service", "region", "variables", "url"),
    [
        ("aiplatform", "us-east1", {}, "https://us-east1-aiplatform.googleapis.com"),
        ("storage", None, {}, "https://storage.googleapis.com"),
        ("logging", None, {f"{OVERRIDE}LOGGING": "https://x/"}, "https://x"),
        ("logging", None, {f"{OVERRIDE}LOGGING": ""}, "https://logging.googleapis.com"),
        ("logging", None, {"STORAGE_EMULATOR_HOST": NOWHERE}, "https://logging.googleapis.com"),
        ("aiplatform", "us-east1", {f"{OVERRIDE}AIPLATFORM": NOWHERE}, NOWHERE),
        ("storage", None, {"STORAGE_EMULATOR_HOST": "localhost:9"}, "http://localhost:9"),
        (
            "storage",
            None,
            {"STORAGE_EMULATOR_HOST": "localhost:9", f"{OVERRIDE}STORAGE": NOWHERE},
            NOWHERE,
        ),
    ],
)
def test_where_a_service_of_google_answers(
    service: str, region: str | None, variables: dict[str, str], url: str
) -> None:
    assert Endpoints.of_environment(variables).google_url(service, region) == url


KEYS = {
    "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
    "AWS_ENDPOINT_URL": NOWHERE,
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


@pytest.mark.parametrize(
    ("endpoints", "seen"),
    [
        (Endpoints.of_environment(KEYS), (None, None, None)),
        (Endpoints.of_emulator(KEYS), ("/key.json", ("id", "secret"), NOWHERE)),
        (Endpoints.of_emulator({"AWS_ENDPOINT_URL": "x"}), (os.devnull, ("", ""), "x")),
    ],
)
def test_only_of_an_emulator_all_is_known(endpoints: Endpoints, seen: tuple[object, ...]) -> None:
    found = (endpoints.google_key_file, endpoints.aws_key, endpoints.aws_url("sagemaker"))
    assert found == seen


@pytest.mark.parametrize("name", ["GOOGLE_X", "CLOUDSDK_X", "AWS_X", "STORAGE_EMULATOR_HOST"])
def test_what_configures_a_cloud_makes_endpoints_differ(name: str) -> None:
    for make in (Endpoints.of_environment, Endpoints.of_emulator):
        assert make({name: "a"}) == make({name: "a", "PATH": "/bin", f"X_{name}": "b"})
        assert make({name: "a"}) != make({name: "b"})
    assert Endpoints.of_environment({}) != Endpoints.of_emulator({})


def test_an_address_that_an_emulator_has_not_left() -> None:
    endpoints = Endpoints.of_emulator({})
    for service, call in (
        ("logging", lambda: endpoints.google_url("logging")),
        ("sagemaker", lambda: endpoints.aws_url("sagemaker")),
    ):
        with pytest.raises(RsctlError) as refused:
            call()
        text = f"the run was a rehearsal, and its emulator has not stored an address of {service}"
        assert refused.value.findings == (error("endpoint", text, "submit the job again"),)
        assert refused.value.exit_code is ExitCode.ENVIRONMENT


def test_secrets_are_not_in_its_repr() -> None:
    assert "hidden" not in repr(Endpoints.of_emulator({"AWS_SECRET_ACCESS_KEY": "hidden"}))


def test_an_emulator_that_has_ended_gives_no_answer() -> None:
    rehearse("ended", {"AWS_ENDPOINT_URL": NOWHERE, "AWS_ACCESS_KEY_ID": "a",
                       "AWS_SECRET_ACCESS_KEY": "b"})  # fmt: skip
    with pytest.raises(NoAnswer) as lost:
        Aws(endpoints_of("ended"), "us-east-1").request("sagemaker", "list_training_jobs")
    assert not lost.value.sent
    assert lost.value.findings[0].code == "network"
