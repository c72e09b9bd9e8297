"""Inputs on every target: what a plan shows of them, and what is refused with what remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import Rsctl, rehearsed

EACH = {"vertex": "gs://bucket/data", "sagemaker": "s3://bucket/data/", "local": "./data"}
OPTIONS = {
    "process": (),
    "compose": (),
    "vertex": (
        *("targets.vertex.project=my-project", "targets.vertex.region=us-east1"),
        *("image.repository=us-docker.pkg.dev/p/r/i", "outputs=gs://bucket/out"),
    ),
    "sagemaker": (
        *("targets.sagemaker.region=us-east-1", "outputs=s3://bucket/out"),
        "targets.sagemaker.role=arn:aws:iam::123456789012:role/train",
        "image.repository=123456789012.dkr.ecr.us-east-1.amazonaws.com/i",
    ),
}


@pytest.fixture
def plan(rsctl: Rsctl) -> Any:
    """A plan of a job with these inputs, as JSON."""
    (rsctl.folder / "data").mkdir()

    def planned(inputs: dict[str, Any], target: str, *settings: str, **job: Any) -> dict[str, Any]:
        run = {"command": ["a"], "launcher": "once", **job.pop("run", {})}
        path = rsctl.write_job(inputs=inputs, run=run, image={"base": "debian"}, **job)
        words = [w for each in (*OPTIONS[target], *settings) for w in ("--set", each)]
        done = rsctl.look("plan", path, "-t", target, "-o", "json", *words)
        shown: dict[str, Any] = json.loads(done.stdout)
        return shown

    return planned


def errors(shown: dict[str, Any], severity: str = "error") -> list[tuple[Any, ...]]:
    found = [f for f in shown["findings"] if f["severity"] == severity]
    return [(f["path"], f["message"], f["remedy"]) for f in found if f["path"].startswith("inputs")]


@pytest.mark.parametrize("target", OPTIONS)
def test_a_plan_shows_each_input_and_what_brings_it(plan: Any, rsctl: Rsctl, target: str) -> None:
    shown = plan({"train": {"uri": EACH, "mode": "copy"}}, target)
    [given] = shown["inputs"]
    copy = f"{rsctl.home}/runs/{shown['run']}/inputs/train/data"
    here = "rsctl, to this machine's disk, once before the start"
    mounted = "rsctl-launch, from the bucket that Vertex AI mounts with Cloud Storage FUSE"
    expected = {
        "process": (f"{rsctl.folder}/data", copy, here),
        "compose": (f"{rsctl.folder}/data", "/rsctl/inputs/train", here),
        "vertex": ("gs://bucket/data", "/var/tmp/rsctl/inputs/train/data", mounted),
        "sagemaker": (
            *("s3://bucket/data/", "/opt/ml/input/data/train"),
            "SageMaker's input mode File",
        ),
    }
    assert (given["mode"], given["location"], given["path"], given["by"]) == (
        "copy",
        *expected[target],
    )
    assert shown["env"]["RSCTL_INPUT_TRAIN"] == given["path"]


def test_the_text_of_a_plan_shows_them(plan: Any, rsctl: Rsctl) -> None:
    for number in range(4):
        (rsctl.folder / f"data/t-{number}.tar").touch()
    plan({"train": "data/t-{0..3}.tar"}, "process")
    text = rsctl.look("plan", "job.yaml").stdout
    assert (
        f"inputs      train: mount {rsctl.folder}/data/t-{{0..3}}.tar, 4 shards\n"
        f"              at {rsctl.folder}/data/t-{{0..3}}.tar\n"
        "              by not copied: a path on this machine\n"
    ) in text


def test_compose_mounts_the_folder_of_shards_and_the_copies(plan: Any, rsctl: Rsctl) -> None:
    (rsctl.folder / "data/t-0").touch()
    inputs = {
        "a": "data/t-{0..0}",
        "b": {"uri": "gs://bucket/x/t-{0..3}", "mode": "copy"},
        "c": {"uri": "s3://bucket/x", "mode": "copy"},
        "d": {"uri": "gs://bucket/x/t-{0..3}", "mode": "stream"},
    }
    shown = plan(inputs, "compose")
    volumes = shown["request"]["compose"]["services"]["worker-0"]["volumes"]
    copies = f"{rsctl.home}/runs/{shown['run']}/inputs"
    mounted = {v["target"]: v["source"] for v in volumes if "/inputs/" in v["target"]}
    assert mounted == {
        "/rsctl/inputs/a": f"{rsctl.folder}/data",
        "/rsctl/inputs/b": f"{copies}/b",
        "/rsctl/inputs/c": f"{copies}/c/x",
    }
    assert [each["path"] for each in shown["inputs"]] == [
        "/rsctl/inputs/a/t-{0..0}",
        "/rsctl/inputs/b/t-{0..3}",
        "/rsctl/inputs/c",
        "gs://bucket/x/t-{0..3}",
    ]


def test_links_out_of_a_mounted_folder_are_said(plan: Any, rsctl: Rsctl) -> None:
    """As in a cache of Hugging Face, whose snapshots are links to ../../blobs."""
    data = rsctl.folder / "data"
    (data / "file").touch()
    (data / "inside").symlink_to("file")
    for number in range(4):
        (data / f"t-{number}").symlink_to(f"../blobs/{number}")
        (rsctl.folder / "blobs").mkdir(exist_ok=True)
        (rsctl.folder / "blobs" / str(number)).touch()
    inputs = {"a": "data", "b": "data/t-{0..3}", "c": {"uri": "data", "mode": "copy"}}
    inputs["d"] = "data/file"
    found = errors(plan(inputs, "compose"), "warning")
    message = f"links in {data} lead out of it, to files that a container does not have: "
    message += "t-0, t-1, t-2 and 1 more"
    assert found == [
        ("inputs.a", message, "give the folder that has the files, or copy the files into it"),
        ("inputs.b", message, "set inputs.b.mode: copy, which copies the files of links"),
    ]
    assert errors(plan(inputs, "process"), "warning") == []


REFUSED = {
    "no location": (
        *({"uri": {"vertex": "gs://bucket/x"}}, "sagemaker", "inputs.train.uri"),
        "input train has no location for target sagemaker",
        "add inputs.train.uri.sagemaker: s3://BUCKET/PATH",
    ),
    "empty": (
        *({"uri": {"local": "nowhere"}}, "process", "inputs.train.uri.local"),
        *("nothing exists at '{folder}/nowhere'", "correct the path"),
    ),
    "a shard that is missing": (
        *({"uri": "data/t-{0..3}"}, "process", "inputs.train.uri"),
        *("nothing exists at '{folder}/data/t-0', one of 4 shards", "correct the path"),
    ),
    "a bucket is mounted nowhere here": (
        *("gs://bucket/x", "process", "inputs.train"),
        "target process cannot reach gs://bucket/x; it supports a local path",
        "for this target: --set inputs.train=./PATH, or copy it to this machine: --set "
        "inputs.train.mode=copy",
    ),
    "another cloud's bucket": (
        *({"uri": "s3://bucket/x", "mode": "copy"}, "vertex", "inputs.train.uri"),
        "target vertex cannot reach s3://bucket/x; it supports gs://",
        "for this target: --set inputs.train.uri=gs://BUCKET/PATH",
    ),
    "a stream without shards": (
        *({"uri": "gs://bucket/x", "mode": "stream"}, "vertex", "inputs.train.mode"),
        "target vertex cannot stream gs://bucket/x: there the script opens the URLs of shards, "
        "and this location has none",
        "set mode: mount, or name the shards with a range such as train-{000..127}.tar",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_target_cannot_do_is_refused(plan: Any, rsctl: Rsctl, case: str) -> None:
    given, target, path, message, remedy = REFUSED[case]
    message = message.replace("{folder}", str(rsctl.folder))
    assert errors(plan({"train": given}, target)) == [(path, message, remedy)]


LARGE = 1 << 43
"""Bytes: more than this disk has free, and no more than a file system lets a file have."""


@pytest.mark.parametrize(
    ("inputs", "channel", "message"),
    [
        (
            {"train": {"uri": "s3://bucket/x/", "mode": "copy"}},
            {"mode": "Pipe"},
            "inputs.train.mode copy is File, and not Pipe",
        ),
        (
            {"train": {"uri": "s3://bucket/{0..3}", "mode": "stream"}},
            {"mode": "Pipe"},
            "mode Pipe provides no files, so ranges of shards are not possible",
        ),
        (
            {"train": "s3://bucket/{0..3}"},
            {"sharded": True},
            "rsctl assigns shards to nodes, and so does sharded",
        ),
    ],
)
def test_sagemakers_own_keys_may_not_say_otherwise(
    plan: Any, inputs: dict[str, Any], channel: dict[str, Any], message: str
) -> None:
    targets = {"sagemaker": {"channels": {"train": channel}}}
    shown = plan(inputs, "sagemaker", targets=targets)
    assert message in [f["message"] for f in shown["findings"] if f["severity"] == "error"]


def test_fewer_shards_than_ranks_and_unequal_parts_are_said(plan: Any) -> None:
    inputs = {"train": "gs://bucket/{0..2}.tar"}
    assert errors(plan(inputs, "vertex", workers={"count": 4}), "warning") == [
        (
            "inputs.train",
            "3 shards for 4 ranks: 1 ranks have no data",
            "split the data into more shards, or use fewer ranks",
        )
    ]
    assert errors(plan(inputs, "vertex", workers={"count": 2}), "note") == [
        (
            "inputs.train",
            "3 shards for 2 ranks: some have 1, others 2",
            "if all ranks must run the same number of steps, limit the steps",
        )
    ]
    assert errors(plan(inputs, "vertex", workers={"count": 3}), "note") == []


def test_without_rsctl_launch_nothing_is_copied_or_told(plan: Any) -> None:
    run = {"launcher": "none"}
    copied = {"train": {"uri": "gs://bucket/x", "mode": "copy"}}
    assert errors(plan(copied, "vertex", run=run)) == [
        (
            "inputs.train.mode",
            "rsctl-launch copies train to the nodes, and launcher none does not use rsctl-launch",
            "use launcher torchrun or once, or set mode: mount",
        )
    ]
    roles = {"other": {"image": "team/other", "command": ["a"]}}
    assert errors(plan(copied, "vertex", roles=roles), "warning") == [
        (
            "inputs.train.mode",
            "rsctl-launch copies train, and roles.other.image does not have rsctl-launch",
            "set mode: mount if the role reads it",
        )
    ]
    shown = plan({"train": "gs://bucket/{0..3}"}, "vertex", run=run)
    assert errors(shown) == []
    assert errors(shown, "note") == [
        (
            "inputs.train",
            "RSCTL_INPUT_TRAIN_SHARDS comes from rsctl-launch, which launcher none does not use",
            "the script gets all shards, as a range, in RSCTL_INPUT_TRAIN",
        )
    ]
    by_platform = {"train": {"uri": "s3://bucket/x/", "mode": "copy"}}
    assert errors(plan(by_platform, "sagemaker", run=run)) == []


def test_a_disk_that_is_too_small_is_seen_in_the_plan(
    plan: Any, rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (rsctl.folder / "data/large").open("wb") as file:
        os.truncate(file.fileno(), LARGE)  # sparse: it takes no space
    shown = plan({"train": {"uri": "data", "mode": "copy"}}, "process")
    [(path, message, remedy)] = errors(shown)
    assert path == "inputs.train.mode"
    assert message.startswith(
        f"the copies need {LARGE:,} bytes, but the disk of {rsctl.home} has only "
    )
    assert remedy == "set inputs.train.mode: mount, or RSCTL_HOME to a larger disk"


def test_code_for_an_sdk_has_the_modes(plan: Any, rsctl: Rsctl) -> None:
    plan({"train": {"uri": EACH, "mode": "copy"}}, "sagemaker")
    words = [w for each in OPTIONS["sagemaker"] for w in ("--set", each)]
    code = rsctl.look("plan", "job.yaml", "-t", "sagemaker", "-o", "python", *words).stdout
    assert "File" in code
    assert "s3://bucket/data/" in code
    words = [w for each in OPTIONS["vertex"] for w in ("--set", each)]
    code = rsctl.look("plan", "job.yaml", "-t", "vertex", "-o", "python", *words).stdout
    assert "train=/gcs/bucket/data" in code


def test_a_run_copies_once_over_restarts_and_removes_the_copies(rsctl: Rsctl) -> None:
    data = rsctl.folder / "data"
    data.mkdir()
    for number in range(3):
        (data / f"t-{number}.tar").write_text(f"shard {number}\n")
    (data / "out").symlink_to("/etc/hostname")
    up = f"{rsctl.folder}/up-$RSCTL_ATTEMPT"
    script = (
        'xargs cat < $RSCTL_INPUT_TRAIN_SHARDS; ls $RSCTL_INPUT_ALL; test -n "$RSCTL_INPUT_ALL"; '
        # The first to fail ends the others, which are to have said all this before.
        f"touch {up}-$NODE_RANK; until [ -e {up}-0 ] && [ -e {up}-1 ]; do sleep 0.05; done; "
        "rm -f t-2.tar; exit $((2 - RSCTL_ATTEMPT))"
    )
    job = rsctl.write_job(
        bash=script,
        limits={"retries": 1},
        workers={"count": 2},
        inputs={
            "train": {"uri": {"local": "data/t-{0..2}.tar"}, "mode": "copy"},
            "all": {"uri": "data", "mode": "copy"},
        },
    )
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == 0, done.stderr
    log = sorted(f"{e['replica']} {e['text']}" for e in done.events if e["type"] == "log")
    files = [f"worker-{node} t-{number}.tar" for node in (0, 1) for number in (0, 1, 2)]
    parts = ["worker-0 shard 0", "worker-0 shard 2", "worker-1 shard 1"]
    assert [line for line in log if "rsctl" not in line] == sorted([*parts, *files] * 2)
    metrics = done.result["metrics"]
    assert {
        name: statistics["last"] for name, statistics in metrics.items() if "seconds" not in name
    } == {
        **{"input.train.files": 3, "input.train.bytes": 24},
        **{"input.all.files": 3, "input.all.bytes": 24},
    }
    assert {"input.train.seconds", "input.all.seconds"} < metrics.keys()
    assert {statistics["count"] for statistics in metrics.values()} == {1}
    [warned] = [e["message"] for e in done.events if e["type"] == "finding"]
    assert warned == "'out' is skipped: it is neither a file nor a link to a file in this folder"
    assert not (rsctl.home / "runs" / done.result["run"] / "inputs").exists()


def test_a_copy_of_an_empty_folder_is_an_empty_folder(rsctl: Rsctl) -> None:
    """As on the clouds: a folder to which samples come later is not an error of this run."""
    (rsctl.folder / "data").mkdir()
    job = rsctl.write_job(bash='ls "$RSCTL_INPUT_A"', inputs={"a": {"uri": "data", "mode": "copy"}})
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr


def test_a_copy_of_a_file_that_leads_elsewhere_beside_rsctls_folder(rsctl: Rsctl) -> None:
    """The file's folder has RSCTL_HOME in it, and the file is a link, as in a store of DVC."""
    store = rsctl.home.parent.parent / "store"
    store.mkdir()
    (store / "blob").write_text("content")
    (rsctl.home.parent / "data.bin").symlink_to(store / "blob")
    inputs = {"a": {"uri": str(rsctl.home.parent / "data.bin"), "mode": "copy"}}
    job = rsctl.write_job(bash='grep -q content "$RSCTL_INPUT_A"', inputs=inputs)
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr


def test_a_bucket_that_cannot_be_read_is_why_a_run_fails(rsctl: Rsctl) -> None:
    inputs = {"train": {"uri": "gs://bucket/x", "mode": "copy"}}
    job = rsctl.write_job(bash="echo started", inputs=inputs)
    endpoint = {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:1", "RSCTL_CLOUD_PACE": "0"}
    key = Path(rsctl.folder / "none.json")
    done = rsctl("submit", job, GOOGLE_APPLICATION_CREDENTIALS=str(key), **endpoint)
    assert done.exit_code == 1
    assert "started" not in done.stdout
    assert "error:" in done.stderr


@pytest.mark.parametrize("target", ["vertex", "sagemaker"])
def test_a_rehearsal_copies_each_nodes_part(rsctl: Rsctl, target: str) -> None:
    scheme = {"vertex": "gs", "sagemaker": "s3"}[target]
    folder = rsctl.home / "rehearsal" / scheme / "bucket" / "data"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"t-{number}.tar").write_text(f"shard {number}\n")
    (rsctl.folder / "source").mkdir()
    job = rsctl.write_job(
        bash="xargs cat < $RSCTL_INPUT_PART_SHARDS; cat $RSCTL_INPUT_ALL/t-2.tar; sleep 1",
        image={"base": "debian", "source": "source"},
        workers={"count": 2},
        inputs={
            "part": {"uri": f"{scheme}://bucket/data/t-{{0..2}}.tar", "mode": "copy"},
            "all": {"uri": f"{scheme}://bucket/data/", "mode": "copy"},
        },
    )
    done = rsctl("submit", job, *rehearsed(target), "-o", "json")
    assert done.exit_code == 0, done.stderr
    log = [f"{e['replica']} {e['text']}" for e in done.events if e["type"] == "log"]
    assert {"worker-0 shard 0", "worker-0 shard 2", "worker-1 shard 1"} <= set(log)
    metrics = done.result["metrics"]
    assert metrics["input.part.bytes"]["count"] == 2
    assert metrics["input.all.bytes"]["last"] == 24
    assert metrics["input.all.files"]["last"] == 3
