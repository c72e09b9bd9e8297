"""The local targets: what they encrypt, what they refuse, and what they do not use."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.job.document import Document
from rsctl.plan import make_plan
from rsctl.targets.base import Target
from rsctl.targets.local.compose import ComposeTarget
from rsctl.targets.local.process import ProcessTarget
from rsctl.targets.variables import secret_values

from .planning import JOB, Render, a_host
from .planning import document as document
from .planning import plan as plan


@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_tls_reaches_workers_and_reducers_with_a_secret_that_no_plan_shows(
    plan: Render, target: Target
) -> None:
    text = JOB.replace("once", "once, env: {RSCTL_TRANSPORT_TLS: true}")
    text = text.replace("src", "src, base: x")
    made = plan(text + "reducers: {count: 1}\n", target)
    request = made["request"]
    nodes = request["compose"]["services"].values() if "compose" in request else request["commands"]
    envs = [node.get("environment") or node["env"] for node in nodes]
    found = [(env["RSCTL_TRANSPORT_TLS"], env["RSCTL_TLS_IDENTITY"]) for env in envs]
    assert found == [("1", None)] * len(envs)
    assert len(envs) >= 2
    alone = plan(text, target)
    assert "RSCTL_TLS_IDENTITY" not in json.dumps(alone)
    notes = {finding["path"]: finding["message"] for finding in alone["findings"]}
    assert notes["run.env.RSCTL_TRANSPORT_TLS"] == (
        "RSCTL_TRANSPORT_TLS is not used: there are no reducers, and workers do not use it "
        "without them"
    )


def test_every_run_that_asks_for_tls_has_a_certificate_of_its_own(
    document: Callable[[str], Document],
) -> None:
    text = JOB.replace("once", "once, env: {RSCTL_TRANSPORT_TLS: 1}")
    target = ProcessTarget(a_host())
    submission = make_plan(document(text + "reducers: {count: 1}\n"), target, "job-1")
    made = [secret_values(submission) for _ in range(2)]
    assert [sorted(values) for values in made] == [["RSCTL_TLS_IDENTITY", "RSCTL_TOKEN"]] * 2
    assert made[0]["RSCTL_TLS_IDENTITY"] != made[1]["RSCTL_TLS_IDENTITY"]
    assert secret_values(make_plan(document(text), target, "job-1")) == {}


@pytest.mark.parametrize(
    ("comm", "variables"),
    [
        ("{}", {}),
        (
            "{backend: gloo, bucket_mb: 64, compression: bf16}",
            {"BACKEND": "gloo", "BUCKET_MB": "64", "COMPRESSION": "bf16"},
        ),
        ("{hook: 'mine:hook'}", {"HOOK": "mine:hook"}),
        (
            "{local_steps: 8, quorum: 2, fragments: 2, outer: {lr: 0.12345678, momentum: 0.5}}",
            {
                "LOCAL_STEPS": "8",
                "QUORUM": "2",
                "FRAGMENTS": "2",
                "OUTER_OPTIMIZER": "nesterov",
                "OUTER_LR": "0.12345678",
                "OUTER_MOMENTUM": "0.5",
            },
        ),
    ],
)
def test_each_setting_of_comm_reaches_the_ranks(
    plan: Render, comm: str, variables: dict[str, str]
) -> None:
    text = JOB.replace("once", "torchrun")
    made = plan(f"{text}workers: {{count: 3}}\nreducers: {{count: 0}}\ncomm: {comm}\n")
    for node in made["request"]["commands"]:
        found = {name: text for name, text in node["env"].items() if name.startswith("RSCTL_COMM_")}
        assert found == {f"RSCTL_COMM_{name}": text for name, text in variables.items()}


@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_an_unclear_wish_for_tls_is_an_error(plan: Render, target: Target) -> None:
    text = JOB.replace("once", "once, env: {RSCTL_TRANSPORT_TLS: perhaps}")
    with pytest.raises(RsctlError) as caught:
        plan(text.replace("src", "src, base: x") + "reducers: {count: 1}\n", target)
    [finding] = (f for f in caught.value.findings if f.is_error)
    assert (finding.message, finding.path, finding.remedy) == (
        "RSCTL_TRANSPORT_TLS must be 1 or 0, not 'perhaps'",
        "run.env.RSCTL_TRANSPORT_TLS",
        "write 1 or 0",
    )


FOREIGN = "run: {command: [x], launcher: none}"
REFUSED = [
    ("comm: {backend: smddp}", "unsupported", "comm.backend"),
    ("comm: {backend: nccl}", "comm", "comm.backend"),
    ("comm: {backend: rsctl}", "comm", "comm.backend"),
    ("inputs: {train: gs://bucket/x}", "unsupported", "inputs.train"),
    ("inputs: {train: s3://bucket/x}", "unsupported", "inputs.train"),
    ("outputs: gs://bucket/x", "unsupported", "outputs"),
    ("checkpoints: s3://bucket/x", "unsupported", "checkpoints"),
    (f"workers: {{count: 2}}\nreducers: {{count: 4}}\n{FOREIGN}", "unsupported", "reducers.count"),
    (f"comm: {{bucket_mb: 25}}\n{FOREIGN}", "unsupported", "comm"),
]


@pytest.mark.parametrize(("keys", "code", "path"), REFUSED)
@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_what_a_local_target_cannot_do_is_an_error_with_place_and_remedy(
    plan: Render, keys: str, code: str, path: str, target: Target
) -> None:
    job = JOB.replace("src", "src, base: x")
    if FOREIGN in keys:
        job = "\n".join(line for line in job.splitlines() if not line.startswith("run:")) + "\n"
    with pytest.raises(RsctlError) as caught:
        plan(job + keys, target)
    [finding] = (f for f in caught.value.findings if f.is_error)
    assert caught.value.exit_code == ExitCode.USAGE
    assert (finding.code, finding.path) == (code, path)
    assert (finding.line or 0) > 2
    assert finding.remedy


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("workers: {machine: a2-highgpu-8g}", "workers.machine"),
        ("workers: {disk: 200GB}", "workers.disk"),
        ("chief: {machine: a2-highgpu-8g}", "chief.machine"),
        ("chief: {disk: 200GB}", "chief.disk"),
        ("roles: {ps: {machine: n2-standard-8}}", "roles.ps.machine"),
        ("roles: {ps: {disk: 200GB}}", "roles.ps.disk"),
        ("reducers: {machine: n2-standard-8}", "reducers.machine"),
        ("reducers: {disk: 200GB}", "reducers.disk"),
        ("workers: {count: 2}\nreducers: {count: auto}", "reducers.count"),
        ("limits: {queue: 30m}", "limits.queue"),
        ("limits: {spot: true}", "limits.spot"),
        ("limits: {restarts: platform}", "limits.restarts"),
    ],
)
@pytest.mark.parametrize("target", [ProcessTarget(a_host()), ComposeTarget(a_host())])
def test_what_a_local_target_does_not_use_is_a_note(
    plan: Render, keys: str, path: str, target: Target
) -> None:
    findings = plan(JOB.replace("src", "src, base: x") + keys, target)["findings"]
    found = [(f["severity"], f["path"]) for f in findings if f["severity"] != "note" or f["path"]]
    assert ("note", path) in found
    assert not [f for f in findings if f["severity"] == "error"]


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        (1, "0 reducers: a single worker exchanges no gradients"),
        (
            2,
            "2 reducers: as many as workers, because all links on this machine have the same speed",
        ),
    ],
)
def test_a_plan_says_how_many_reducers_auto_is(plan: Render, workers: int, why: str) -> None:
    made = plan(f"{JOB}workers: {{count: {workers}}}\nreducers: {{count: auto}}\n")
    assert [f["message"] for f in made["findings"] if f["path"] == "reducers.count"] == [why]


def test_what_belongs_to_images_is_a_note_for_processes(plan: Render) -> None:
    image = "source: src, base: x, python: [numpy], apt: [git], transport: efa"
    findings = plan(JOB.replace("source: src", image))["findings"]
    assert [(f["severity"], f["path"]) for f in findings] == [
        ("note", "image.base"),
        ("note", "image.python"),
        ("note", "image.apt"),
        ("note", "image.transport"),
    ]


def test_the_blocks_of_other_targets_are_no_matter(plan: Render) -> None:
    keys = "targets: {vertex: {project: p}, sagemaker: {region: r}, compose: {cpus: 2}}\n"
    assert plan(JOB + keys)["findings"] == []


def _oversubscription(plan: Render, text: str, target: Target) -> list[dict[str, str]]:
    findings = plan(text.replace("src", "src, base: x"), target)["findings"]
    return [finding for finding in findings if finding["code"] == "oversubscription"]


@pytest.mark.parametrize("target", [ProcessTarget, ComposeTarget])
def test_many_more_ranks_than_cores_are_reported(plan: Render, target: type[ProcessTarget]) -> None:
    host = a_host(cpus=2)
    text = JOB.replace("once", "torchrun")
    [found] = _oversubscription(plan, text + "workers: {count: 4, processes: 8}\n", target(host))
    assert (found["severity"], found["path"], found["message"], found["remedy"]) == (
        "warning",
        "workers.processes",
        "32 ranks share the 2 cores of this machine: the job starts slowly, needs memory for all "
        "of them, and may exceed its time-outs",
        "for this run, lower workers.processes: --set workers.processes=1",
    )
    [found] = _oversubscription(
        plan, text + "workers: {count: 9}\nreducers: {count: 1}\n", target(host)
    )
    assert found["path"] == "workers.count"
    assert found["message"].startswith("9 ranks and 1 reducer share the 2 cores")
    assert not _oversubscription(plan, text + "workers: {count: 8}\n", target(host))
    nodes = "workers: {count: 4, processes: 8}\n"  # of which each runs the command once
    assert not _oversubscription(plan, JOB + nodes, target(host))
