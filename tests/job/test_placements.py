"""A job with several regions or machines: the job for each place, and what is wrong with lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rsctl.findings import error
from rsctl.job.document import read
from rsctl.job.installed_targets import with_options
from rsctl.job.job import Job
from rsctl.job.placements import placement_findings, placements_of
from rsctl.job.values import value_on
from rsctl.target_info import target_info

REGIONS = ["us-central1", "europe-west4"]
JOB = """\
name: j
run: {command: [python, train.py]}
target: %s
image: {%s}
inputs: %s
outputs: gs://out-{region}/runs
checkpoints: /checkpoints
roles: {ps: {count: 1, command: [a], image: "x/{region}/ps:1"}}
workers: {machine: %s}
targets:
  vertex:
    {project: p, region: %s, staging: "gs://stage-{region}/x", encryption_key: "k/{region}/k"}
"""


def job(
    folder: Path,
    machine: Any = "[n1-standard-4, n1-standard-8]",
    region: Any = REGIONS,
    image: str = 'uri: "{region}-docker.pkg.dev/p/a/b:1"',
    inputs: str = '{a: "gs://in-{region}/a", b: {uri: "gs://bkt/{region}", mode: mount}, '
    'c: {uri: {vertex: "gs://c-{region}/c", sagemaker: "s3://c-c/c"}}}',
    target: str = "vertex",
) -> Job:
    (folder / "job.yaml").write_text(JOB % (target, image, inputs, machine, region))
    document = read(str(folder / "job.yaml"), ())
    assert document.job is not None
    assert [finding.message for finding in document.findings if finding.code == "value"] == []
    return document.job


VERTEX = target_info("vertex")


def test_all_machines_of_a_region_come_before_the_next_region(tmp_path: Path) -> None:
    placements = placements_of(job(tmp_path), VERTEX)
    assert [str(placement.placement) for placement in placements] == [
        "us-central1, n1-standard-4",
        "us-central1, n1-standard-8",
        "europe-west4, n1-standard-4",
        "europe-west4, n1-standard-8",
    ]
    for placed in placements:
        region, machine = placed.placement.region, placed.placement.machine
        one = placed.job
        assert (one.workers.machine, one.targets.vertex.region) == (machine, region)
        assert one.image.uri == f"{region}-docker.pkg.dev/p/a/b:1"
        assert one.inputs["a"] == f"gs://in-{region}/a"
        assert one.inputs["b"].uri == f"gs://bkt/{region}"  # type: ignore[union-attr]
        assert one.inputs["c"].uri.on("vertex") == f"gs://c-{region}/c"  # type: ignore[union-attr]
        assert one.inputs["c"].uri.on("sagemaker") == "s3://c-c/c"  # type: ignore[union-attr]
        assert one.outputs == f"gs://out-{region}/runs"
        assert one.checkpoints == "/checkpoints"
        assert one.targets.vertex.staging == f"gs://stage-{region}/x"
        assert one.targets.vertex.encryption_key == f"k/{region}/k"
        assert one.roles["ps"].image == f"x/{region}/ps:1"


def test_a_finding_names_the_item_of_the_list(tmp_path: Path) -> None:
    placed = placements_of(job(tmp_path), VERTEX)[3]
    for path, expected in (
        ("targets.vertex.region", "targets.vertex.region[1]"),
        ("workers.machine", "workers.machine[1]"),
        ("workers.machine.vertex", "workers.machine[1]"),
        ("workers.count", "workers.count"),
    ):
        found = placed.relocated(error("x", "y", "z", path))
        assert found == error("x", "y", "z", expected)
    assert placed.relocated(error("x", "y")).path is None


def test_machines_of_each_target(tmp_path: Path) -> None:
    given = job(tmp_path, "{vertex: [n1-standard-4, n1-standard-8], sagemaker: ml.c5.xlarge}")
    placements = placements_of(given, VERTEX)
    machines = [placed.job.workers.machine.vertex for placed in placements]  # type: ignore[union-attr]
    assert machines == ["n1-standard-4", "n1-standard-8"] * 2
    assert placements[1].keys["workers.machine"] == "workers.machine.vertex[1]"
    for placed in placements:
        assert placed.job.workers.machine.sagemaker == "ml.c5.xlarge"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "image", ['repository: "{region}/p/a"', 'repository: {vertex: "{region}/p/a"}']
)
def test_a_repository_of_the_region(tmp_path: Path, image: str) -> None:
    repositories = [
        placed.job.image.repository for placed in placements_of(job(tmp_path, image=image), VERTEX)
    ]
    names = [getattr(repository, "vertex", repository) for repository in repositories]
    assert names == [f"{region}/p/a" for region in REGIONS for _ in range(2)]


def test_a_target_of_a_package_needs_no_values_of_its_own(tmp_path: Path) -> None:
    given = job(tmp_path, image='uri: a/b:1, repository: {vertex: "v/{region}"}')
    mine = replace(VERTEX, name="mine")
    placed = placements_of(with_options(given, "mine", given.targets.vertex), mine)
    assert [str(each.placement) for each in placed][::2] == [f"{r}, n1-standard-4" for r in REGIONS]
    for each in placed:
        repository = each.job.image.repository
        assert (value_on(repository, "mine"), value_on(repository, "vertex")) == (
            None,
            "v/{region}",
        )
        assert each.job.inputs["c"] == given.inputs["c"]
        assert each.job.targets.mine.region == each.placement.region  # type: ignore[attr-defined]


def test_one_region_and_one_machine_are_one_place_with_no_items(tmp_path: Path) -> None:
    [placed] = placements_of(job(tmp_path, "n1-standard-4", "us-east1"), VERTEX)
    assert (str(placed.placement), placed.keys) == ("us-east1, n1-standard-4", {})
    assert placed.job.outputs == "gs://out-us-east1/runs"
    assert placed.job.workers.machine == "n1-standard-4"
    [placed] = placements_of(job(tmp_path, "null", "null"), VERTEX)
    assert (str(placed.placement), placed.placement.region) == ("", None)
    assert placed.job.outputs == "gs://out-{region}/runs"


def test_a_target_without_places_has_one(tmp_path: Path) -> None:
    given = job(tmp_path)
    [placed] = placements_of(given, target_info("process"))
    assert (placed.job, placed.keys, str(placed.placement)) == (given, {}, "")


def shown(given: Job, target: str) -> list[str]:
    return [
        f"{found.path}: {found.message} -> {found.remedy}"
        for found in placement_findings(given, target_info(target))
    ]


def test_what_is_twice_in_a_list(tmp_path: Path) -> None:
    given = job(tmp_path, "[n1-standard-4, n1-standard-8, n1-standard-4]", ["a-b1", "a-b1"])
    assert shown(given, "vertex") == [
        "targets.vertex.region[1]: a-b1 is listed twice -> remove it",
        "workers.machine[2]: n1-standard-4 is listed twice -> remove it",
    ]


@pytest.mark.parametrize(
    ("regions", "machines", "path"),
    [(4, 4, None), (17, 1, "targets.vertex.region[0]"), (4, 5, "workers.machine[0]")],
)
def test_more_places_than_anybody_means(
    tmp_path: Path, regions: int, machines: int, path: str | None
) -> None:
    given = job(
        tmp_path,
        "[" + ", ".join(f"m{n}" for n in range(machines)) + "]",
        [f"r-{n}" for n in range(regions)],
    )
    expected = (
        f"{path}: {regions} regions and {machines} machine types are {regions * machines} "
        "placements, and at most 16 are possible -> list only the ones that you would use"
    )
    assert shown(given, "vertex") == ([expected] if path else [])


def test_lists_and_regions_on_a_target_without_places(tmp_path: Path) -> None:
    assert shown(job(tmp_path), "process") == [
        "image.uri: target process has no regions, and the name contains {region} -> set a name "
        "without it for this target"
    ]
    repository = job(tmp_path, image='repository: "{region}/a"')
    assert shown(repository, "compose")[-1].startswith("image.repository: target compose has no")
    plain = job(tmp_path, "n1-standard-4", image='uri: "a/b:1"')
    assert shown(plain, "process") == []
