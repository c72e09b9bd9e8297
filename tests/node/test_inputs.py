"""What a node's ranks find of the job's data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.node import inputs
from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.options import Options

from .conftest import LaunchNode


def node(index: int, of: int = 2, role: str = "worker") -> Cluster:
    names = tuple(f"worker-{number}" for number in range(of))
    return Cluster(role, index, names, (), None, 29500)


def options(
    processes: int = 1, copy: tuple[str, ...] = (), shards: tuple[str, ...] = ()
) -> Options:
    return Options([], processes=processes, copy=copy, shards=shards)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def listed(environ: dict[str, str], local_rank: int) -> list[str]:
    path = inputs.of_rank(environ["RSCTL_INPUT_TRAIN_SHARDS"], local_rank)
    return Path(path).read_text().splitlines()


def test_nodes_share_out_the_shards_and_ranks_their_nodes_part() -> None:
    environ = {"RSCTL_INPUT_TRAIN": "gs://b/{0..8}.tar"}
    found = []
    for index in range(2):
        given = inputs.provide(node(index), options(2, shards=("train",)), environ)
        found.append([listed(given, local_rank) for local_rank in range(2)])
    assert [[[name[7] for name in names] for names in ranks] for ranks in found] == [
        [["0", "4", "8"], ["2", "6"]],
        [["1", "5"], ["3", "7"]],
    ]


def test_a_rank_that_is_left_without_shards_finds_an_empty_file() -> None:
    environ = {"RSCTL_INPUT_TRAIN": "/d/{0..0}.tar"}
    assert listed(inputs.provide(node(1), options(1, shards=("train",)), environ), 0) == []


def test_the_lists_are_in_a_new_folder_of_this_user_alone(tmp_path: Path) -> None:
    """On a cluster users share /tmp, where another user can have put links of any name."""
    mine, planted = tmp_path / "mine", tmp_path / "tmp" / "rsctl-shards"
    mine.write_text("precious")
    planted.mkdir()
    (planted / "train.0").symlink_to(mine)
    environ = {"RSCTL_INPUT_TRAIN": "/d/{0..0}.tar"}
    found = inputs.provide(node(0, of=1), options(1, shards=("train",)), environ)
    assert listed(found, 0) == ["/d/0.tar"]
    assert mine.read_text() == "precious"
    folder = Path(found["RSCTL_INPUT_TRAIN_SHARDS"]).parent
    assert folder.stat().st_mode & 0o077 == 0


def test_a_node_copies_its_own_part_of_the_shards(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mounted, disk = tmp_path / "gcs", tmp_path / "disk"
    mounted.mkdir()
    for number in range(4):
        (mounted / f"t-{number}.tar").write_text("x" * number)
    environ = {"RSCTL_INPUT_TRAIN": f"{disk}/train/t-{{0..3}}.tar"}
    given = options(1, (f"train={mounted}/t-{{0..3}}.tar",), ("train",))
    found = inputs.provide(node(1), given, environ)
    assert listed(found, 0) == [f"{disk}/train/t-1.tar", f"{disk}/train/t-3.tar"]
    assert sorted(path.name for path in (disk / "train").iterdir()) == ["t-1.tar", "t-3.tar"]
    lines = capfd.readouterr().out.splitlines()
    metrics = json.loads(lines[1])
    assert metrics.pop("input.train.seconds") >= 0
    assert metrics == {"rsctl": "metrics", "input.train.files": 2, "input.train.bytes": 4}
    inputs.provide(node(1), given, environ)
    assert capfd.readouterr().out.splitlines()[1] == "rsctl: train exists from an earlier start"


@pytest.mark.parametrize(("target", "is_kept"), [("slurm", False), ("vertex", True)])
def test_only_on_a_cluster_a_copy_ends_with_its_node(
    tmp_path: Path, target: str, is_kept: bool
) -> None:
    """A cluster's disk remains: later runs would use old data, and nothing would free the space."""
    (tmp_path / "data").write_text("x")
    program = f"""
import os
from rsctl.node import inputs
from rsctl.node.cluster import Cluster
from rsctl.node.options import Options
given = Options([], copy=("train={tmp_path}/data",))
inputs.provide(Cluster("worker", 0, ("w",), (), None, 29500), given, os.environ)
"""
    environ = {"RSCTL_INPUT_TRAIN": f"{tmp_path}/disk/train/data", "RSCTL_TARGET": target}
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **environ}, check=True)
    assert (tmp_path / "disk").exists() is is_kept


def test_reducers_copy_nothing_and_other_roles_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "a-0").touch()
    (tmp_path / "a-1").touch()
    environ = {"RSCTL_INPUT_TRAIN": f"{tmp_path}/disk/train/a-{{0..1}}"}
    given = options(1, (f"train={tmp_path}/a-{{0..1}}",), ("train",))
    assert inputs.provide(node(0, role="reducer"), given, environ) == environ
    assert not (tmp_path / "disk").exists()
    assert len(listed(inputs.provide(node(0, role="evaluator"), given, environ), 0)) == 2


def test_a_rehearsed_node_copies_below_its_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "gcs/b").mkdir(parents=True)
    (root / "gcs/b/file").write_text("x")
    environ = {"RSCTL_ROOT": str(root), "RSCTL_INPUT_TRAIN": "/var/tmp/rsctl/inputs/train/b"}
    found = inputs.provide(node(0), options(copy=("train=/gcs/b",)), environ)
    assert found["RSCTL_INPUT_TRAIN"] == f"{root}/var/tmp/rsctl/inputs/train/b"
    assert Path(found["RSCTL_INPUT_TRAIN"], "file").read_text() == "x"


def test_what_makes_no_sense_is_said() -> None:
    with pytest.raises(LaunchError, match="RSCTL_INPUT_TRAIN is not set"):
        inputs.provide(node(0), options(copy=("train=/x",)), {})
    with pytest.raises(
        LaunchError, match=r"train: the range \{3\.\.1\} is empty: its end is below its start"
    ):
        inputs.provide(node(0), options(shards=("train",)), {"RSCTL_INPUT_TRAIN": "/{3..1}"})


SHOW = """
import os
names = open(os.environ["RSCTL_INPUT_TRAIN_SHARDS"]).read().split()
print("rank", os.environ.get("RANK") or os.environ["NODE_RANK"], *names, flush=True)
"""


@pytest.mark.parametrize("launcher", ["once", "torchrun"])
def test_each_rank_finds_its_own_list(
    launch: LaunchNode,
    script: Callable[[str], str],
    launcher: str,
    tmp_path: Path,
    torch_forks: dict[str, str],
) -> None:
    words = ["--processes", "2"] if launcher == "torchrun" else []
    started = launch(
        *("--launcher", launcher, *words, "--shards", "train", "--python", "--", script(SHOW)),
        RSCTL_INPUT_TRAIN="/d/{0..2}",
        TMPDIR=str(tmp_path / "tmp"),
        **torch_forks,
    )
    assert started.wait() == 0, started.err
    found = sorted(line for line in started.out.splitlines() if line.startswith("rank"))
    ranks = {"once": ["rank 0 /d/0 /d/1 /d/2"], "torchrun": ["rank 0 /d/0 /d/2", "rank 1 /d/1"]}
    assert found == ranks[launcher]
    assert not list((tmp_path / "tmp").glob("rsctl-shards-*"))


def test_a_job_whose_data_cannot_be_copied_does_not_start(launch: LaunchNode) -> None:
    started = launch(
        *("--launcher", "once", "--copy", "train=/nowhere", "--", "echo", "started"),
        RSCTL_INPUT_TRAIN="/nowhere/else",
    )
    assert started.wait() == 75
    assert started.lines("finding") == [
        {
            "rsctl": "finding",
            "severity": "error",
            "code": "input",
            "message": "cannot copy train: /nowhere: No such file or directory",
            "remedy": "Check that /nowhere exists and is readable.",
        }
    ]
    assert "\nstarted" not in started.out
