"""The batch script as it is rendered, and what is refused."""

from __future__ import annotations

import base64
import io
import random
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from rsctl.api import load, plan
from rsctl.api.job_file import make_submission
from rsctl.bench.prepare import prepare
from rsctl.findings import RsctlError
from rsctl.job.document import read
from rsctl.targets.base import Placeholder
from rsctl.targets.slurm import rest_job
from rsctl.targets.slurm.containers import ENROOT_NAME
from rsctl.targets.slurm.payload import packed
from rsctl.targets.slurm.script import PACKAGE
from tests.kit import command_forks

RUN = "train-abcdef"


def planned(folder: Path, **keys: Any) -> Any:
    """The plan of a job of two workers with the keys of its file."""
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / "train.py").touch()
    options = {"shared": "/shared/me", **keys.pop("slurm", {})}
    file = {
        "name": "train",
        "target": "slurm",
        "image": {"source": "source", **keys.pop("image", {})},
        "run": {"script": "train.py", **keys.pop("run", {})},
        "workers": {"count": 2, **keys.pop("workers", {})},
        "limits": {"timeout": "2h", **keys.pop("limits", {})},
        "targets": {"slurm": options},
        **keys,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(file))
    return plan(load(str(path)), run_id=RUN)


def own_part(script: str, digest: str) -> str:
    """What belongs to the job: the script up to the package."""
    assert f"\n{PACKAGE.format(digest=digest)}\nEND-OF-PACKAGE\n}}\n" in script
    return script.partition("\npackage() {")[0]


def refused(folder: Path, **keys: Any) -> dict[str | None, str]:
    """The errors of a job by their keys."""
    with pytest.raises(RsctlError) as caught:
        planned(folder, **keys)
    return {finding.path: finding.message for finding in caught.value.findings if finding.is_error}


def test_the_whole_script(tmp_path: Path) -> None:
    """Two workers with GPUs and two reducers, with what users set most."""
    made = planned(
        tmp_path,
        workers={"accelerator": "a100-40gb:8", "machine": "nvlink"},
        reducers={"count": 2, "env": {"R": "1"}},
        run={"args": {"lr": "it's $HOME"}, "env": {"NAME": "a b"}},
        slurm={
            "partition": "gpu",
            "reducer_partition": "cpu",
            "account": "physics",
            "qos": "high",
            "constraint": "ib",
            "gpu_type": "a100",
            "memory": "64GiB",
            "switches": "1",
            "licenses": "x:1",
            "setup": ["module load cuda"],
            "sbatch": ["--nice=10", "--mail-user=me me"],
            "srun": ["--mpi=pmix"],
        },
    )
    request = made.request
    assert own_part(request["script"], request["package"]) == (
        """#!/bin/bash -l
#SBATCH --job-name=train-abcdef
#SBATCH --comment=rsctl:train-abcdef
#SBATCH --output=/shared/me/train-abcdef.batch.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --no-requeue
#SBATCH --time=120
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=a100:8
#SBATCH --exclusive
#SBATCH --partition=gpu
#SBATCH --account=physics
#SBATCH --qos=high
#SBATCH '--constraint=ib&nvlink'
#SBATCH --mem=65536M
#SBATCH --switches=1
#SBATCH --licenses=x:1
#SBATCH --nice=10
#SBATCH '--mail-user=me me'
#SBATCH hetjob
#SBATCH --job-name=train-abcdef
#SBATCH --comment=rsctl:train-abcdef
#SBATCH --no-requeue
#SBATCH --time=120
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --partition=cpu
#SBATCH --account=physics
#SBATCH --qos=high
#SBATCH --constraint=ib
#SBATCH --mem=65536M
#SBATCH --nice=10
#SBATCH '--mail-user=me me'

# Wants RSCTL_TOKEN in the environment of sbatch; rsctl sets them.
set -u
RSCTL_FOLDER=/shared/me/train-abcdef
RSCTL_START=$RSCTL_FOLDER/package/runtime/rsctl_start.py
RSCTL_COMPONENTS=2
RSCTL_RETRIES=0
RSCTL_AWAITED="workers"
RSCTL_STOPPED="reducers"
# NAME ROLE FIRST COMPONENT SKIPPED-NODES NODES TASKS
RSCTL_STEPS="reducers reducer 0 1 0 2 2
workers worker 0 0 0 2 2"
export RSCTL_RUN=train-abcdef
export RSCTL_TARGET=slurm
export RSCTL_OUTPUT_DIR=/shared/me/train-abcdef/outputs
export RSCTL_CHECKPOINT_DIR=/shared/me/train-abcdef/outputs/checkpoints

set_up() {
    set +u
    setup_lines 'module load cuda' || return 1
    set +e +o pipefail -u
}

start_probe() { # OPTION... ROLE FIRST FOLDER TOKEN
    local count=$(($# - 4))
    srun --kill-on-bad-exit=1 "${@:1:count}" python3 "$RSCTL_START" """
        """rsctl.node.platforms.slurm_probe "${@:count+1}"
}

step_reducers() { # ROLE FIRST OPTION...
    export R=1
    export RSCTL_ON_REDUCER_LOSS=fail
    exec srun --cpu-bind=none --gres=none "${@:3}" python3 "$RSCTL_START" """
        """rsctl.node.platforms.slurm_task "$1" "$2" "$RSCTL_LOGS" \\
        "$RSCTL_FOLDER/package/source" -- python3 "$RSCTL_START" rsctl.node.launch """
        """--launcher torchrun --processes 8 --python -- train.py --lr 'it'"'"'s $HOME'
}

step_workers() { # ROLE FIRST OPTION...
    export NAME='a b'
    export RSCTL_ON_REDUCER_LOSS=fail
    exec srun --cpu-bind=none --mpi=pmix "${@:3}" python3 "$RSCTL_START" """
        """rsctl.node.platforms.slurm_task "$1" "$2" "$RSCTL_LOGS" \\
        "$RSCTL_FOLDER/package/source" -- python3 "$RSCTL_START" rsctl.node.launch """
        """--launcher torchrun --processes 8 --python -- train.py --lr 'it'"'"'s $HOME'
}"""
    )
    assert request["environment"] == {"RSCTL_TOKEN": None}
    assert made.world_size == 16


@pytest.mark.parametrize(
    ("keys", "pools"),
    [
        (
            {"reducers": {"count": 1}, "workers": {"machine": "nvlink", "accelerator": "l4:2"}},
            [("worker", 2, "nvlink", "l4:2"), ("reducer", 1, None, None)],
        ),
        (
            {"reducers": {"count": 3, "machine": "cpu"}},
            [("worker", 2, None, None), ("reducer", 3, "cpu", None)],
        ),
        (
            {
                "reducers": {"count": 1},
                "workers": {"machine": "nvlink"},
                "slurm": {"reducer_placement": "colocated"},
            },
            [("worker", 2, "nvlink", None), ("reducer", 1, None, None)],
        ),
        (
            {
                "chief": {"machine": "large"},
                "workers": {"machine": "nvlink"},
                "roles": {"ps": {"count": 2}},
            },
            [("worker", 1, "large", None), ("worker", 1, "nvlink", None), ("ps", 2, None, None)],
        ),
    ],
)
def test_the_pools_of_a_plan(tmp_path: Path, keys: dict[str, Any], pools: list[Any]) -> None:
    """With the feature that their nodes must have; reducers on the workers' nodes have none."""
    found = planned(tmp_path, **keys).pools
    assert [(each.role, each.count, each.machine, each.accelerator) for each in found] == pools


def test_a_job_that_may_be_requeued_has_one_component(tmp_path: Path) -> None:
    """Its reducers are tasks on the workers' nodes, because Slurm cannot preempt a hetjob."""
    made = planned(tmp_path, reducers={"count": 1}, limits={"restarts": "platform"})
    script = made.request["script"]
    assert "#SBATCH --requeue\n" in script
    assert "hetjob\n#SBATCH" not in script
    assert 'RSCTL_STEPS="reducers reducer 0 0 0 1 1\nworkers worker 0 0 0 2 2"' in script


@pytest.mark.parametrize(
    ("keys", "requeue"),
    [
        ({}, "--no-requeue"),
        ({"checkpoints": "/shared/me/c"}, "--requeue"),
        ({"checkpoints": "/shared/me/c", "limits": {"restarts": "never"}}, "--no-requeue"),
        ({"checkpoints": "/shared/me/c", "slurm": {"requeue": "no"}}, "--no-requeue"),
        ({"limits": {"restarts": "platform"}}, "--requeue"),
        ({"slurm": {"requeue": "yes"}}, "--requeue"),
    ],
)
def test_a_training_is_requeued(tmp_path: Path, keys: dict[str, Any], requeue: str) -> None:
    """If it resumes from checkpoints, or asks for it; a note says so where the keys do not."""
    made = planned(tmp_path, **keys)
    assert f"#SBATCH {requeue}\n" in made.request["script"]
    notes = [f.path for f in made.findings if f.code == "requeue"]
    assert notes == (["limits.restarts"] if keys == {"checkpoints": "/shared/me/c"} else [])


def test_a_bench_is_never_requeued(tmp_path: Path) -> None:
    """Whatever its file says: a second start under the same ID would spoil its numbers."""
    options = {"requeue": "yes", "auto_resume": True}
    planned(tmp_path, checkpoints="/shared/me/c", slurm=options)
    prepared = prepare(read(str(tmp_path / "job.yaml"), ()), (), None)
    script = prepared.cells[0].submission.plan.request["script"]
    assert "#SBATCH --no-requeue\n" in script
    assert '"${RSCTL_HYPERPOD[@]}"' not in script
    found = [(f.severity, f.path) for f in prepared.findings if f.code == "bench"]
    assert found == [
        ("warning", "targets.slurm.requeue"),
        ("warning", "targets.slurm.auto_resume"),
        ("note", "checkpoints"),
    ]


def test_pyxis(tmp_path: Path) -> None:
    """The words of pyxis' and enroot's documentation."""
    image = "example.com/team/train@sha256:" + "0" * 64
    made = planned(tmp_path, image={"uri": image}, slurm={"container": "pyxis"})
    script = made.request["script"]
    srun = (
        'srun --cpu-bind=none --container-image="$RSCTL_IMAGE_FILE" '
        "--container-mounts=/shared/me:/shared/me --no-container-mount-home "
        "--no-container-entrypoint --container-env=PYTHONPATH,RSCTL_ATTEMPT,"
        "RSCTL_CHECKPOINT_DIR,RSCTL_OUTPUT_DIR,RSCTL_RUN,RSCTL_SLURM_NODES,"
        'RSCTL_TARGET "${@:3}" python3 "$RSCTL_START"'
    )
    assert f"    exec {srun} " in script
    assert 'enroot import --output "$new" "docker://$(enroot_name "$RSCTL_IMAGE")"' in script
    assert "RSCTL_IMAGE_FILE=/shared/me/images/${RSCTL_IMAGE##*@sha256:}.sqsh ;;" in script
    assert made.image.tag == image


def test_an_image_is_built_for_the_nodes(tmp_path: Path) -> None:
    """As for the clouds: a laptop with an Arm processor would build one that no node can run, under
    the tag that other machines give to theirs.
    """
    image = {"base": "python:3.12", "repository": "example.com/team/train"}
    planned(tmp_path, image=image, slurm={"container": "apptainer"})
    for set_to, platform in ((), "linux/amd64"), (("image.platform=linux/arm64",), "linux/arm64"):
        made = make_submission(load(str(tmp_path / "job.yaml"), set=set_to))
        assert made.recipe is not None
        assert made.recipe.platform == platform
        assert made.placeholders == (Placeholder(("environment", "RSCTL_IMAGE")),)


@pytest.mark.parametrize("slurm", [{}, {"container": "apptainer"}])
def test_an_image_that_is_not_built_has_no_place_in_the_request(
    tmp_path: Path, slurm: dict[str, Any]
) -> None:
    planned(tmp_path, image={"uri": "pytorch/pytorch:2.8.0"}, slurm=slurm)
    assert make_submission(load(str(tmp_path / "job.yaml"))).placeholders == ()


def test_apptainer(tmp_path: Path) -> None:
    """The words of Apptainer's documentation."""
    keys = {"image": {"uri": "pytorch/pytorch:2.8.0"}, "slurm": {"container": "apptainer"}}
    made = planned(tmp_path, workers={"accelerator": "l4:1"}, **keys)
    script = made.request["script"]
    inside = 'apptainer exec --nv --no-home --bind /shared/me "$RSCTL_IMAGE_FILE" python3'
    assert f'    exec srun --cpu-bind=none "${{@:3}}" {inside} "$RSCTL_START" ' in script
    assert 'apptainer pull "$new" "docker://$RSCTL_IMAGE"' in script


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"slurm": {"shared": None}}, "targets.slurm.shared"),
        ({"slurm": {"shared": "/shared/../etc"}}, "targets.slurm.shared"),
        ({"slurm": {"shared": "/shared/my files"}}, "targets.slurm.shared"),
        ({"slurm": {"switches": "two"}}, "targets.slurm.switches"),
        ({"limits": {"timeout": None}}, "limits.timeout"),
        ({"slurm": {"sbatch": ["--partition=x"]}}, "targets.slurm.sbatch[0]"),
        ({"slurm": {"sbatch": ["--nice=1", "-Jx"]}}, "targets.slurm.sbatch[1]"),
        ({"slurm": {"sbatch": ["--outp=x"]}}, "targets.slurm.sbatch[0]"),  # getopt_long takes it
        ({"slurm": {"srun": ["--output=x"]}}, "targets.slurm.srun[0]"),
        ({"slurm": {"srun": ["--kill=0"]}}, "targets.slurm.srun[0]"),
        ({"slurm": {"sbatch": ["--x\n#SBATCH --y"]}}, "targets.slurm.sbatch[0]"),
        ({"slurm": {"setup": ["true\nfalse"]}}, "targets.slurm.setup[0]"),
        ({"slurm": {"connection": "ssh://-oProxyCommand=x"}}, "targets.slurm.connection"),
        ({"slurm": {"container": "pyxis"}}, "targets.slurm.container"),
        # rsctl/train:TAG would be an image of Docker Hub for the nodes.
        ({"slurm": {"container": "pyxis"}, "image": {"base": "python:3.12"}}, "image.repository"),
    ],
)
def test_what_is_refused(tmp_path: Path, keys: dict[str, Any], path: str) -> None:
    """Each with its key."""
    assert path in refused(tmp_path, **keys)


@pytest.mark.parametrize(
    ("keys", "is_noted"),
    [
        ({}, True),
        ({"slurm": {"gpu_type": "a100"}}, False),
        ({"slurm": {"partition": "gpu"}}, False),
        ({"slurm": {"sbatch": ["--nodelist=n[1-2]"]}}, False),
        ({"workers": {"machine": "nvlink"}}, False),
        ({"workers": {"accelerator": None}}, False),
    ],
)
def test_the_name_of_gpus_that_slurm_does_not_get(
    tmp_path: Path, keys: dict[str, Any], is_noted: bool
) -> None:
    """Slurm gives any GPUs unless an option of the job says otherwise."""
    workers = {"accelerator": "a100:8", **keys.pop("workers", {})}
    found = planned(tmp_path, workers=workers, **keys).findings
    assert [f.path for f in found if f.code == "accelerator"] == ["workers.accelerator"] * is_noted


def test_all_of_the_memory_of_the_nodes(tmp_path: Path) -> None:
    """--mem=0, which many clusters need beside --exclusive; the option has no other key."""
    script = planned(tmp_path, slurm={"memory": "all"}).request["script"]
    assert "#SBATCH --mem=0M\n" in script
    assert rest_job.submission(script, {}, "/")["job"]["memory_per_node"]["number"] == 0


def test_the_request_of_slurmrestd(tmp_path: Path) -> None:
    """The same options as fields of the API, which reads no #SBATCH line."""
    made = planned(
        tmp_path,
        workers={"accelerator": "l4:2"},
        reducers={"count": 1},
        slurm={"memory": "1GiB", "exclude": "n[1,3],m2", "switches": "2", "partition": "gpu"},
    )
    body = rest_job.submission(made.request["script"], {"A": "1"}, "/")
    number = {"set": True, "infinite": False}
    common = {
        "name": RUN,
        "comment": f"rsctl:{RUN}",
        "requeue": False,
        "time_limit": {**number, "number": 120},
        "tasks_per_node": 1,
        "shared": ["none"],
        "partition": "gpu",
        "excluded_nodes": ["n[1,3]", "m2"],
        "memory_per_node": {**number, "number": 1024},
        "current_working_directory": "/",
        "environment": [f"PATH={rest_job._PATH}", "A=1"],
    }
    workers = {
        **common,
        "standard_output": f"/shared/me/{RUN}.batch.log",
        "open_mode": ["APPEND"],
        "kill_warning_signal": "USR1",
        "kill_warning_delay": {**number, "number": 120},
        "kill_warning_flags": ["BATCH_JOB"],
        "nodes": "2",
        "tres_per_node": "gres/gpu:2",
        "required_switches": {**number, "number": 2},
    }
    assert body == {"script": made.request["script"], "jobs": [workers, {**common, "nodes": "1"}]}


def test_generic_resources_by_slurmrestd() -> None:
    """Of the local disk beside the GPUs."""
    script = "#!/bin/bash\n#SBATCH --gpus-per-node=a100:4\n#SBATCH --gres=nvme:100,shm\n"
    body = rest_job.submission(script, {}, "/")
    assert body["job"]["tres_per_node"] == "gres/gpu:a100:4,gres/nvme:100,gres/shm"


def test_a_source_that_no_batch_script_can_have_is_an_error_of_the_plan(tmp_path: Path) -> None:
    """Text packs well, and weights do not."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "log.txt").write_text("step 1 loss 0.5\n" * 500_000)
    assert planned(tmp_path).request
    (tmp_path / "source" / "weights.pt").write_bytes(random.Random(0).randbytes(3 << 20))
    assert refused(tmp_path) == {
        "image.source": "the source is more than 3 MiB when it is packed, and a batch script can "
        "have 3 MiB of it"
    }


def test_slurmrestd_has_no_field_for_an_option(tmp_path: Path) -> None:
    """It is an error, and not left out."""
    script = planned(tmp_path, slurm={"sbatch": ["--spread-job"]}).request["script"]
    with pytest.raises(RsctlError, match="no field for the option '--spread-job'"):
        rest_job.submission(script, {}, "/")


@pytest.mark.parametrize("connection", ["http://localhost:6820", "vertex://p/us-central1/c"])
def test_a_plan_for_slurmrestd_has_the_error_of_the_option(tmp_path: Path, connection: str) -> None:
    """The submission would have built and pushed an image before it."""
    slurm = {"connection": connection, "sbatch": ["--nice=1", "--begin=noon"]}
    found = refused(tmp_path, slurm=slurm)
    assert "'--begin=noon'" in found["targets.slurm.sbatch"]
    [(path, message)] = refused(tmp_path, slurm={**slurm, "sbatch": [], "switches": "1@60"}).items()
    assert path == "targets.slurm.switches"
    assert "only a count, without @TIME" in message
    assert planned(tmp_path, slurm={**slurm, "connection": "local"}).request


def test_a_job_array_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Whatever its size: each cell of a bench is a job of its own."""
    for option in ("--array=0-3", "-a0-100000"):
        [(path, message)] = refused(tmp_path, slurm={"sbatch": [option]}).items()
        assert path == "targets.slurm.sbatch[0]"
        assert message.startswith("the cells of a bench are jobs of their own, and not a job array")


FAKE_IMPORTER = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
[ -z "$FAILS" ] || exit 1
for word in "$@"; do
    case $word in *.sqsh|*.sif) echo image >"$word" ;; esac
done
"""


@pytest.mark.parametrize(
    ("container", "uri", "suffix", "command"),
    [
        ("pyxis", "example.com:5000/t/x:v1@sha256:" + "0" * 64, "sqsh", "enroot import --output "),
        ("apptainer", "example.com/t/x@sha256:" + "0" * 64, "sif", "apptainer pull "),
    ],
)
def test_an_image_is_converted_once(
    tmp_path: Path, container: str, uri: str, suffix: str, command: str
) -> None:
    """By its digest, for all runs; a conversion that fails leaves no file."""
    shared, programs = tmp_path / "shared", tmp_path / "bin"
    programs.mkdir()
    for name in ("enroot", "apptainer"):
        (programs / name).write_text(FAKE_IMPORTER)
        (programs / name).chmod(0o755)
    slurm = {"container": container, "shared": str(shared)}
    script = planned(tmp_path, image={"uri": uri}, slurm=slurm).request["script"]
    prepare_image = script[script.index("\nset -u\n") : script.index("\nstart_probe() {")]
    functions = script[script.index("\nnote() {") : script.index("\n# One job runs")]
    calls, states = tmp_path / "calls", shared / RUN / "states"
    states.parent.mkdir(parents=True)

    def run(fails: str = "") -> str:
        program = f"{prepare_image}\n{functions}\nset_up && cat $RSCTL_IMAGE_FILE"
        env = {"PATH": f"{programs}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "RSCTL_IMAGE": uri}
        env |= {"CALLS": str(calls), "FAILS": fails}
        done = subprocess.run(["bash", "-c", program], env=env, capture_output=True, text=True)
        return done.stdout

    assert run(fails="1") == ""
    assert f" ended 3 cannot convert image {uri} on " in states.read_text()
    assert list((shared / "images").iterdir()) == []
    assert [run(), run()] == ["image\n"] * 2
    [first, second] = calls.read_text().splitlines()
    assert first == second
    file = shared / "images" / f"{'0' * 64}.{suffix}"
    shown = uri
    if container == "pyxis":  # src/docker.sh of enroot 3 reads a digest in the place of the tag
        shown = "example.com:5000#t/x:sha256:" + "0" * 64
    assert second == f"{command}{file}.7.{suffix} docker://{shown}"
    assert list((shared / "images").iterdir()) == [file]


def set_up(folder: Path, setup: list[str], then: str) -> str:
    """What bash prints for the lines of `setup` and a line after them."""
    script = planned(folder, slurm={"setup": setup}).request["script"]
    function = script[script.index("\nset_up() {") : script.index("\nstart_probe() {")]
    runtime = script[script.index("\nsetup_lines() {") : script.index("\n# One job runs")]
    program = f"{runtime}\n{function}\nset_up\n{then}"
    command = ["bash", "-uc", program]
    done = subprocess.run(command, cwd=folder, stdout=-1, stderr=-2, text=True, check=False)
    return done.stdout


@pytest.mark.parametrize(("owner", "code"), [("", 0), ("0", 0), ("4711", 3)])
def test_a_run_in_another_users_folder_does_not_start(
    tmp_path: Path, owner: str, code: int
) -> None:
    """A queue shows the names of runs, and everyone can write to some shared folders."""
    script = planned(tmp_path, slurm={"shared": str(tmp_path)}).request["script"]
    head = script[script.index("\nset -u\n") : script.index("\nset_up() {")]
    functions = script[script.index("\nnote() {") : script.index("\nunpack() {")]
    stat = f"stat() {{ echo {owner}; }}" if owner else ""
    (tmp_path / f"{RUN}.batch.log").touch(0o644)
    done = subprocess.run(
        ["bash", "-c", f"{head}\n{functions}\n{stat}\nclaim"],
        env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("belongs to another user" in done.stderr) == bool(code)
    assert (tmp_path / RUN / "states").exists() == (code == 0)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{RUN}*")}
    if code == 0:
        assert modes == {RUN: 0o700, f"{RUN}.batch.log": 0o600}


def test_options_of_slurms_commands_end_with_the_start_files(tmp_path: Path) -> None:
    """~/.bash_profile may hide the job's steps from squeue, or have scancel ask a question; sbatch
    --export=NONE, which some clusters set, has srun start tasks without an environment.
    """
    names = ("SQUEUE_STATES", "SCANCEL_INTERACTIVE", "SINFO_STATES", "SLURM_EXPORT_ENV")
    script = planned(tmp_path).request["script"]
    head = script[script.index("# Everything below") : script.index("\nnote() {")]
    done = subprocess.run(
        ["bash", "-uc", f"{head}\nenv | grep -E '=mine$'"],
        env={
            "PATH": "/usr/bin:/bin",
            **dict.fromkeys((*names, "SLURM_LABELIO", "SLURM_JOB_ID"), "mine"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("SLURM_JOB_ID=mine\n", "")


def test_each_run_has_its_own_copies(tmp_path: Path) -> None:
    """A node's disk outlives its jobs, and a later run must not find the data of an earlier one."""
    made = planned(tmp_path, inputs={"train": {"uri": "/bin/sh", "mode": "copy"}})
    path = f"/var/tmp/rsctl-{RUN}/train/sh"
    assert [each.path for each in made.inputs] == [path]
    assert f"export RSCTL_INPUT_TRAIN={path}\n" in made.request["script"]
    assert "--copy train=/bin/sh" in made.request["script"]


def test_options_of_the_shell_that_setup_sets_end_with_it(tmp_path: Path) -> None:
    """People begin scripts with `set -euo pipefail`; the rest of the batch script is not theirs."""
    setup = ["set -euo pipefail", "export WORD=kept"]
    then = "false\nyes | head -n 1\necho $? $WORD"
    assert set_up(tmp_path, setup, then) == "y\n0 kept\n"


def test_a_statement_of_setup_may_have_several_lines(tmp_path: Path) -> None:
    setup = [
        *("if true; then", "  echo then", "fi", "say() {", "  echo said $1", "}", "say \\", "this"),
        *(
            "cat <<END",
            "$((1 + 1)) lines",
            "END",
            "text='of two",
            "lines'",
            "printf '%s\\n' \"$text\"",
        ),
    ]
    shown = "then\nsaid this\n2 lines\nof two\nlines\nend\n"
    assert set_up(tmp_path, setup, "echo end") == shown


def test_a_script_that_setup_sources_gets_no_arguments(tmp_path: Path) -> None:
    """conda's bin/activate passes its arguments on: the shell's own, if it is sourced without."""
    (tmp_path / "activate").write_text('echo "$#: $*"\n')
    setup = [". ./activate", ". ./activate training"]
    assert set_up(tmp_path, setup, "") == "0: \n1: training\n"


@pytest.mark.parametrize(
    ("setup", "shown"),
    [
        (["(exit 7)", "echo never"], "exit code 7: (exit 7)\n"),
        (["for i in 1; do", "false", "done"], "exit code 1: for i in 1; do\nfalse\ndone\n"),
        (["if true; then", "echo never"], "exit code 2: if true; then\necho never\n"),
    ],
)
def test_a_statement_of_setup_that_fails_is_shown(
    setup: list[str], shown: str, tmp_path: Path
) -> None:
    out = set_up(tmp_path, setup, "")
    assert out.endswith(f"rsctl: targets.slurm.setup: {shown}")
    assert not out.startswith("never")


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("ubuntu:24.04", "ubuntu:24.04"),
        ("pytorch/pytorch:2.8.0", "pytorch/pytorch:2.8.0"),
        ("nvcr.io/nvidia/pytorch:25.06-py3", "nvcr.io#nvidia/pytorch:25.06-py3"),
        ("localhost/x", "localhost#x"),
        ("host:5000/x@sha256:ab", "host:5000#x:sha256:ab"),
        ("host:5000/x:1@sha256:ab", "host:5000#x:sha256:ab"),
        ("team/x@sha256:ab", "team/x:sha256:ab"),
    ],
)
def test_names_of_images_for_enroot(image: str, name: str) -> None:
    """docker://[REGISTRY#]IMAGE[:TAG], in which a digest stands for the tag."""
    program = f"{ENROOT_NAME}\nenroot_name {image}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{name}\n"


def test_hyperpod_resumes_the_workers_step(tmp_path: Path) -> None:
    """By --auto-resume=1 of srun, which other clusters do not have; Slurm does not requeue it."""
    keys = {"checkpoints": "/shared/me/c", "reducers": {"count": 1}}
    made = planned(tmp_path, **keys, slurm={"auto_resume": True})
    script = made.request["script"]
    assert "[ ! -d /opt/sagemaker_cluster ] || RSCTL_HYPERPOD=(--auto-resume=1)\n" in script
    assert (
        'exec srun --cpu-bind=none "${RSCTL_HYPERPOD[@]}" "${@:3}" python3 "$RSCTL_START" '
        in script
    )
    assert script.count('"${RSCTL_HYPERPOD[@]}"') == 1
    assert "#SBATCH --no-requeue\n" in script


def test_the_script_of_a_plan_is_whole(tmp_path: Path, command_server: Path) -> None:
    """`plan -o script` prints it with its package, and bash accepts it."""
    planned(tmp_path)
    done = command_forks.run(command_server, "plan", "job.yaml", "-o", "script", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "@package-sha256:" not in done.out
    checked = subprocess.run(["bash", "-n"], input=done.out, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    start = done.out.index("cat <<'END-OF-PACKAGE'\n")
    package = done.out[start:].partition("\n")[2].partition("\nEND-OF-PACKAGE")[0]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(package))) as files:
        names = files.getnames()
    assert "source/train.py" in names
    assert "runtime/rsctl/node/launch.py" in names


def test_a_file_that_changes_after_the_plan_is_not_sent(tmp_path: Path) -> None:
    planned(tmp_path)
    (tmp_path / "source" / "gone.py").touch()
    submission = make_submission(str(tmp_path / "job.yaml"))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed(submission)))) as tar:
        assert tar.getmember("source/train.py").size == 0
    (tmp_path / "source" / "train.py").write_text("later")
    (tmp_path / "source" / "gone.py").unlink()
    text = "files changed while the job was being submitted: "
    with pytest.raises(RsctlError, match=f"{text}gone.py"):
        packed(submission)
    (tmp_path / "source" / "gone.py").touch()
    with pytest.raises(RsctlError, match=f"{text}train.py"):
        packed(submission)
