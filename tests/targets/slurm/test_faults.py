"""What goes wrong on a cluster, on real daemons: lost answers, restarts, requeues, lost nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.polling import DEADLINE_SECONDS, wait_until
from tests.kit.slurm_cluster import SlurmCluster, needs_slurm, slurm_cluster
from tests.targets.conftest import Rsctl

pytestmark = needs_slurm()

Submit = Callable[..., str]


@pytest.fixture(scope="module")
def forgetful() -> Iterator[SlurmCluster]:
    """A cluster that forgets a job two seconds after its end."""
    with slurm_cluster(MIN_JOB_AGE="2", SLURMD_TIMEOUT="120") as cluster:
        yield cluster


@pytest.fixture
def keys(
    forgetful: SlurmCluster, rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """The keys of a job on that cluster, whose commands are those of this machine."""
    for name, value in forgetful.environ.items():
        monkeypatch.setenv(name, value)
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}

    def make(bash: str | None, **more: Any) -> dict[str, Any]:
        options = {"shared": str(forgetful.shared), "setup": forgetful.setup}
        options |= more.pop("slurm", {})
        limits = more.pop("limits", {"timeout": "10m"})
        return {
            "bash": bash,
            "target": "slurm",
            "limits": limits,
            "targets": {"slurm": options},
            **more,
        }

    return make


Keys = Callable[..., dict[str, Any]]


def states(cluster: SlurmCluster, run: str) -> list[str]:
    """The file `states` of a run, without times."""
    file = cluster.shared / run / "states"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.split(" ", 1)[1] for line in lines]


def job_of(rsctl: Rsctl, run: str) -> str:
    """The job's ID, from the run's URL."""
    return str(rsctl.status(run)["url"]).split("/")[4]


def start_again(cluster: SlurmCluster, job: str) -> None:
    """Start a requeued job, which Slurm holds back for two minutes. A node refuses a credential of
    the second in which it ended the job ("Job credential revoked").
    """
    cluster.run("scontrol", "update", f"jobid={job}", "starttime=now+2seconds")


def replaced(cluster: SlurmCluster, command: str, script: str) -> Path:
    """Put a script in the place of a command; {real} is the command itself."""
    path = cluster.commands / command
    real = cluster.commands / f"{command}.real"
    if not real.exists():
        # The name of the command in the container is in its text.
        real.write_bytes(path.read_bytes())
        real.chmod(0o755)
    path.write_text(script.format(real=real))
    path.chmod(0o755)
    return path


@pytest.fixture
def restored(forgetful: SlurmCluster) -> Iterator[None]:
    yield
    for real in forgetful.commands.glob("*.real"):
        real.rename(real.with_suffix(""))


def test_a_lost_answer_finds_the_job(
    rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster, restored: None
) -> None:
    """sbatch submits and then fails: there is one job, and it is followed."""
    replaced(
        forgetful,
        "sbatch",
        '#!/bin/sh\n{real} "$@" >/dev/null\n'
        "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2\n"
        "exit 1\n",
    )
    before = len(forgetful.jobs())
    done = rsctl("submit", rsctl.write_job(**keys("echo once")), "-o", "json")
    assert done.exit_code == 0, done.stderr
    texts = [e["text"] for e in done.events if e["type"] == "log"]
    assert [text for text in texts if "rsctl" not in text] == ["once"]
    assert len(forgetful.jobs()) <= before + 1


def test_a_rank_has_the_processors_of_its_node_and_the_resources_of_the_job(
    rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster
) -> None:
    """The cluster binds each task to one core, and a task starts all ranks of its node."""
    asked = r"scontrol show job -o $SLURM_JOB_ID | grep -o 'TresPerNode=[^ ]*'"
    more = {"slurm": {"sbatch": ["--gres=nvme:20"]}}
    done = rsctl("submit", rsctl.write_job(**keys(f"nproc; {asked}", **more)), "-o", "json")
    assert done.exit_code == 0, done.stderr
    texts = [e["text"] for e in done.events if e["type"] == "log"]
    assert forgetful.run("nproc").strip() in texts
    assert "TresPerNode=gres/nvme:20" in texts


def test_a_second_job_of_a_run_ends(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """The script is submitted by hand while its job runs: the second job leaves it alone."""
    marker = forgetful.shared / "second-has-ended"
    file = rsctl.write_job(
        **keys(f"echo begun; until [ -e {marker} ]; do sleep 0.1; done; echo ended")
    )
    run = rsctl.detach(file)
    rsctl.wait_for_log(run, "begun")
    script = rsctl.look("plan", file, "-o", "script", "--run-id", run).stdout
    second = forgetful.run("sbatch", "--parsable", user="me", text=script).strip()
    log = forgetful.shared / f"{run}.batch.log"
    ending = f"runs {run}; this one, trial/{second}, ends"
    wait_until(lambda: ending in log.read_text(), "the second job's end", seconds=120)
    marker.touch()
    done = rsctl("logs", "--follow", run)
    assert done.exit_code == 0
    *lines, told = sorted(done.stdout.splitlines(), key=lambda line: "rsctl: " in line)
    assert lines == ["worker-0 | begun", "worker-0 | ended"]
    assert told.endswith(ending)
    assert [line.split()[0] for line in states(forgetful, run)] == ["started", "running", "ended"]


def test_a_job_that_slurm_has_forgotten(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """MinJobAge after its end only the job's own folder knows how it ended."""
    run = rsctl.detach(rsctl.write_job(**keys("echo begun; exit 7")))
    wait_until(lambda: any(line.startswith("ended") for line in states(forgetful, run)), "the end")
    wait_until(lambda: not any(run in job for job in forgetful.jobs()), "Slurm to forget the job")
    status = rsctl.status(run)
    assert (status["state"], status["exit_code"]) == ("failed", 1)
    assert status["first_failure"]["exit_code"] == 7
    assert rsctl.log(run).splitlines()[0] == "worker-0 | begun"


def test_a_restart_of_the_controller(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """slurmctld is killed while a job runs, and comes back: nothing of the job is lost.

    It saves a job's state up to five seconds later, and ends a job that it has saved as pending.
    """
    script = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 1; done"
    run = rsctl.detach(rsctl.write_job(**keys(script)))
    rsctl.wait_for_log(run, "line 1")
    states = str(forgetful.shared / run / "states")
    saved = ("find", "/var/spool/ctld/job_state", "-newer", states)
    wait_until(lambda: bool(forgetful.run(*saved)), "the controller's record of the job")
    following = rsctl.start("logs", "--follow", run)
    forgetful.control("restart-controller")
    output, _ = following.communicate(timeout=DEADLINE_SECONDS)
    assert output.splitlines() == [f"worker-0 | line {number}" for number in range(1, 9)]
    assert rsctl.status(run)["state"] == "succeeded"


def test_a_requeue_by_an_administrator(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """The job starts again with another epoch; its log has both starts, each line once."""
    script = 'echo attempt $RSCTL_ATTEMPT; [ "$RSCTL_ATTEMPT" = 1 ] || sleep 600'
    run = rsctl.detach(rsctl.write_job(**keys(script, slurm={"requeue": "yes"})))
    rsctl.wait_for_log(run, "attempt 0")
    job = job_of(rsctl, run)
    forgetful.run("scontrol", "requeue", job)
    wait_until(lambda: f"{job} PENDING {run}" in forgetful.jobs(), "the requeue")
    start_again(forgetful, job)
    done = rsctl("logs", "--follow", run)
    status = rsctl.status(run)
    assert (status["state"], status["attempt"]) == ("succeeded", 2), (done, status)
    lines = [line for line in done.stdout.splitlines() if "attempt" in line]
    assert lines == ["worker-0 | attempt 0", "worker-0 | attempt 1"], (done, status)


def test_a_soft_stop(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """What Slurm sends to the batch script before the time limit reaches the job as SIGTERM."""
    script = "trap 'echo saved; exit 9' TERM; echo begun; while :; do sleep 0.2; done"
    run = rsctl.detach(rsctl.write_job(**keys(script)))
    rsctl.wait_for_log(run, "begun")
    forgetful.run("scancel", "--batch", "--signal=USR1", job_of(rsctl, run))
    done = rsctl("logs", "--follow", run)
    assert "worker-0 | saved" in done.stdout.splitlines()
    status = rsctl.status(run)
    assert (status["state"], status["exit_code"]) == ("expired", 6)


TRAINING = """
import os, pathlib, time
from rsctl.node import should_stop
kept = pathlib.Path(os.environ["RSCTL_CHECKPOINT_DIR"], "step")
step = int(kept.read_text()) if kept.exists() else 0
should_stop()
print(f"from step {step}", flush=True)
while step != 50:
    time.sleep(0.1)
    if should_stop():
        time.sleep(1)
        kept.write_text("50")
        print("saved", flush=True)
        break
else:
    print("done", flush=True)
"""


def test_a_preemption(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster, tmp_path: Path) -> None:
    """A job of more urgent users takes the node: the training saves, and resumes when the node is
    free again.
    """
    kept = forgetful.shared / "kept"
    kept.mkdir(mode=0o777)
    kept.chmod(0o777)
    command = {"command": ["python3", "-c", TRAINING], "launcher": "once"}
    file = rsctl.write_job(
        **{**keys(None, workers={"count": 4}), "run": command, "checkpoints": str(kept)}
    )
    run = rsctl.detach(file)
    rsctl.wait_for_log(run, "worker-0 | from step 0")
    urgent = "#!/bin/sh\nsleep 1\n"
    options = ("--partition=urgent", "--exclusive", "--nodes=4", "--chdir=/tmp")
    forgetful.run("sbatch", "--job-name=urgent", *options, user="me", text=urgent)
    rsctl.wait_for_log(run, "worker-0 | saved")
    job = job_of(rsctl, run)
    wait_until(lambda: f"{job} PENDING {run}" in forgetful.jobs(), "the requeue")
    ended = ("COMPLETED urgent", "FAILED urgent")
    wait_until(
        lambda: not any(j.endswith(" urgent") and not j.endswith(ended) for j in forgetful.jobs()),
        "the end of the urgent job",
    )
    start_again(forgetful, job)
    rsctl.wait_for_log(run, "worker-0 | done")
    # Slurm 24.11 starts the job once more, although it has ended with 0.
    wait_until(lambda: f"{job} RUNNING {run}" not in forgetful.jobs(), "the end of the resumed job")
    if f"{job} PENDING {run}" in forgetful.jobs():
        start_again(forgetful, job)
    done = rsctl("logs", "--follow", run)
    texts = [line.partition(" | ") for line in done.stdout.splitlines()]
    lines = [text for worker, _, text in texts if worker == "worker-0"]
    own = [line for line in lines if line.startswith(("from", "saved", "done"))]
    assert own == ["from step 0", "saved", "from step 50", "done"]
    status = rsctl.status(run)
    assert status["state"] == "succeeded"
    assert status["attempts"][0]["reason"] == "Slurm has requeued it"


def test_a_node_that_dies(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """A node dies before the job's tasks start. srun notices before Slurm does: the run names the
    node, for the next submission to leave it out.
    """
    is_dead = forgetful.shared / "a-node-is-dead"
    setup = [*forgetful.setup, f"until [ -e {is_dead} ]; do sleep 0.1; done"]
    run = rsctl.detach(
        rsctl.write_job(**keys("true", workers={"count": 2}, slurm={"setup": setup}))
    )
    wait_until(lambda: states(forgetful, run), "the batch script")
    forgetful.control("kill-node", "n1")
    is_dead.touch()
    try:
        wait_until(lambda: "ended" in states(forgetful, run)[-1], "the end of the batch script")
    finally:
        forgetful.control("start-node", "n1")
        idle = "sinfo", "-h", "-N", "-t", "idle", "-o", "%N"
        wait_until(lambda: "n1" in forgetful.run(*idle), "the node's return")
    wait_until(lambda: rsctl.status(run)["state"] == "failed", "the run's end")
    assert rsctl.status(run)["reason"] == "a node failed: n1"


@pytest.mark.parametrize(
    ("slurm", "limits", "text", "remedy"),
    [
        ({"partition": "nowhere"}, {"timeout": "5m"}, "partition", "targets.slurm.partition"),
        ({"constraint": "h100"}, {"timeout": "5m"}, "feature", "targets.slurm.constraint"),
    ],
)
def test_what_slurm_refuses(
    rsctl: Rsctl, keys: Keys, slurm: dict[str, str], limits: dict[str, str], text: str, remedy: str
) -> None:
    """The error names the key and what to do."""
    keys_of_job = keys("true", slurm=slurm, limits=limits)
    done = rsctl("submit", rsctl.write_job(**keys_of_job), "-o", "json")
    findings = [event for event in done.events if event["type"] == "finding"]
    assert done.exit_code == 4, done.stdout
    assert text in findings[0]["message"].lower()
    assert findings[0]["path"] == remedy
    assert findings[0]["remedy"]


def test_a_full_spool(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """slurmctld cannot write the script of a job: the error names whose disk it is."""
    # The controller, which is root, has a file in the place of each folder of scripts.
    block = (
        "for n in 0 1 2 3 4 5 6 7 8 9; do mkdir -p hash.$n; mv hash.$n kept.$n; : >hash.$n; done"
    )
    free = "for n in 0 1 2 3 4 5 6 7 8 9; do rm hash.$n; mv kept.$n hash.$n; done"
    forgetful.run("sh", "-c", f"cd /var/spool/ctld; {block}")
    try:
        done = rsctl("submit", rsctl.write_job(**keys("true")), "-o", "json")
    finally:
        forgetful.run("sh", "-c", f"cd /var/spool/ctld; {free}")
    [finding] = [event for event in done.events if event["type"] == "finding"]
    assert (done.exit_code, finding["code"]) == (4, "spool"), done.stdout
    assert "administrators" in finding["remedy"]


def test_a_token_that_has_expired(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """slurmrestd refuses it: the error says how to get another one."""
    with forgetful.rest() as url:
        file = rsctl.write_job(**keys("true", slurm={"connection": url}))
        done = rsctl("submit", file, "-o", "json", SLURM_JWT=forgetful.expired_token())
    assert done.exit_code == 3, done.stderr
    assert "scontrol token" in done.stdout


def test_a_folder_that_is_not_shared(rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster) -> None:
    """A task that does not see the batch script's folder ends the job before it starts."""
    hide = (
        'export RSCTL_SLURM_SEEN_SECONDS=0; srun() { command srun "$${@/#$RSCTL_LOGS//nowhere}"; }'
    )
    setup = [*forgetful.setup, hide]
    done = rsctl("submit", rsctl.write_job(**keys("true", slurm={"setup": setup})), "-o", "json")
    assert done.exit_code == 1
    assert "which the batch script wrote" in done.stdout


def test_a_node_without_the_shared_folder(
    rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster
) -> None:
    """Its Python cannot open the program that proves the folder: the reason names both."""
    hide = 'srun() { command srun "$${@/#$RSCTL_START//nowhere/rsctl_start.py}"; }'
    setup = [*forgetful.setup, hide]
    file = rsctl.write_job(**keys("true", slurm={"setup": setup, "sbatch": ["--nodelist=n2"]}))
    done = rsctl("submit", file, "-o", "json")
    ended = next(e for e in done.events if e["type"] == "state" and e["state"] == "failed")
    run = rsctl.runs()[-1]["run"]
    folder = f"{forgetful.shared}/{run}"
    why = f"node n2 does not see {folder}: is targets.slurm.shared mounted there?"
    assert ended["reason"] == why, done.stdout
    texts = [e["text"] for e in done.events if e["type"] == "log" and "can't open" in e["text"]]
    assert len(texts) == 1


def test_a_node_without_a_python_for_the_job(
    rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster
) -> None:
    """The nodes have python3-minimal; the node and the remedy are named before a task starts."""
    done = rsctl("submit", rsctl.write_job(**keys("true", slurm={"setup": []})), "-o", "json")
    assert done.exit_code == 1
    assert "/usr/bin/python3 cannot import a module that rsctl's runtime needs" in done.stdout
    assert "load another one in targets.slurm.setup" in done.stdout


def test_a_token_that_expires_while_a_job_runs(
    rsctl: Rsctl, keys: Keys, forgetful: SlurmCluster
) -> None:
    """The command ends with what to do; the job continues, and a new token finds all its lines."""
    refused = forgetful.shared / "the-token-was-refused"
    script = f"echo line 1; until [ -e {refused} ]; do sleep 0.1; done; echo line 2"
    with forgetful.rest() as url:
        rsctl.env["SLURM_JWT"] = forgetful.token()
        run = rsctl.detach(rsctl.write_job(**keys(script, slurm={"connection": url})))
        rsctl.wait_for_log(run, "line 1")
        expired = {"SLURM_JWT": forgetful.expired_token(), "RSCTL_CLOUD_PACE": "0.1"}
        stopped = rsctl("logs", "--follow", run, **expired)
        assert stopped.exit_code == 9, stopped.stderr
        assert "scontrol token lifespan=3600" in stopped.stderr
        refused.touch()
        done = rsctl("logs", "--follow", run)
    assert done.stdout.splitlines() == ["worker-0 | line 1", "worker-0 | line 2"]
    assert rsctl.status(run)["state"] == "succeeded"
