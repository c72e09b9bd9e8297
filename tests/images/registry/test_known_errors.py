"""What docker, podman and the registries say of a failed push, and what the user is problem."""

from __future__ import annotations

import pytest

from rsctl.findings import ExitCode, error
from rsctl.images.build_errors import explain_failure
from rsctl.images.registry.credentials import Login
from rsctl.images.registry.known_errors import push_error
from rsctl.images.registry.names import parse_repository

REFERENCE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/bert:v1"
REPOSITORY = parse_repository(REFERENCE.removesuffix(":v1"))
KNOWN = {
    ("ENVIRONMENT", "credential-helper"): [
        'error getting credentials - err: exec: "docker-credential-gcloud": executable file not '
        "found in $PATH, out: ``",
    ],
    ("ENVIRONMENT", "login-missing"): [
        "no basic auth credentials",
        "unauthorized: authentication required",
    ],
    ("ENVIRONMENT", "credentials-expired"): [
        "denied: Your authorization token has expired. Reauthenticate and try again.",
    ],
    ("REFUSED", "login-refused"): [
        "unauthorized: incorrect username or password",
    ],
    ("REFUSED", "denied"): [
        # Quay: https://github.com/operator-framework/operator-sdk/issues/1337
        "unauthorized: access to the requested resource is not authorized",
        # Harbor: https://github.com/goharbor/harbor/issues/13973
        "unauthorized: unauthorized to access repository: yinw/hello-world, action: pull: "
        "unauthorized to access repository: yinw/hello-world, action: pull",
        "denied: requested access to the resource is denied",
        "denied: User: arn:aws:iam::1:user/a is not authorized to perform: ecr:InitiateLayerUpload",
        'denied: Permission "artifactregistry.repositories.uploadArtifacts" denied on '
        'resource "projects/p/locations/us/repositories/r" (or it may not exist)',
    ],
    ("REFUSED", "repository-missing"): [
        "name unknown: The repository with name 'bert' does not exist in the registry with id '1'",
        'name unknown: Repository "train" not found',
    ],
    ("REFUSED", "tag-immutable"): [
        "tag invalid: The image tag 'v1' already exists in the 'bert' repository and "
        "cannot be overwritten because the repository is immutable.",
    ],
    ("USAGE", "repository"): [
        "name invalid: Missing image name. Pushes should be of the form docker push HOST-NAME/...",
    ],
    ("ENVIRONMENT", "registry-busy"): [
        "toomanyrequests: Quota exceeded for quota metric 'Requests'",
    ],
    ("REFUSED", "quota"): [
        "denied: Quota exceeded for storage",
        # Harbor: https://github.com/goharbor/harbor/issues/17390
        "denied: adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 "
        "MiB will exceed the configured upper limit of 10.0 MiB.",
    ],
    ("REFUSED", "layer-size"): [
        # https://github.com/goharbor/harbor/issues/15823, docker/build-push-action/issues/634, and
        # pulp/pulp-operator/issues/330 of podman
        "error parsing HTTP 413 response body: invalid character '<' looking for beginning of "
        'value: "<html>\\r\\n<head><title>413 Request Entity Too Large</title></head>"',
        "failed to copy: unexpected status: 413 Request Entity Too Large",
        "Error: writing blob: uploading layer chunked: StatusCode: 413, <html>",
    ],
    ("ENVIRONMENT", "certificate"): [
        'Get "https://h/v2/": tls: failed to verify certificate: x509: certificate signed'
        " by unknown authority",
    ],
    ("ENVIRONMENT", "registry-plain"): [
        'Get "https://h/v2/": http: server gave HTTP response to HTTPS client',
    ],
    ("ENVIRONMENT", "registry-unreachable"): [
        'Get "http://h/v2/": dial tcp 127.0.0.1:1: connect: connection refused',
        "dial tcp: lookup nowhere.example on 10.0.0.1:53: no such host",
    ],
    ("ENVIRONMENT", "registry-unstable"): [
        "received unexpected HTTP status: 503 Service Unavailable",
        "Error: writing blob: uploading layer chunked, StatusCode: 502",
        "EOF",
        "write tcp 10.0.0.2:1->10.0.0.3:443: write: connection reset by peer",
        "net/http: TLS handshake timeout",
    ],
    ("ENVIRONMENT", "engine"): [
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
        "docker daemon running?",
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run",
    ],
    ("ENVIRONMENT", "push"): [
        "something that nobody has seen",
    ],
}


@pytest.mark.parametrize(
    ("line", "expected"), [(line, key) for key, lines in KNOWN.items() for line in lines]
)
def test_known_errors_of_pushes(line: str, expected: tuple[str, str]) -> None:
    lines = ["The push refers to repository [x]", line, ""]
    problem = push_error(lines, REFERENCE, REPOSITORY, None)
    assert (problem.exit_code.name, problem.code) == expected
    assert problem.findings[0].message.endswith(f"; the last line: {line}")
    assert problem.is_transient == (problem.code in ("registry-busy", "registry-unstable"))


def test_a_whole_finding() -> None:
    login = Login(REPOSITORY.host, "AWS", "secret")
    finding = push_error(["denied: not you"], REFERENCE, REPOSITORY, login).findings[0]
    assert finding.path == "image.repository"
    assert finding.message == (
        f"cannot push {REFERENCE} as 'AWS': no permission; the last line: denied: not you"
    )
    assert finding.remedy == (
        "ask for the managed policy AmazonEC2ContainerRegistryPowerUser, or for ecr:PutImage and "
        "the ecr:*Layer* actions on bert"
    )


@pytest.mark.parametrize("line", KNOWN[("ENVIRONMENT", "engine")])
def test_an_engine_that_does_not_answer_is_explained_as_in_a_build(line: str) -> None:
    pushed = push_error([line], REFERENCE, REPOSITORY, None)
    built = explain_failure([line], "", "BASE")
    assert built is not None
    remedy = (
        "start it, and check that `docker info` works for your user: not every user has permission"
    )
    expected = error("engine", "the Docker engine does not answer", remedy, "image")
    assert (built.exit_code, built.findings) == (ExitCode.ENVIRONMENT, (expected,))
    assert (pushed.exit_code, pushed.findings[0].remedy) == (ExitCode.ENVIRONMENT, remedy)


def test_silence() -> None:
    problem = push_error([], REFERENCE, REPOSITORY, None)
    assert problem.findings[0].message == (
        f"cannot push {REFERENCE}: the push failed; the last line: it printed nothing"
    )
