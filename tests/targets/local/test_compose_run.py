"""Target compose on a real Docker engine. The base image is what `.ci/test-base` makes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.kit.docker import needs_docker
from tests.kit.packages import DDP_SCRIPT

from ..conftest import Rsctl

BASE = {"image": {"base": "rsctl-test-base:1"}}
FOREVER = "echo up; while true; do sleep 0.1; done"
REPOSITORY = Path(__file__).parents[3]


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


pytestmark = needs_docker


def leftovers(run: str) -> str:
    """Containers and networks of a run, in any state."""
    label = f"label=com.docker.compose.project=rsctl-{run}"
    return docker("ps", "-aq", "--filter", label) + docker("network", "ls", "-q", "--filter", label)


def test_the_quickstart(rsctl: Rsctl) -> None:
    job = REPOSITORY / "examples" / "quickstart" / "job.yaml"
    # The next test has two workers, each of which imports torch twice: 6 s of processor.
    few = ("--set", "workers.count=1", "--set", "run.args.epochs=5")
    done = rsctl(
        *("submit", str(job), "-t", "compose", *few, "-o", "json"), RSCTL_BASE="rsctl-test-base:1"
    )
    assert done.exit_code == 0, done.stderr
    assert done.result["metrics"]["accuracy"]["best"] > 0.95
    run = done.result["run"]
    assert (rsctl.home / "runs" / run / "outputs" / "model.pt").stat().st_size > 1000
    assert leftovers(run) == ""


def test_a_script_over_reducers_on_a_shaped_network(rsctl: Rsctl) -> None:
    (rsctl.folder / "source").mkdir()
    shutil.copy(DDP_SCRIPT, rsctl.folder / "source" / "train.py")
    job = rsctl.write_job(
        run={"script": "train.py"},
        workers={"count": 2},
        reducers={"count": 2},
        targets={"compose": {"network": {"bandwidth": "200Mbit"}}},
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", "-o", "json")
    assert done.exit_code == 0, done.stderr
    lines = [event["text"] for event in done.events if event["type"] == "log"]
    [how] = [line for line in lines if "2 workers, 2 reducers sum all of it, " in line]
    assert ", TLS, " not in how
    travel = rsctl.status(done.result["run"])["gradients"]
    assert travel["operations"] == 8
    assert travel["link_gbps"] == 0.2
    assert travel["ring_seconds"] > 0
    assert leftovers(done.result["run"]) == ""


def test_replicas_have_their_names_and_soon_done_ones_do_not_hold_up_the_rest(rsctl: Rsctl) -> None:
    script = 'echo "$RSCTL_REPLICA $(hostname) $RSCTL_ATTEMPT $PWD $A"'
    job = rsctl.write_job(bash=script, workers={"count": 2}, **BASE)
    done = rsctl("submit", job, "-t", "compose", "--set", "run.env.A=costs $5 and $HOME")
    assert sorted(done.stdout.splitlines()) == [
        "worker-0 | worker-0 worker-0 1 /app costs $5 and $HOME",
        "worker-1 | worker-1 worker-1 1 /app costs $5 and $HOME",
    ]


def test_compose_reads_no_variables_of_the_users_own_projects(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="echo up", **BASE)
    done = rsctl("submit", job, "-t", "compose", COMPOSE_ENV_FILES=".env.local")
    assert (done.exit_code, done.stdout) == (0, "worker-0 | up\n"), done.stderr


def test_what_is_planned_is_what_is_written(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="true", targets={"compose": {"cpus": 1, "memory": "512MB"}}, **BASE)
    assert rsctl("submit", job, "-t", "compose").exit_code == 0
    run = rsctl.status("@last")["run"]
    planned = rsctl("plan", job, "-t", "compose", "--run-id", run, "-o", "json").stdout
    written = (rsctl.home / "runs" / run / "compose.yaml").read_text()
    assert yaml.safe_load(written) == yaml.safe_load(planned)["request"]["compose"]


def test_a_secret_reaches_the_container_and_no_file(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        run={
            "command": ["bash", "-c", "test $(printenv API_KEY | wc -c) = 13 && echo got it"],
            "launcher": "once",
            "env": {"API_KEY": "${MY_KEY}"},
        },
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", MY_KEY="s3cr3t-value")
    assert (done.exit_code, done.stdout) == (0, "worker-0 | got it\n"), done.stderr
    for path in rsctl.home.rglob("*"):
        if path.is_file():
            assert b"s3cr3t-value" not in path.read_bytes(), path


def test_the_jobs_variables_do_not_redirect_docker(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        run={
            "command": ["bash", "-c", 'echo "$DOCKER_HOST $A"'],
            "launcher": "none",
            "env": {"DOCKER_HOST": "${MY_HOST}", "A": "${MY_TEXT}"},
        },
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", MY_HOST="tcp://127.0.0.1:1", MY_TEXT="$5 ${HOME}")
    assert (done.exit_code, done.stdout) == (
        0,
        "worker-0 | tcp://127.0.0.1:1 $5 ${HOME}\n",
    ), done.stderr


def test_a_killed_container_is_the_first_failure(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash=FOREVER, workers={"count": 2}, **BASE)
    run = rsctl.detach(job, "-t", "compose")
    rsctl.wait_for_log(run, "worker-1 | up")
    docker("kill", f"rsctl-{run}-worker-1")
    assert rsctl("status", run, "--watch").exit_code == 1
    after = rsctl.status(run)
    found = after["first_failure"]
    assert (found["replica"], found["exit_code"]) == ("worker-1", 137)
    assert [cause["message"] for cause in found["causes"]] == [
        "its container was ended through docker (docker kill); it did not fail itself"
    ]
    [worker] = [r["reason"] for r in after["replicas"] if r["replica"] == "worker-1"]
    assert worker == "ended through docker: docker kill"
    assert leftovers(run) == ""


@pytest.mark.parametrize("command", [("stop",), ("rm", "--force")])
def test_who_else_ended_a_container_is_reported(rsctl: Rsctl, command: tuple[str, ...]) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, **BASE), "-t", "compose")
    rsctl.wait_for_log(run, "worker-0 | up")
    docker(*command, f"rsctl-{run}-worker-0")
    assert rsctl("status", run, "--watch").exit_code == 1
    reported = f"through docker (docker {command[0]}); it did not fail itself"
    [cause] = rsctl.status(run)["first_failure"]["causes"]
    assert cause["message"].endswith(reported)


def test_a_job_that_gets_over_the_loss_of_a_process_to_the_kernel_has_succeeded(
    rsctl: Rsctl,
) -> None:
    job = rsctl.write_job(
        run={
            "command": ["bash", "-c", "python -c 'x = bytearray(200_000_000)' || echo lost it"],
            "launcher": "none",
        },
        targets={"compose": {"memory": "64MB"}},
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", "-o", "json")
    assert done.exit_code == 0, done.stderr
    [worker] = rsctl.status("@last")["replicas"]
    assert (worker["state"], worker["exit_code"], worker["reason"]) == (
        "succeeded",
        0,
        "out of memory: the kernel killed one of its processes",
    )


def test_another_terminal_can_watch_and_cancel(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash=FOREVER, **BASE)
    cli = rsctl.start("submit", job, "-t", "compose")
    assert cli.stdout is not None
    assert cli.stdout.readline() == "worker-0 | up\n"
    cli.kill()
    run = rsctl.status("@last")["run"]
    assert rsctl.log(run) == "worker-0 | up\n"
    assert rsctl("cancel", run).exit_code == 0
    assert rsctl.status(run)["state"] == "cancelled"
    assert leftovers(run) == ""


def test_a_killed_supervisor_leaves_no_container(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, **BASE), "-t", "compose")
    rsctl.wait_for_log(run, "up")
    os.kill(rsctl.supervisor(run), signal.SIGKILL)
    assert leftovers(run) != ""
    (rsctl.folder / ".env").write_text("source ~/.bashrc\n")  # it is not for compose
    rsctl("cancel", run)
    assert leftovers(run) == ""
    assert rsctl.status(run)["state"] == "failed"


def test_out_of_memory_is_said(rsctl: Rsctl) -> None:
    hungry = ["python", "-c", "x = bytearray(200_000_000)"]
    job = rsctl.write_job(
        run={"command": hungry, "launcher": "none"},
        targets={"compose": {"memory": "64MB"}},
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", "-o", "json")
    assert done.exit_code == 1
    assert done.result["first_failure"]["exit_code"] == 137
    reasons = [e["reason"] for e in done.events if e.get("replica") and e.get("reason")]
    assert reasons == ["out of memory"]
    [cause] = done.result["first_failure"]["causes"]
    assert (cause["code"], cause["message"]) == (
        "memory",
        "out of memory: it was killed by SIGKILL, and the kernel killed processes there because "
        "memory was exhausted",
    )


def test_an_image_that_is_not_there(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="true", image={"uri": "localhost:1/no/such:image"})
    text = (rsctl.folder / job).read_text().replace("  source: source\n", "")
    (rsctl.folder / job).write_text(text)
    done = rsctl("submit", job, "-t", "compose")
    assert done.exit_code == 1
    assert "localhost:1/no/such:image" in done.stderr or "connection refused" in done.stderr
    assert leftovers(rsctl.status("@last")["run"]) == ""


def test_the_network_is_as_slow_as_asked_for(rsctl: Rsctl) -> None:
    """Three megabytes at 8 Mbit/s take three seconds; the loopback would take none."""
    source = rsctl.folder / "source"
    source.mkdir()
    (source / "send.py").write_text(
        "import os, socket, time\n"
        "if os.environ['RSCTL_REPLICA'] == 'worker-0':\n"
        "    server = socket.create_server(('', 4000))\n"
        "    peer, _ = server.accept()\n"
        "    first = peer.recv(65536)\n"
        "    start, got = time.monotonic(), len(first)\n"
        "    while got < 3_000_000:\n"
        "        got += len(peer.recv(65536))\n"
        "    print(f'mbit={got * 8 / 1e6 / (time.monotonic() - start):.1f}')\n"
        "    peer.sendall(b'done')\n"
        "else:\n"
        "    while True:\n"
        "        try:\n"
        "            peer = socket.create_connection(('worker-0', 4000))\n"
        "            break\n"
        "        except ConnectionRefusedError:\n"
        "            time.sleep(0.05)\n"
        "    peer.sendall(bytes(3_000_000))\n"
        "    peer.recv(4)\n"
    )
    job = rsctl.write_job(
        run={"script": "send.py", "launcher": "once"},
        workers={"count": 2},
        targets={"compose": {"network": {"bandwidth": "8Mbit"}}},
        metrics={"mbit": {"regex": "mbit=([0-9.]+)"}},
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert 1 < done.result["metrics"]["mbit"]["last"] < 9


def test_files_that_go_with_the_container_are_warned_of(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="echo 1 > model.pt; echo 1 > $RSCTL_OUTPUT_DIR/kept", **BASE)
    done = rsctl("submit", job, "-t", "compose")
    assert done.exit_code == 0, done.stderr
    assert "warning: files in /app are lost with the container: model.pt" in done.stderr


def test_inputs_are_copied_to_this_machine_and_mounted(rsctl: Rsctl) -> None:
    data = rsctl.folder / "data"
    data.mkdir()
    for number in range(3):
        (data / f"t-{number}.tar").write_text(f"shard {number}\n")
    job = rsctl.write_job(
        bash="xargs cat < $RSCTL_INPUT_TRAIN_SHARDS; cat $RSCTL_INPUT_ALL/t-2.tar",
        workers={"count": 2},
        inputs={
            "train": {"uri": {"local": "data/t-{0..2}.tar"}, "mode": "copy"},
            "all": {"uri": "data", "mode": "copy"},
        },
        **BASE,
    )
    done = rsctl("submit", job, "-t", "compose", "-o", "json")
    assert done.exit_code == 0, done.stderr
    log = [f"{e['replica']} {e['text']}" for e in done.events if e["type"] == "log"]
    assert sorted(line for line in log if " shard " in line) == [
        *("worker-0 shard 0", "worker-0 shard 2", "worker-0 shard 2"),
        *("worker-1 shard 1", "worker-1 shard 2"),
    ]
    assert done.result["metrics"]["input.all.bytes"]["last"] == 24
