"""`rsctl-launch` as a container's first process and as a replica among processes, without torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rsctl
import rsctl_start
from rsctl.node import rank

Launch = Callable[..., Any]
Script = Callable[[str], str]
Gone = Callable[[int], None]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

ONCE = ("--launcher", "once", "--")
REDUCER = {"role": "reducer", "reducers": ["127.0.0.1"]}

PRINT_ENVIRON = """
import json, os
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES",
         "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
         "PYTHONUNBUFFERED"]
print(json.dumps({name: os.environ.get(name) for name in names}))
"""

WAIT_FOR_STOP = """
import os, signal, sys
def stop(*_):
    print("saved")
    sys.exit(5)
signal.signal(signal.SIGTERM, stop)
print("up", os.getpid())
while True:
    signal.pause()
"""


def test_once_runs_the_command_and_ends_as_it_does(launch: Launch) -> None:
    node = launch(*ONCE, "sh", "-c", "echo out; echo err >&2")
    assert (node.wait(), node.out, node.err) == (0, "out\n", "err\n")


def test_once_tells_nodes_apart_and_sets_no_ranks(launch: Launch, script: Script) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(PRINT_ENVIRON)),
        cluster_fields={"workers": ["127.0.0.1", "localhost"], "index": 1, "interface": "lo"},
        RSCTL_PORT="29511",
        WORLD_SIZE="2",
    )
    assert node.wait() == 0
    assert json.loads(node.out) == {
        "RANK": None,
        "WORLD_SIZE": None,
        "LOCAL_RANK": None,
        "LOCAL_WORLD_SIZE": None,
        "NODE_RANK": "1",
        "NNODES": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29511",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "PYTHONUNBUFFERED": "1",
    }


def test_what_the_user_sets_stays(launch: Launch, script: Script) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(PRINT_ENVIRON)),
        cluster_fields={"interface": "lo"},
        NCCL_SOCKET_IFNAME="^docker0",
        PYTHONUNBUFFERED="0",
    )
    assert node.wait() == 0
    environ = json.loads(node.out)
    assert environ["NCCL_SOCKET_IFNAME"] == "^docker0"
    assert environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert environ["PYTHONUNBUFFERED"] == "0"


def test_an_unknown_interface_is_not_set(launch: Launch, script: Script) -> None:
    node = launch("--launcher", "once", "--python", "--", script(PRINT_ENVIRON))
    assert node.wait() == 0
    assert json.loads(node.out)["GLOO_SOCKET_IFNAME"] is None


def test_the_command_keeps_all_its_arguments(launch: Launch) -> None:
    node = launch("--launcher", "once", "--", "echo", "--launcher", "--", "-x", "--")
    assert (node.wait(), node.out) == (0, "--launcher -- -x --\n")


def test_a_start_imports_only_what_most_launches_need() -> None:
    """Each costs every launch milliseconds of processor."""
    code = (
        "import sys\nfrom rsctl.node.launch import main\n"
        "sys.exit(main(['--launcher', 'once', '--', 'true']) or print('modules', *sys.modules))"
    )
    place = '{"role": "worker", "index": 0, "workers": ["127.0.0.1"], "interface": "lo"}'
    environ = {**os.environ, "RSCTL_CLUSTER": place, "RSCTL_TARGET": "process"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    (modules,) = (line for line in done.stdout.splitlines() if line.startswith("modules "))
    rare = {"importlib.metadata", "concurrent.futures", "logging", "email", "torch"}
    rare |= {"dataclasses", "inspect", "ipaddress", "platform", "subprocess", "rsctl.node.copies"}
    rare |= {"hmac", "secrets"}
    rare |= {"rsctl.node.listener", "rsctl.node.slots"}
    assert rare & set(modules.split()) == set()


def test_python_modules(launch: Launch) -> None:
    node = launch("--launcher", "once", "--python", "--", "-m", "json.tool", "--help")
    assert node.wait() == 0
    assert "json.tool" in node.out


def test_a_failure_is_told_with_the_node_as_rank(launch: Launch) -> None:
    node = launch(
        *ONCE,
        "sh",
        "-c",
        "exit 3",
        cluster_fields={"workers": ["127.0.0.1", "localhost"], "index": 1},
    )
    assert node.wait() == 3
    (line,) = node.lines("exit")
    del line["time"]
    assert line == {"rsctl": "exit", "rank": 1, "local_rank": 0, "code": 3, "signal": None}


def test_a_kill_is_told(launch: Launch, script: Script) -> None:
    node = launch("--launcher", "once", "--python", "--", script(WAIT_FOR_STOP))
    os.kill(int(node.printed("up")), signal.SIGKILL)
    assert node.wait() == 137
    (line,) = node.lines("exit")
    assert (line["code"], line["signal"]) == (137, "SIGKILL")


def test_told_to_stop_it_lets_the_script_save(launch: Launch, script: Script) -> None:
    node = launch("--launcher", "once", "--python", "--", script(WAIT_FOR_STOP))
    pid = node.printed("up")
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == 5
    assert node.out == f"up {pid}\nsaved\n"


def test_an_interrupt_of_the_whole_group_is_passed_on(launch: Launch) -> None:
    source = "import time; print('up', flush=True); time.sleep(999); print('not reached')"
    node = launch(*ONCE, sys.executable, "-c", source)
    node.printed("up")
    os.killpg(node.process.pid, signal.SIGINT)
    assert (node.wait(), node.out) == (130, "up\n")


def test_nothing_is_left_running(launch: Launch, gone: Gone) -> None:
    node = launch(*ONCE, "sh", "-c", "sleep 999 & echo left $!")
    assert node.wait() == 0
    gone(int(node.printed("left")))


def test_orphans_are_reaped_while_it_runs(launch: Launch, script: Script) -> None:
    source = """
        import os, subprocess, time
        orphan = subprocess.run(
            ["sh", "-c", "sleep 0.05 >&- & echo $!"], stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        while os.path.exists(f"/proc/{orphan}"):
            time.sleep(0.01)
        print("reaped")
    """
    lines = [line.removeprefix(" " * 8) for line in source.splitlines()]
    node = launch("--launcher", "once", "--python", "--", script("\n".join(lines)))
    assert (node.wait(), node.out) == (0, "reaped\n")


def test_killed_it_takes_the_command_with_it(launch: Launch, script: Script, gone: Gone) -> None:
    node = launch("--launcher", "once", "--python", "--", script(WAIT_FOR_STOP))
    pid = int(node.printed("up"))
    node.process.kill()
    gone(pid)
    assert node.out == f"up {pid}\n"


KILLED_SUPERVISOR = """
import os, subprocess, sys
replica = subprocess.Popen(sys.argv[1:], env={**os.environ, "RSCTL_PARENT": str(os.getpid())})
print("replica", replica.pid, flush=True)
replica.wait()
"""


def test_a_replica_stops_when_its_supervisor_is_killed(
    launch: Launch, script: Script, gone: Gone
) -> None:
    supervisor = launch(
        *("--launcher", "once", "--python", "--", script(WAIT_FOR_STOP)),
        via=[sys.executable, "-c", KILLED_SUPERVISOR],
        RSCTL_TARGET="process",
    )
    replica = int(supervisor.printed("replica"))
    supervisor.printed("up")
    supervisor.process.kill()
    gone(replica)
    assert supervisor.out.endswith("\nsaved\n")


def test_a_replica_whose_supervisor_is_dead_already_does_not_start(launch: Launch) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    node = launch(*ONCE, "echo", "ran", RSCTL_TARGET="process", RSCTL_PARENT=str(dead.pid))
    assert (node.wait(), node.out) == (143, "")


@needs_root
def test_the_first_process_of_a_container_stops_though_it_still_waits(launch: Launch) -> None:
    node = launch(
        *ONCE,
        *("echo", "ran"),
        via=["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
        cluster_fields={"workers": ["127.0.0.1", "x" * 64]},
    )
    node.wait_for_stderr("rsctl: waiting for the names")
    (first,) = children(node.process.pid)
    os.kill(first, signal.SIGTERM)
    assert (node.wait(), node.out) == (143, "")


def test_a_second_stop_signal_does_not_cut_short_what_the_first_requires() -> None:
    """Both are there before Python handles one of them."""
    script = """
import os, signal
from rsctl.node import node
numbers = (signal.SIGTERM, signal.SIGINT)
node._end_on_stop_signals()
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
for number in numbers:
    os.kill(os.getpid(), number)
try:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
finally:
    for step in range(100):
        print(step)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")
    assert done.stdout.splitlines()[-1:] == ["99"]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_no_cluster(launch: Launch) -> None:
    node = launch(*ONCE, "true", via=["env", "-u", "RSCTL_CLUSTER"])
    assert node.wait() == 2
    (finding,) = node.lines("finding")
    assert finding["code"] == "cluster-missing"


def test_a_reducer_runs_until_it_is_told_to_stop(launch: Launch, free_port: int) -> None:
    given = {"RSCTL_RUN": "r", "RSCTL_TOKEN": "0" * 32, "RSCTL_REDUCER_PORTS": str(free_port)}
    node = launch(*ONCE, "true", cluster_fields=REDUCER, **given)
    assert node.next_line("reducer")["address"] == f"127.0.0.1:{free_port}"
    node.process.terminate()
    assert node.wait() == 0


def test_an_image_without_the_reducers_program(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "rsctl").mkdir()
    for name in ("__init__.py", "node"):
        (tmp_path / "rsctl" / name).symlink_to(Path(rsctl.__file__).with_name(name))
    (tmp_path / "rsctl_start.py").symlink_to(rsctl_start.__file__)
    node = launch(*ONCE, "true", cluster_fields=REDUCER, root=tmp_path, via=without_torch())
    assert node.wait() == 3
    (finding,) = node.lines("finding")
    assert (finding["code"], finding["message"]) == (
        "reducer-missing",
        "this image contains no reducer program",
    )


def test_torchrun_without_torch(launch: Launch) -> None:
    node = launch("--", "true", via=without_torch())
    assert node.wait() == 3
    (finding,) = node.lines("finding")
    assert finding["code"] == "torch-missing"
    assert finding["message"].startswith("the launcher torchrun needs torch, and ")


def without_torch() -> list[str]:
    """A prefix that runs the same module on an interpreter without site-packages."""
    return ["sh", "-c", 'python=$1; shift; exec "$python" -S "$@"', "sh"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "there is nothing to run: give a COMMAND after --"),
        (("--",), "there is nothing to run: give a COMMAND after --"),
        (("train.py",), "unrecognized arguments: train.py"),
        (("--processes", "0", "--", "true"), "--processes 0 is not possible with torchrun"),
        (("--processes", "2", *ONCE, "true"), "--processes 2 is not possible with once"),
        (("--launcher", "ssh", "--", "true"), "invalid choice: 'ssh'"),
        (("--processes", "two", "--", "true"), "--processes: invalid int value: 'two'"),
        (("--keep", "--", "true"), "--keep: expected one argument"),
        (("--python=yes", "--", "true"), "--python: ignored explicit argument"),
        (("--command", "x", "--", "true"), "unrecognized arguments: --command"),
        (("--copy", "train", "--", "true"), "--copy requires NAME=PATH"),
    ],
)
def test_usage(launch: Launch, arguments: tuple[str, ...], complaint: str) -> None:
    node = launch(*arguments)
    assert node.wait() == 2
    assert complaint in node.err
    assert node.out == ""


def test_rank_py_stands_alone(tmp_path: Path) -> None:
    """It is run by path, without a way to import the rest."""
    alone = tmp_path / "rank.py"
    alone.write_bytes(Path(rank.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone), "--", "echo", "ran"], capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ran\n", b"")


def test_a_rank_imports_only_what_each_rank_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", rank.__file__, "--", "true"],
        capture_output=True,
        text=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"re", "socket", "subprocess", "threading", "typing"} & imported == set()
    assert "ctypes" in imported


def test_torch_that_would_not_load_the_binding(launch: Launch) -> None:
    given = {"RSCTL_COMM_BUCKET_MB": "50", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    node = launch("--", "true", **given)
    assert node.wait() == 78
    (finding,) = node.lines("finding")
    assert finding["code"] == "binding-off"
    assert finding["remedy"] == "Remove the variable from run.env or from the image."


def test_a_torch_that_is_too_old_for_the_binding(launch: Launch, tmp_path: Path) -> None:
    for name, text in {
        "torch/__init__.py": "",
        "torch-2.4.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path = f"{tmp_path}:{Path(rsctl.__file__).parents[1]}"
    node = launch("--", "true", RSCTL_COMM_BUCKET_MB="50", PYTHONPATH=path)
    assert node.wait() == 3
    (finding,) = node.lines("finding")
    assert "which torch 2.4.1 does not have" in finding["message"]
