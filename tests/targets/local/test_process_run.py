"""Target process: jobs that run to their end, well or badly."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rsctl.node.structured_lines import lock_of

from ..conftest import Rsctl

TWO = {"count": 2}


def test_a_job_that_succeeds(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash='echo "hello from $RSCTL_REPLICA"', workers=TWO)
    done = rsctl("submit", job)
    assert done.exit_code == 0
    assert sorted(done.stdout.splitlines()) == [
        "worker-0 | hello from worker-0",
        "worker-1 | hello from worker-1",
    ]
    run = rsctl.status("@last")
    assert (run["state"], run["exit_code"], run["first_failure"]) == ("succeeded", 0, None)
    assert [(r["replica"], r["state"], r["exit_code"]) for r in run["replicas"]] == [
        ("worker-0", "succeeded", 0),
        ("worker-1", "succeeded", 0),
    ]


def test_the_event_stream_of_a_job(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash="echo step 3 loss=0.25",
        metrics={"loss": {"regex": r"step (?P<step>\d+) loss=(?P<value>[\d.]+)", "goal": "min"}},
    )
    done = rsctl("submit", job, "-o", "json")
    internal = '{"rsctl": "versions"'
    reported = [e for e in done.events if not e.get("text", "").startswith(internal)]
    events = [{k: v for k, v in e.items() if k not in ("time", "id")} for e in reported]
    run = done.result["run"]
    state = {"type": "state", "attempt": 1, "replica": None, "exit_code": None, "reason": None}
    worker = {**state, "replica": "worker-0"}
    [at] = [index for index, event in enumerate(events) if event["type"] == "metric"]
    # A log line waits a moment for earlier ones; a busy machine stores the metric after the end of
    # its worker, never of the job.
    assert at in (3, 4, 5)
    metric = {"type": "metric", "replica": "worker-0", "name": "loss", "value": 0.25, "step": 3}
    assert events.pop(at) == metric
    assert events == [
        {**state, "state": "starting"},
        {**worker, "state": "running"},
        {**state, "state": "running"},
        {
            "type": "log",
            "replica": "worker-0",
            "stream": "stdout",
            "text": "step 3 loss=0.25",
        },
        {**worker, "state": "succeeded", "exit_code": 0},
        {**state, "state": "succeeded", "exit_code": 0},
        {
            "type": "result",
            "run": run,
            "state": "succeeded",
            "exit_code": 0,
            "first_failure": None,
            "metrics": {"loss": {"last": 0.25, "count": 1, "best": 0.25}},
            "url": f"process://{run}",
            "results": done.result["results"],
            "attempt": 1,
            "attempts": [],
            "placements": [],
            "cost": None,
        },
    ]
    stored = [json.loads(line) for line in rsctl("metrics", run, "-o", "json").stdout.splitlines()]
    assert [(m["name"], m["step"], m["value"], m["replica"]) for m in stored] == [
        ("loss", 3, 0.25, "worker-0")
    ]


def test_the_first_failure_decides_and_stops_the_rest(rsctl: Rsctl) -> None:
    script = (
        'if [ "$RSCTL_REPLICA" = worker-1 ]; then echo about to fail; exit 7; fi; '
        "while true; do sleep 0.1; done"
    )
    done = rsctl("submit", rsctl.write_job(bash=script, workers={"count": 3}), "-o", "json")
    assert done.exit_code == 1
    failure = done.result["first_failure"]
    assert (failure["replica"], failure["exit_code"]) == ("worker-1", 7)
    assert failure["lines"] == ["about to fail"]
    replicas = {r["replica"]: r for r in rsctl.status("@last")["replicas"]}
    assert replicas["worker-0"]["state"] == replicas["worker-2"]["state"] == "cancelled"
    assert replicas["worker-0"]["reason"] == "stopped after worker-1 had failed"
    assert rsctl.processes(done.result["run"]) == []


def test_the_rank_that_failed_first_is_blamed_under_torchrun(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    rsctl.env.update(torch_forks)
    source = rsctl.folder / "source"
    source.mkdir()
    (source / "train.py").write_text(
        "import os, signal\n"
        "if os.environ['RANK'] == '1':\n"
        "    with open('peers', 'w'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "with open('peers') as peer: peer.read()\n"
        "raise RuntimeError('Connection closed by peer [127.0.0.1]:4242')\n"
    )
    os.mkfifo(source / "peers")
    job = rsctl.write_job(run={"script": "train.py"}, workers=TWO)
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == 1
    failure = done.result["first_failure"]
    found = {k: failure[k] for k in ("replica", "rank", "signal", "exit_code")}
    assert found == {"replica": "worker-1", "rank": 1, "signal": "SIGKILL", "exit_code": 137}
    assert [cause["code"] for cause in failure["causes"]] == ["killed"]


def test_the_rank_that_failed_first_is_blamed_though_its_launcher_ends_last(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    """As torchrun may, which looks after its ranks from time to time. A module has a process of its
    own, whose parent is its wrapper.
    """
    rsctl.env.update(torch_forks)
    reported = rsctl.folder / "reported"
    script = f"""
import json, os, time
from datetime import datetime, timezone
from pathlib import Path
reported = Path({str(reported)!r})
if os.environ["RANK"] == "1":
    parent = Path(f"/proc/{{os.getppid()}}/environ").read_text()  # of the wrapper of this rank
    key = parent.partition("RSCTL_EXIT_KEY=")[2].partition(chr(0))[0]
    report = {{"rsctl": "exit", "rank": 1, "local_rank": 0, "code": 137, "signal": "SIGKILL"}}
    moment = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    print(json.dumps({{**report, "time": moment, "key": key}}), flush=True)
    reported.touch()
    time.sleep(600)
while not reported.exists():
    time.sleep(0.01)
os._exit(3)
"""
    (rsctl.folder / "source").mkdir()
    (rsctl.folder / "source" / "train.py").write_text(script)
    done = rsctl("submit", rsctl.write_job(run={"module": "train"}, workers=TWO), "-o", "json")
    assert done.exit_code == 1
    failure = done.result["first_failure"]
    assert (failure["replica"], failure["rank"], failure["exit_code"]) == ("worker-1", 1, 137)
    replicas = {each["replica"]: each for each in rsctl.status("@last")["replicas"]}
    assert {name: (r["state"], r["exit_code"]) for name, r in replicas.items()} == {
        "worker-0": ("failed", 3),
        "worker-1": ("failed", 137),
    }


def test_a_worker_that_had_ended_is_not_named_beside_the_one_that_fails(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    """Its torchrun still waits for the other worker as the job is stopped."""
    rsctl.env.update(torch_forks)
    ended = rsctl.folder / "ended"
    script = f"""
import os, signal, time
from pathlib import Path
if os.environ["RANK"] == "1":
    while not Path({str(ended)!r}).exists():
        time.sleep(0.01)
    time.sleep(2)  # torch looks after its ranks every 0.1 s
    os.kill(os.getpid(), signal.SIGSEGV)
Path({str(ended)!r}).touch()
"""
    (rsctl.folder / "source").mkdir()
    (rsctl.folder / "source" / "train.py").write_text(script)
    done = rsctl("submit", rsctl.write_job(run={"script": "train.py"}, workers=TWO))
    assert done.exit_code == 1
    assert "as a result" not in done.stdout + done.stderr
    replicas = {each["replica"]: each["exit_code"] for each in rsctl.status("@last")["replicas"]}
    assert replicas == {"worker-0": 0, "worker-1": 139}


FORGED = json.dumps({"rsctl": "exit", "rank": 0, "code": 77, "time": "2020-01-01T00:00:00.000000Z"})


@pytest.mark.parametrize(
    "forged",
    [
        '{"rsctl": "exit", "code": 0}',
        '{"rsctl": "exit", "code": "x"}',
        FORGED,
        FORGED.replace("}", f', "key": "{"0" * 32}"}}'),
        f'{{"rsctl": "exits", "lock": "{lock_of("k")}"}}\n' + FORGED.replace("}", ', "key": "k"}'),
    ],
)
def test_a_job_that_prints_a_report_of_its_exit(rsctl: Rsctl, forged: str) -> None:
    bash = f"printf '%s\\n' '{forged}'; env | grep -c RSCTL_EXIT_KEY; exit 3"
    done = rsctl("submit", rsctl.write_job(bash=bash), "-o", "json")
    failure = done.result["first_failure"]
    assert (done.exit_code, failure["exit_code"], failure["lines"][-1]) == (1, 3, "0")
    assert rsctl.status("@last")["reason"] == "worker-0 failed with exit code 3"


def test_retries_run_the_whole_job_again(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash="echo attempt $RSCTL_ATTEMPT; exit $((3 - RSCTL_ATTEMPT))", limits={"retries": 5}
    )
    done = rsctl("submit", job)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [f"worker-0 | attempt {n}" for n in (1, 2, 3)]
    run = rsctl.status("@last")
    assert (run["attempt"], run["first_failure"]) == (3, None)
    reasons = [f"worker-0 failed with exit code {code}" for code in (2, 1)]
    assert [each["reason"] for each in run["attempts"]] == reasons
    codes = [each["failure"]["exit_code"] for each in run["attempts"]]
    assert codes == [2, 1]
    shown = [" ".join(line.split()) for line in rsctl("status", "@last").stdout.splitlines()]
    failed = "attempt 1 worker-0 (rank 0) failed first: exit code 2"
    assert any(line.startswith(failed) for line in shown)
    assert "  attempt 2: worker-0 (rank 0) failed first: exit code 1" in done.stderr.splitlines()


def test_restarts_in_the_words_of_the_other_key(rsctl: Rsctl) -> None:
    script = "exit $((2 - RSCTL_ATTEMPT))"
    for restarts, attempts in ((1, 2), ("never", 1), ("platform", 1)):
        rsctl("submit", rsctl.write_job(bash=script, limits={"restarts": restarts}))
        assert rsctl.status("@last")["attempt"] == attempts
    twice = rsctl("plan", rsctl.write_job(bash=script, limits={"restarts": 1, "retries": 1}))
    assert twice.exit_code == 2
    assert "limits.restarts: retries 1 and restarts 1 set the same limit" in twice.stderr


def test_the_time_limit(rsctl: Rsctl) -> None:
    """The supervisor waits for the end without using its processor, here in ticks of 10 ms."""
    script = (
        "ticks() { echo $(($(cut -d' ' -f14,15 --output-delimiter=+ /proc/$PPID/stat))); }\n"
        "trap 'ended=$(ticks); sleep 0.5; echo used $(($(ticks) - ended))' TERM\n"
        "sleep 600 & wait; sleep 600"
    )
    run = {"command": ["bash", "-c", script], "launcher": "none"}
    job = rsctl.write_job(run=run, limits={"timeout": "2s", "grace": "1s"})
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == 6
    assert (done.result["state"], done.result["exit_code"]) == ("expired", 6)
    [used] = [event["text"] for event in done.events if event.get("text", "").startswith("used")]
    assert int(used.split()[1]) < 5
    [worker] = rsctl.status(done.result["run"])["replicas"]
    assert worker["reason"] == "stopped: the job was expired, and killed 1 s later"
    assert rsctl.processes(done.result["run"]) == []


def test_text_that_the_locale_cannot_write_reaches_the_job_as_utf_8(rsctl: Rsctl) -> None:
    command = [sys.executable, "-Xutf8", "-c", "import os, sys; print(os.getenv('A'), sys.argv[1])"]
    job = rsctl.write_job(
        run={"command": [*command, "gr\u00f6\u00dfe"], "launcher": "none", "env": {"A": "\u540d"}}
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = rsctl("submit", job, "-o", "json", **ascii_only)
    assert (done.exit_code, done.result["state"]) == (0, "succeeded")
    texts = [event["text"] for event in done.events if event["type"] == "log"]
    assert texts == ["\u540d gr\u00f6\u00dfe"]


@pytest.mark.parametrize(
    ("launchers", "command", "content", "reason", "remedy"),
    [
        (
            *("once none", "no-such-program", ""),
            *("there is no such program", "correct run.command, or add the "),
        ),
        (
            *("once", "./run", "#!/bin/sh\n"),
            *("its file is not executable", "make it executable (`chmod +x`)"),
        ),
        (
            *("once none", "./run", "+#!/bin/sh\r\n"),
            *("its first line ends with a carriage return", "save the "),
        ),
        (
            *("none", "./run", "+#!/opt/none/python -u\n"),
            "its interpreter /opt/none/python does not exist",
            "correct that line, such as `#!/usr/bin/env bash`, or install the program: in an",
        ),
        (
            *("once", "./run", "+echo hello\n"),
            *("its first line names no interpreter", "begin it with such as "),
        ),
        (
            *("once none", "run", "+#!/bin/sh\n"),
            *("it is a file here, and no program of PATH", "start it with its "),
        ),
        (
            *("none", ".", "", "it is a folder"),
            "correct run.command: it must begin with a program",
        ),
        (
            *("none", "exec", "", "it is for a shell, and none runs it"),
            "start a shell: command: [bash, -c, ",
        ),
    ],
)
def test_a_command_that_cannot_run(
    rsctl: Rsctl, launchers: str, command: str, content: str, reason: str, remedy: str
) -> None:
    """Both launchers explain it by the same function."""
    script = rsctl.folder / "source" / "run"
    script.parent.mkdir(exist_ok=True)
    script.write_text(content.removeprefix("+"), newline="")
    script.chmod(0o755 if content.startswith("+") else 0o644)
    command = "./" if command == "." else command
    for launcher in launchers.split():
        done = rsctl("submit", rsctl.write_job(run={"command": [command], "launcher": launcher}))
        assert done.exit_code == 1
        assert f"cannot run {command}: {reason}" in done.stderr + done.stdout
        assert f"-> {remedy}" in done.stderr


def test_two_runs_at_once_do_not_collide(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="echo port $RSCTL_PORT tmp $TMPDIR; sleep 600")
    first, second = rsctl.detach(job), rsctl.detach(job)
    for run in (first, second):
        rsctl.wait_for_log(run, "port")
    assert first != second
    assert rsctl.log(first) != rsctl.log(second)
    assert rsctl("cancel", first).exit_code == 0
    assert rsctl.status(second)["state"] == "running"


LISTEN = """\
import os
import sys
from multiprocessing.connection import Listener

Listener(None, "AF_UNIX").close()
open(os.environ["TMPDIR"] + "/kept", "w").close()
print("in", os.environ["TMPDIR"])
"""


def test_a_script_has_sockets_where_the_path_of_its_run_is_long(
    rsctl: Rsctl, tmp_path: Path
) -> None:
    """As each worker of a DataLoader has, in a folder of its TMPDIR."""
    rsctl.home = tmp_path / ("home" * 20)
    rsctl.env["RSCTL_HOME"] = str(rsctl.home)
    job = rsctl.write_job(run={"script": "listen.py", "launcher": "once"})
    (rsctl.folder / "source" / "listen.py").write_text(LISTEN)
    done = rsctl("submit", job, "-q")
    assert done.exit_code == 0, done.stdout + done.stderr
    [run] = rsctl.runs()
    assert (rsctl.home / "runs" / run["run"] / "worker-0" / "tmp" / "kept").exists()
    assert not Path(done.stdout.split()[-1]).parent.exists()


def test_the_environment_of_a_replica(rsctl: Rsctl, tmp_path: Path) -> None:
    (tmp_path / "work" / "data").mkdir()
    job = rsctl.write_job(
        bash='echo "$NODE_RANK $NNODES $RANK|$RSCTL_RUN|$RSCTL_ROLE|$RSCTL_TARGET|'
        '$RSCTL_INPUT_TRAIN|$RSCTL_OUTPUT_DIR|$RSCTL_CHECKPOINT_DIR|$GREETING|$PWD"; '
        'test -d "$RSCTL_OUTPUT_DIR" && test -d "$RSCTL_CHECKPOINT_DIR" && test -d "$TMPDIR"',
        inputs={"train": "data"},
        checkpoints="ckpt",
    )
    done = rsctl(
        *("submit", job, "--set", "run.env.GREETING=a: $b 'c'"),
        RANK="9",
        NODE_RANK="9",
        RSCTL_RUN="outer",
    )
    assert done.exit_code == 0
    run = rsctl.status("@last")["run"]
    work = tmp_path / "work"
    outputs = tmp_path / "home" / "runs" / run / "outputs"
    assert done.stdout == (
        f"worker-0 | 0 1 |{run}|worker|process|{work}/data|{outputs}|{work}/ckpt|"
        f"a: $b 'c'|{work}/source\n"
    )


def test_arguments_name_the_folders_of_the_run(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        run={
            "command": ["echo", "{outputs}"],
            "args": ["{outputs}/x", "{else}"],
            "launcher": "once",
        }
    )
    done = rsctl("submit", job, "-q")
    run = rsctl.runs()[0]["run"]
    folder = rsctl.home / "runs" / run / "outputs"
    assert done.stdout == f"worker-0 | {{outputs}} {folder}/x {{else}}\n"


def test_arguments_name_only_what_there_is(rsctl: Rsctl) -> None:
    job = rsctl.write_job(run={"command": ["echo"], "args": ["{inputs.a}"], "launcher": "once"})
    done = rsctl("validate", job)
    assert done.exit_code == 2
    assert "run.args: {inputs.a} does not name an input; the inputs are none" in done.stderr


def test_a_value_has_the_time_of_its_line(
    rsctl: Rsctl, tmp_path: Path, torch_forks: dict[str, str]
) -> None:
    rsctl.env.update(torch_forks)
    (tmp_path / "train.py").write_text(
        "import time\nfor number in range(5):\n    print(f'loss={number}', flush=True)\n"
        "    time.sleep(0.01)\nprint('loss=5', end='', flush=True)\n"
    )
    job = rsctl.write_job(
        run={"script": "train.py"},
        image={"source": str(tmp_path)},
        workers={"count": 1},
        metrics={"loss": {"regex": r"^loss=([\d.]+)$"}},
    )
    assert rsctl("submit", job).exit_code == 0
    lines = rsctl("logs", "@last", "--grep", "loss", "-o", "json").events
    values = rsctl("metrics", "@last", "-o", "json").events
    times = [(f"loss={value['value']:.0f}", value["time"]) for value in values]
    assert times == [(line["text"], line["time"]) for line in lines]
    assert len(times) == 6


def test_lines_of_several_ranks_are_whole_and_named_after_their_rank(
    rsctl: Rsctl, tmp_path: Path, torch_forks: dict[str, str]
) -> None:
    """Values that begin a line are read as they are, and the failed rank's own lines are shown."""
    rsctl.env.update(torch_forks)
    script = (
        "import os, sys, time\n"
        "rank = os.environ['RANK']\n"
        f"written = {str(tmp_path / 'written')!r}\n"
        "for part in ('loss=', '0.' + rank, '5\\n'):\n"
        "    os.write(1, part.encode())\n"
        "os.write(2, b'Traceback (most recent call last):\\nValueError: of ' + rank.encode())\n"
        "if rank == '1':\n"
        "    while not os.path.exists(written):\n"
        "        time.sleep(0.01)\n"
        "    sys.exit(3)\n"
        "open(written, 'w').close()\n"
        "time.sleep(100)\n"
    )
    (tmp_path / "train.py").write_text(script)
    job = rsctl.write_job(
        run={"script": "train.py"},
        image={"source": str(tmp_path)},
        workers={"count": 1, "processes": 2},
        metrics={"loss": {"regex": r"^loss=([\d.]+)$"}},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 1, done.stderr
    logs = rsctl("logs", "@last", "--grep", "loss|Error").stdout.splitlines()
    assert sorted(logs) == [
        "worker-0/0 | ValueError: of 0",
        "worker-0/0 | loss=0.05",
        "worker-0/1 | ValueError: of 1",
        "worker-0/1 | loss=0.15",
    ]
    only = rsctl("logs", "@last", "--replica", "worker-0/0", "--grep", "loss", "-o", "json")
    [line] = only.events
    assert (line["replica"], line["rank"], line["text"]) == ("worker-0", "worker-0/0", "loss=0.05")
    values = [event["value"] for event in rsctl("metrics", "@last", "-o", "json").events]
    assert sorted(values) == [0.05, 0.15]
    lines = rsctl.status("@last")["first_failure"]["lines"]
    assert lines[0] == "Traceback (most recent call last):"
    assert "ValueError: of 1" in lines
    assert not any(line.endswith("of 0") for line in lines)
