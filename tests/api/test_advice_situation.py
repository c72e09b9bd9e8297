"""The machines that advice is about: of a chief of its own kind, and of a job's own roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.api.advice_situation import make_situation
from rsctl.estimate.advice.situation import Situation
from rsctl.findings import RsctlError
from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets import get

JOB = """\
name: job
image: {base: "b:1", source: src, repository: us-docker.pkg.dev/p/r/i}
run: {script: train.py}
workers: {count: 4, accelerator: "l4:1"}
outputs: gs://bucket/out
targets: {vertex: {project: my-project, region: us-central1}, slurm: {shared: /shared}}
"""


def situation(folder: Path, more: str = "", target: str = "vertex") -> Situation:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "train.py").touch()
    text = JOB if target == "vertex" else JOB.replace("outputs: gs://bucket/out\n", "")
    (folder / "job.yaml").write_text(text + more)
    job = read(str(folder / "job.yaml"), (), {}).require_job()
    return make_situation(job, make_plan(job, get(target), "job-1"), get(target))


def test_a_chief_of_its_own_kind_is_one_of_the_workers(tmp_path: Path) -> None:
    alike = situation(tmp_path)
    other = situation(tmp_path, "chief: {machine: g2-standard-8}\n")
    assert (other.cluster.workers, other.cluster.ranks) == (4, 1)
    assert (other.worker_machine, alike.worker_machine) == ("g2-standard-4", "g2-standard-4")
    assert alike.cluster.shared_cores is None
    assert alike.dollars(None, 0) < other.dollars(None, 0)  # type: ignore[operator]


def test_nodes_of_roles_are_paid_for(tmp_path: Path) -> None:
    alone = situation(tmp_path).dollars(None, 0)
    both = situation(tmp_path, "roles: {evaluator: {count: 2, accelerator: 'l4:1'}}\n")
    assert alone is not None
    assert both.dollars(None, 0) == pytest.approx(alone * 6 / 4)
    assert (both.cluster.workers, both.is_priced) == (4, True)


def test_this_machine_has_no_price(tmp_path: Path) -> None:
    found = situation(tmp_path, "roles: {ps: {}}\n", "process")
    assert (found.dollars(None, 0), found.is_priced) == (None, False)
    assert found.cluster.shared_cores == found.cluster.worker_cores


def test_the_network_of_a_cluster_is_unknown(tmp_path: Path) -> None:
    more = "limits: {timeout: 1h}\n"
    with pytest.raises(RsctlError) as caught:
        situation(tmp_path, more, "slurm")
    [finding] = [found for found in caught.value.findings if found.is_error]
    assert finding.message == "the bandwidth of Slurm's nodes is unknown, and advice requires it"
    assert finding.remedy == (
        "choose a target whose machines are in the catalogue; or target compose, with the rate in "
        "targets.compose.network.bandwidth"
    )
