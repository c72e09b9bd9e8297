"""Which transport goes into an image, and what is said of it."""

from __future__ import annotations

import pytest

from rsctl.findings import error
from rsctl.images.findings import image_findings
from rsctl.images.transport import choose_transport

from .conftest import ReadJob

GPU = "workers.accelerator=l4:1"
TWO = "workers.count=2"
REDUCERS = "reducers.count=2"
OPEN = "the open transport, which supports reducers on all targets"


@pytest.mark.parametrize(
    ("target", "settings", "transport", "why"),
    [
        ("compose", [TWO], "none", "the base image determines how gradients are exchanged"),
        ("compose", [], "none", "a single node exchanges no gradients"),
        ("process", [TWO, GPU], "none", "the base image determines how gradients are exchanged"),
        ("vertex", [TWO, GPU], "none", "the base image determines how gradients are exchanged"),
        (
            "vertex",
            [TWO, GPU, REDUCERS],
            "reduction-server",
            "reducers for workers with GPUs on Vertex AI",
        ),
        ("vertex", [TWO, REDUCERS], "rsctl", OPEN),
        ("compose", [TWO, REDUCERS], "rsctl", OPEN),
        (
            "sagemaker",
            [TWO, GPU, REDUCERS],
            "rsctl",
            "the open transport, which supports reducers on all targets",
        ),
        ("vertex", [TWO, GPU, REDUCERS, "comm.backend=rsctl"], "rsctl", "comm.backend requires it"),
        ("compose", [REDUCERS], "none", "a single node exchanges no gradients"),
        (
            "sagemaker",
            [TWO, GPU],
            "efa",
            "nodes with GPUs on SageMaker; on machines without EFA, NCCL uses sockets",
        ),
        ("sagemaker", [GPU], "none", "a single node exchanges no gradients"),
        (
            "vertex",
            [TWO, GPU, REDUCERS, "run.launcher=none", "run.command=[x]", "run.script=null"],
            "none",
            "launcher none leaves the image unchanged",
        ),
    ],
)
def test_auto_chooses_by_target_and_says_what(
    job: ReadJob, target: str, settings: list[str], transport: str, why: str
) -> None:
    choice = choose_transport(job("base: base", *settings), target)
    assert choice.transport == transport
    [finding] = choice.findings
    assert (finding.severity, finding.message, finding.remedy, finding.path) == (
        *("note", f"transport {transport}: {why}", None, "image.transport"),
    )


BY_TARGET = "set image.transport: auto, which chooses by target"


@pytest.mark.parametrize(
    ("wanted", "target", "severity", "message", "remedy"),
    [
        ("efa", "vertex", "error", "efa works on sagemaker, not on vertex", BY_TARGET),
        (
            *("fast-socket", "sagemaker", "error"),
            *("fast-socket works on vertex, not on sagemaker", BY_TARGET),
        ),
        (
            "efa",
            "compose",
            "note",
            "target compose builds without efa, which works only on sagemaker",
            None,
        ),
    ],
)
def test_a_transport_of_another_target(
    job: ReadJob, wanted: str, target: str, severity: str, message: str, remedy: str | None
) -> None:
    choice = choose_transport(job(f"base: base\n  transport: {wanted}", TWO), target)
    assert choice.transport == "none"
    [finding] = choice.findings
    assert (finding.severity, finding.message, finding.remedy, finding.path) == (
        *(severity, message, remedy, "image.transport"),
    )


def test_a_transport_where_it_works_needs_no_words(job: ReadJob) -> None:
    assert choose_transport(job("base: base\n  transport: efa", TWO), "sagemaker") == ("efa", [])


@pytest.mark.parametrize(
    ("transport", "target", "found"),
    [
        (
            *("efa", "sagemaker"),
            "warning arm: the installation of EFA's software has not been tested for linux/arm64",
        ),
        (
            *("fast-socket", "vertex"),
            "error unsupported: fast-socket is installed from packages for linux/amd64",
        ),
        ("rsctl", "vertex", None),
        ("none", "vertex", None),
    ],
)
def test_what_is_installed_on_arm(
    job: ReadJob, transport: str, target: str, found: str | None
) -> None:
    made = job(f"base: base\n  platform: linux/arm64\n  transport: {transport}", TWO)
    findings = choose_transport(made, target).findings
    assert [f"{f.severity} {f.code}: {f.message}" for f in findings] == [found] * bool(found)
    assert {f.path for f in findings} <= {"image.transport"}


def test_a_transport_that_could_not_be_proven_is_refused(job: ReadJob) -> None:
    foreign = ["run.launcher=none", "run.command=[x]", "run.script=null"]
    made = job("base: base\n  transport: efa", *foreign)
    assert choose_transport(made, "sagemaker").findings == [
        error(
            "unsupported",
            "launcher none leaves rsctl out of the image, so efa cannot be verified",
            "use launcher once or torchrun, or an image.uri that contains the transport",
            "image.transport",
        )
    ]
    made = job("base: base\n  transport: none", *foreign)
    assert choose_transport(made, "sagemaker") == ("none", [])


def test_an_image_that_is_used_as_it_is_gets_nothing(job: ReadJob) -> None:
    assert image_findings(job("uri: there"), "vertex") == []


def test_no_image_at_all_is_an_error(job: ReadJob) -> None:
    [finding] = image_findings(job("apt: [git]"), "vertex")
    assert finding.is_error
    assert finding.message == "target vertex needs an image"
