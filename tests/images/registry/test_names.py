"""Names of repositories, and what is asked for at each kind of registry."""

from __future__ import annotations

import pytest

from rsctl.findings import RsctlError
from rsctl.images.registry.names import (
    Ecr,
    GoogleRepository,
    ImageRepository,
    Kind,
    at_digest,
    parse_reference,
    parse_repository,
)
from rsctl.images.registry.remedies import remedies_for

from .conftest import refusal

ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/bert"
GOOGLE = "us-docker.pkg.dev/my-project/train/bert"


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        (GOOGLE, "us-docker.pkg.dev", "my-project/train/bert"),
        ("localhost/a", "localhost", "a"),
        ("localhost:5000/a/b", "localhost:5000", "a/b"),
        ("[::1]:5000/a", "[::1]:5000", "a"),
        ("Registry.Example.com/a__b/c-d.e", "registry.example.com", "a__b/c-d.e"),
        ("user/image", "docker.io", "user/image"),
        ("image", "docker.io", "image"),
        ("index.docker.io/user/image", "docker.io", "user/image"),
        ("a/b", "docker.io", "a/b"),
    ],
)
def test_a_repository_is_read_as_docker_reads_it(text: str, host: str, path: str) -> None:
    assert parse_repository(text) == ImageRepository(host, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "host.example/",
        "host.example/Upper",
        "host.example/a b",
        "host.example/a:tag",
        "host.example/a@sha256:" + 64 * "0",
        "host.example/../a",
        "host.example//a",
        "-host.example/a",
        "host.example:port/a",
        "user:secret@host.example/a",
        "host.example/a\n",
        "--all-tags",
        "host.example/" + 250 * "a",
    ],
)
def test_what_is_no_repository_is_said(text: str) -> None:
    with pytest.raises(RsctlError) as refused:
        parse_repository(text)
    exit_code, code, message, _ = refusal(refused.value)
    assert (exit_code, code) == ("USAGE", "repository")
    assert message.startswith(f"{text!r} is not a valid repository: ")


@pytest.mark.parametrize("text", ["us-docker.pkg.dev/p/r", "us-docker.pkg.dev/example.com/p/r"])
def test_artifact_registry_needs_the_name_of_an_image(text: str) -> None:
    with pytest.raises(RsctlError) as refused:
        parse_repository(text)
    assert refusal(refused.value)[2] == (
        f"{text!r} is not a valid repository: Artifact Registry's names have the form "
        "LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE"
    )


@pytest.mark.parametrize(
    ("host", "ecr"),
    [
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com", ("us-east-1", False)),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", ("cn-north-1", False)),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", ("us-gov-west-1", True)),
        ("123456789012.dkr-ecr.eu-west-3.on.aws", ("eu-west-3", False)),
    ],
)
def test_the_hosts_of_ecr(host: str, ecr: tuple[str, bool]) -> None:
    place = parse_repository(f"{host}/bert")
    assert (place.kind, place.ecr) == (Kind.ECR, Ecr("123456789012", *ecr))


@pytest.mark.parametrize(
    "host",
    [
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.example",
        "123456789012.dkr.ecr.us-east-1.evil.example",
        "evil.example",
        "us-docker.pkg.dev.evil.example",
        "evilgcr.io",
        "public.ecr.aws.evil.example",
        "gcr.io:8443",
    ],
)
def test_a_host_that_only_looks_like_a_clouds_gets_no_clouds_log_in(host: str) -> None:
    assert parse_repository(f"{host}/a/b/c").kind is Kind.OTHER


@pytest.mark.parametrize(
    ("text", "google"),
    [
        (GOOGLE, GoogleRepository("my-project", "us", "train")),
        (
            "europe-west4-docker.pkg.dev/example.com/proj/train/a/b",
            GoogleRepository("example.com:proj", "europe-west4", "train"),
        ),
        ("gcr.io/my-project/bert", None),
        ("eu.gcr.io/my-project/bert", None),
    ],
)
def test_googles_registries(text: str, google: GoogleRepository | None) -> None:
    place = parse_repository(text)
    assert (place.kind, place.google) == (Kind.GOOGLE, google)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.9.9.9", True),
        ("[::1]:5000", True),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1:5000", False),
    ],
)
def test_plain_http_is_for_this_machine_only(host: str, is_loopback: bool) -> None:
    assert parse_repository(f"{host}/a").is_loopback is is_loopback


def test_references() -> None:
    reference = f"{ECR}:0123456789abcdef"
    assert parse_reference(reference) == (parse_repository(ECR), "0123456789abcdef")
    assert parse_reference("localhost:5000/a:v1") == (ImageRepository("localhost:5000", "a"), "v1")
    assert at_digest(reference, "sha256:00") == f"{ECR}@sha256:00"
    for wrong in ("localhost:5000/a", "a", "a:", ":a", "a:b c"):
        with pytest.raises(RsctlError) as refused:
            parse_reference(wrong)
        assert refusal(refused.value)[:2] == ("USAGE", "repository")


def test_a_missing_repository_has_the_command_that_creates_it() -> None:
    places = (ECR, GOOGLE, "public.ecr.aws/alias/bert", "quay.example/a")
    assert [remedies_for(parse_repository(place)).create for place in places] == [
        "run `aws ecr create-repository --repository-name bert --region us-east-1`, "
        "or correct image.repository",
        "run `gcloud artifacts repositories create train --project=my-project --location=us "
        "--repository-format=docker`, or correct image.repository",
        "run `aws ecr-public create-repository --repository-name bert --region us-east-1`, "
        "or correct image.repository",
        "create a on quay.example, or correct image.repository",
    ]
