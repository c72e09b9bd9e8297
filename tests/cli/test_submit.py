"""`rsctl submit`: jobs that really run, as plain processes, and what is shown of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl import api
from rsctl.api import Rehearsal
from rsctl.cli.views.next_commands import resume_command
from rsctl.findings import JobState, RsctlError, warning
from rsctl.runs.store import Store
from rsctl.runs.stream.events import FindingEvent
from tests.kit.polling import wait_until

from .conftest import Cli, MadeRun, at
from .submissions import assert_shapes, job

pytestmark = pytest.mark.usefixtures("runs_end_with_the_test")


def test_where_the_results_are_is_told_at_the_end_and_later(rsctl: Cli) -> None:
    path = job(rsctl, "echo done > $RSCTL_OUTPUT_DIR/model.pt")
    done = rsctl.process("submit", path)
    assert done.out == ""
    [run] = Store().runs()
    folder = Path(os.environ["RSCTL_HOME"]) / "runs" / run.run
    places = {"outputs": f"{folder}/outputs", "checkpoints": f"{folder}/checkpoints"}
    assert (folder / "outputs" / "model.pt").exists()
    assert done.err.splitlines()[-2] == f"  outputs: {folder}/outputs"
    assert rsctl("status", run.run).out.splitlines()[-2:] == [
        f"  outputs      {folder}/outputs",
        f"  checkpoints  {folder}/checkpoints  (empty)",
    ]
    assert rsctl("status", run.run, "-o", "json").json["results"] == places
    ended = rsctl.process("submit", path, "-o", "json").events[-1]
    assert ended["results"] == {n: p.replace(run.run, ended["run"]) for n, p in places.items()}


METRICS = {"loss": {"regex": r"loss=(\S+)", "goal": "min"}}


def test_a_job_is_watched_to_its_end(rsctl: Cli) -> None:
    done = rsctl.process("submit", job(rsctl, "echo loss=0.5; echo loss=0.4", metrics=METRICS))
    [run] = Store().runs()
    assert (done.code, done.out) == (0, "worker-0 | loss=0.5\nworker-0 | loss=0.4\n")
    assert done.err.splitlines()[:3] == [
        f"{run.run} on process, 1 replica",
        "starting",
        "running",
    ]
    last = done.err.splitlines()[3:]
    assert last[0].startswith(f"{run.run} succeeded after 0:0")
    assert last[1:] == [
        "  loss 0.4",
        f"report: rsctl report {run.run}   charts: rsctl metrics --plot {run.run}",
    ]
    assert run.state is JobState.SUCCEEDED
    assert [value.value for _, value in Store().metrics(run.run)] == [0.5, 0.4]


def test_at_the_end_the_metrics_that_are_left_out_are_counted(rsctl: Cli) -> None:
    values = ", ".join(f'"m{number}": {number}' for number in range(11))
    script = f'echo \'{{"rsctl": "metrics", {values}}}\''
    done = rsctl.process("submit", job(rsctl, script))
    [run] = Store().runs()
    assert done.err.splitlines()[4:] == [
        *(f"  m{number} {number}" for number in range(8)),
        f"  and 3 more: rsctl metrics {run.run}",
        f"report: rsctl report {run.run}",  # and no charts: each metric has one value
    ]


def test_what_is_sent_is_what_the_plan_shows(rsctl: Cli, rsctl_home: Path) -> None:
    name = job(
        rsctl,
        "exit 0",
        run={"env": {"A": "$b ${HOME}", "TOKEN": "x"}, "args": ["a b", "é"]},
        limits={"spot": True},
        workers={"count": 2, "accelerator": "l4:1"},
    )
    done = rsctl.process("submit", "--detach", name)
    run = done.out.strip()
    planned = rsctl("plan", name, "-o", "json", "--run-id", run)
    stored = Store().find(run).plan
    assert json.dumps(stored) == json.dumps(planned.json)
    submission = json.loads((rsctl_home / "runs" / run / "submission.json").read_text())
    assert json.dumps(submission["request"]) == json.dumps(planned.json["request"])


def test_a_job_that_fails_says_who_was_first_and_why(rsctl: Cli) -> None:
    script = (
        'if [ $NODE_RANK = 1 ]; then echo "Traceback (most recent call last):"; '
        "echo \"ModuleNotFoundError: No module named 'nope'\"; exit 3; fi; sleep 60"
    )
    name = job(rsctl, script, workers={"count": 2})
    done = rsctl.process("submit", name, "--quiet")
    [run] = Store().runs()
    assert done.code == 1
    lines = done.err.splitlines()
    assert lines[0].startswith("worker-1 (rank 1) failed first: exit code 3 at ")
    assert lines[1:5] == [
        "  Traceback (most recent call last):",
        "  ModuleNotFoundError: No module named 'nope'",
        "cause: a Python module is missing: nope",
        "    -> add it to image.python; on target process, install it in the environment of rsctl; "
        "if its package is there, look for another version of it, and for your own file of its "
        "name",
    ]
    assert lines[-1].startswith(f"{run.run} failed after 0:0")
    status = rsctl("status", "@last", "-o", "json").json
    assert (status["exit_code"], status["first_failure"]["replica"]) == (1, "worker-1")
    failed = rsctl("logs", "@last", "--failed").out.splitlines()
    assert failed == [f"worker-1 | {line.strip()}" for line in lines[1:3]]


def test_a_matrix_is_refused(rsctl: Cli) -> None:
    name = job(rsctl, "true", matrix={"workers.count": [1, 2]})
    done = rsctl("submit", name)
    assert (done.code, done.out) == (2, "")
    assert "error: matrix: submit runs one job, and this file has a matrix of cells\n" in done.err
    assert done.err.startswith("job.yaml:")
    assert (
        "to run all cells: rsctl bench run JOB; "
        "to run one: --set matrix=null and --set for each of its keys"
    ) in done.err
    assert Store().runs() == []
    one = rsctl("submit", name, "--set", "workers.count=1", "--set", "matrix=null")
    assert one.code == 0


def test_a_job_with_mistakes_is_refused_in_events_too(rsctl: Cli) -> None:
    name = job(rsctl, "true", workers={"cuont": 2})
    done = rsctl("submit", name, "-o", "json")
    assert done.code == 2
    assert_shapes(done.events)
    finding, result = done.events
    assert finding["message"] == "unknown key 'cuont' in workers"
    assert (result["run"], result["state"], result["exit_code"]) == (None, "failed", 2)
    assert "unknown key 'cuont' in workers" in done.err
    assert Store().runs() == []


def test_a_warning_is_told_in_events_too(rsctl: Cli) -> None:
    name = job(rsctl, "true", run={"env": {"MY_API_KEY": "abc"}})
    done = rsctl.process("submit", "-d", name, "-o", "json")
    assert_shapes(done.events)
    assert [event["type"] for event in done.events] == ["finding", "result"]
    assert done.events[0]["severity"] == "warning"
    assert "warning: run.env.MY_API_KEY" in done.err


def test_a_job_that_cannot_be_sent_is_recorded(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    name = job(rsctl, "true", outputs="file/below")
    rsctl.write("", "file")
    done = rsctl("submit", name, "-o", "json")
    assert done.code == 3
    assert_shapes(done.events)
    [run] = Store().runs()
    assert (run.state, run.exit_code) == (JobState.FAILED, 1)
    assert (done.events[-1]["run"], done.events[-1]["url"]) == (run.run, run.url)
    assert f"cannot write {rsctl.folder}/file/below" in (run.reason or "")


SECRET = "s3cr3t-" + hashlib.sha256(b"rsctl").hexdigest()


def files_with(folder: Path, text: str) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


def commands_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found


def test_a_secret_reaches_the_script_and_nothing_else(
    rsctl: Cli, rsctl_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", SECRET)
    script = 'printf %s "$PASS" | sha256sum; while [ ! -e go ]; do sleep 0.05; done'
    name = job(rsctl, script, run={"env": {"PASS": "${MY_SECRET}"}})
    for output in ("text", "json"):
        planned = rsctl("plan", name, "-o", output)
        assert SECRET not in planned.out + planned.err
    assert rsctl("plan", name, "-o", "json").json["env"]["PASS"] is None
    # An interpreter of its own: /proc has no arguments of a copy.
    run = rsctl.process("submit", "-d", name, PYTHONUNBUFFERED="1").out.strip()
    wait_until(lambda: rsctl("logs", run).out)
    assert commands_with(SECRET) == []
    (rsctl.folder / "src" / "go").touch()
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    assert rsctl("status", run, "-w").code == 0
    assert rsctl("logs", run).out == f"worker-0 | {digest}  -\n"
    assert files_with(rsctl_home, SECRET) == []
    assert files_with(rsctl.folder, SECRET) == []
    assert SECRET not in rsctl("status", run, "-o", "json").out


def test_in_a_terminal_the_log_scrolls_above_a_line_that_goes_away(rsctl: Cli) -> None:
    name = job(rsctl, "echo loss=0.5; echo err >&2; sleep 0.5; exit 3", metrics=METRICS)
    done = rsctl.terminal("submit", name)
    text = done.out
    assert done.code == 1
    assert "loss=0.5" in text
    assert "worker-0 (rank 0) failed first" in text
    assert text.index("starting") < text.index("loss=0.5") < text.index("failed first")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_metrics_that_are_not_there_or_not_numbers_are_warned_of(rsctl: Cli) -> None:
    metrics = {
        "loss": {"regex": r"loss=(\S+)"},
        "speed": {"regex": r"speed=(\S+)"},
        "typo": {"regex": r"acuracy=(\S+)"},
        "unlogged": {"goal": "max"},
        "input.train.seconds": {"goal": "min"},
    }
    name = job(rsctl, "echo loss=1 speed=fast; echo loss=nan accuracy: 0.5", metrics=metrics)
    done = rsctl.process("submit", name)
    warnings = [
        "metrics.speed.regex: metric speed: 'fast' is not a number, and is ignored",
        "metrics.loss: the last loss is nan on worker-0: the training may have diverged",
        "metrics.typo.regex: metric typo has no value: its regex matches no number in the log; "
        "the log has: loss=nan accuracy: 0.5",
        "metrics.unlogged: metric unlogged has no value: "
        "it has no regex, and the script has not logged it",
    ]
    assert done.code == 0
    told = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert told == [f"warning: {text}" for text in warnings]
    assert "-> regex: 'accuracy: ([0-9.]+)' reads that number; otherwise compare" in done.err
    shown = rsctl("status", "@last").out.splitlines()
    assert [line for line in shown if line.startswith("warning: ")] == told
    findings = rsctl("status", "@last", "-o", "json").json["findings"]
    assert [finding["code"] for finding in findings] == [
        *("metric-value", "metric-nan", "metric-unseen", "metric-unseen"),
    ]


def test_a_log_that_was_cut_says_so_afterwards(
    rsctl: Cli, make_run: Callable[..., MadeRun]
) -> None:
    made = make_run()
    made.log(2, "a")
    made.tell(FindingEvent(time=at(3), finding=warning("disk-full", "logs are incomplete")))
    made.succeed(4)
    for arguments in ((), ("--tail", "1")):
        done = rsctl("logs", made.run, *arguments)
        assert (done.out, done.err) == ("worker-0 | a\n", "warning: logs are incomplete\n")


def test_a_script_is_submitted_without_a_job_file(rsctl: Cli) -> None:
    (rsctl.folder / "train.py").write_text(
        "import os, sys\nprint(os.environ['NODE_RANK'], *sys.argv[1:])\n"
    )
    words = ["submit", "train.py", "--workers", "2", "--set", "run.launcher=once"]
    done = rsctl.process(*words, "--", "--lr", "0.1", "--name", "a b")
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()) == [
        "worker-0 | 0 --lr 0.1 --name a b",
        "worker-1 | 1 --lr 0.1 --name a b",
    ]
    assert sorted(path.name for path in rsctl.folder.iterdir() if path.is_file()) == ["train.py"]
    printed = rsctl(*words, "--print-job", "--", "--lr", "0.1")
    assert printed.code == 0
    assert printed.out == printed.out.rstrip() + "\n"
    (rsctl.folder / "job.yaml").write_text(printed.out)
    planned = rsctl("plan", "job.yaml", "-o", "json").json
    assert planned["pools"][0]["count"] == 2
    assert planned["request"]["commands"][0]["argv"][-3:] == ["train.py", "--lr", "0.1"]


@pytest.mark.parametrize(
    "options",
    [
        ("--set", "workers.count=3"),
        ("--set", "run.env.A=x: #y", "--set", "run.env.B=1.10", "--set", "run.env.C=${HOME}"),
        ("--set", """run.args={a: "3", b: 1e-5, c: yes, d: "on", e: "007", f: "a\tb"}"""),
        ("--set", "run.env.A=''", "--set", "run.launcher=once"),
        ("-t", "compose", "--set", "workers.processes=${UNSET:-2}"),
    ],
)
def test_the_printed_job_is_planned_as_the_command(rsctl: Cli, options: tuple[str, ...]) -> None:
    (rsctl.folder / "train.py").write_text("print('ran')\n")
    words = ["submit", "train.py", *options, "--print-job", "--", "--lr", "0.1"]
    printed = rsctl(*words)
    assert printed.code == 0, printed.err
    rsctl.write(printed.out)
    rsctl.write(rsctl("submit", "train.py", "--print-job", "--", "--lr", "0.1").out, "plain.yaml")
    plans = [rsctl("plan", *w, "-o", "json") for w in (["job.yaml"], ["plain.yaml", *options])]
    assert plans[0].json["request"] == plans[1].json["request"]
    assert plans[0].json["pools"] == plans[1].json["pools"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "workers.count=two", "--set", "=3"], "workers.count: expected a whole number"),
        (["--set", "workers.count=two", "--set", "=3"], "it is not in the form KEY=VALUE"),
        (["-t", "vertex"], "target vertex needs a project"),
        (["--set", "run.args.x=${NUMBER:-a: b}"], "a file cannot have the value that --set gives"),
        (["--resume", "@last"], "--print-job does not print what --resume adds"),
    ],
)
def test_a_job_that_cannot_be_printed(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.setenv("NUMBER", "3")
    (rsctl.folder / "train.py").write_text("print('ran')\n")
    done = rsctl("submit", "train.py", *options, "--print-job")
    assert (done.code, done.out) == (2, "")
    assert message in " ".join(done.err.split())


def test_a_script_of_this_folder_may_have_its_whole_path(rsctl: Cli) -> None:
    (rsctl.folder / "train.py").write_text("print('ran')\n")
    whole = str(rsctl.folder / "train.py")
    done = rsctl.process("submit", whole, "--set", "run.launcher=once")
    assert (done.code, done.out) == (0, "worker-0 | ran\n"), done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["job.yaml", "--workers", "2"], "a job file; use --set workers.count=2"),
        (
            ["job.yaml", "--", "--lr", "0.1", "--fast"],
            "use --set run.args.lr=0.1 --set run.args.fast=true",
        ),
        (["job.yaml", "--", "a b", "-x"], """use --set 'run.args=["a b", "-x"]'"""),
        (["job.yaml", "--print-job"], "--print-job requires a script"),
        (["job.yaml", "--", "x"], "is a job file; use --set 'run.args=[\"x\"]'"),
        (["missing.py"], "script 'missing.py' does not exist"),
        (["loop.py"], "script 'loop.py' does not exist"),
        (["train.py", "--lr", "0.1"], "write arguments of the script after --"),
    ],
)
def test_what_is_for_scripts_alone(rsctl: Cli, words: list[str], message: str) -> None:
    job(rsctl, "true")
    (rsctl.folder / "loop.py").symlink_to("loop.py")
    done = rsctl("submit", *words)
    assert done.code == 2
    said = " ".join(done.err.split())
    assert message in said
    assert ("; use" in said) is ("use --set" in message)


RESUMES = "echo from $(cat $RSCTL_CHECKPOINT_DIR/step); echo $1 > $RSCTL_CHECKPOINT_DIR/step"


def test_a_run_resumes_from_the_checkpoints_of_another(rsctl: Cli) -> None:
    """The printed command works, also for a run that was resumed itself; prune keeps the files."""
    path = job(rsctl, f"set 1; {RESUMES}")
    first = rsctl.process("submit", path)
    old = Store().runs()[0].run
    label = "resume, if you set more steps"  # it has succeeded
    assert first.err.splitlines()[-1] == f"{label}: rsctl submit {path} --resume {old}"
    second = rsctl.process("submit", path, "--resume", old)
    middle = Store().runs()[0]
    assert second.out == "worker-0 | from 1\n"
    folder = Path(os.environ["RSCTL_HOME"]) / "runs" / old / "checkpoints"
    assert middle.settings == [f"checkpoints={folder}"]
    assert second.err.splitlines()[-1].endswith(f"rsctl submit {path} --resume {middle.run}")
    third = rsctl.process("submit", path, "--resume", "@last", "--set", "name=other")
    assert third.out == "worker-0 | from 1\n"
    assert third.err.splitlines()[-1].endswith(" --set name=other")
    kept = rsctl("prune", "--keep", "1", "--outputs")
    last = Store().runs()[0].run
    assert f"{old} stays: {last} uses its files in {folder.parent}" in kept.err
    assert [run.run for run in Store().runs()] == [last, old]
    assert (folder / "step").exists()


def test_the_command_that_resumes_a_job_with_a_secret_whose_name_looks_like_an_option(
    rsctl: Cli,
) -> None:
    Path(job(rsctl, f"set 1; {RESUMES}")).rename("-job.yaml")
    done = rsctl.process("submit", "--set", "run.env.API_KEY=hush", "--", "-job.yaml")
    [run] = Store().runs()
    assert done.err.splitlines()[-1] == (
        f"resume, if you set more steps: rsctl submit ./-job.yaml --resume {run.run} "
        "--set 'run.env.API_KEY=${API_KEY}'"
    )


@pytest.mark.parametrize("key", ["checkpoints", "outputs"])
@pytest.mark.parametrize("kind", ["a file", "a read-only disk"])
def test_a_folder_of_the_job_that_cannot_be_written_is_refused(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, key: str, kind: str
) -> None:
    """Its script would fail as it saves, which may be hours later."""
    place = rsctl.folder / "place"
    if kind == "a file":
        place.touch()
    else:
        flags = {str(place): os.ST_RDONLY}
        disk = lambda path: SimpleNamespace(f_flag=flags.get(str(path), 0))  # noqa: E731
        monkeypatch.setattr("rsctl.targets.local.target.os.statvfs", disk)
    done = rsctl("submit", job(rsctl, "true"), "--set", f"{key}={place}")
    why = "File exists" if kind == "a file" else "Read-only file system"
    assert (done.code, done.err.splitlines()) == (
        3,
        [
            f"error: {key}: cannot write {place}: {why}",
            f"    -> set {key} to a folder that you can write",
        ],
    )


def test_a_rehearsal_is_resumed_by_the_same_kind_of_rehearsal() -> None:
    run: Any = SimpleNamespace(id="job-1", record=SimpleNamespace(settings=["name=x"]))
    rehearsal = Rehearsal("process", {"stockouts": 1}).arguments
    assert resume_command(run, "job.yaml", "vertex", None, (), rehearsal) == (
        "rsctl submit job.yaml --resume job-1 --target vertex --rehearse --rehearse-with process "
        "--behaviour stockouts=1 --set name=x"
    )


def test_two_runs_never_write_to_the_same_checkpoints(rsctl: Cli) -> None:
    """Also where the earlier run is named that has ended, or the folder itself."""
    path = job(rsctl, "touch $RSCTL_CHECKPOINT_DIR/a")
    assert rsctl.process("submit", path).code == 0
    old = Store().runs()[0].run
    folder = Path(os.environ["RSCTL_HOME"]) / "runs" / old / "checkpoints"
    (rsctl.folder / "link").symlink_to(folder)
    path = job(rsctl, "sleep 600")
    assert rsctl.process("submit", "-d", path, "--resume", old).code == 0
    writer = Store().runs()[0].run
    for words in (
        ["--resume", old],
        ["--set", f"checkpoints={folder}/"],
        ["--set", f"checkpoints={rsctl.folder / 'link'}"],
    ):
        done = rsctl("submit", "-d", path, *words)
        assert done.code == 2, done.err
        assert f"{writer} is " in done.err
        assert ", and two runs would write to " in done.err
        assert f"-> wait for its end, or cancel it: rsctl cancel {writer}" in done.err
    assert [run.run for run in Store().runs()] == [writer, old]
    with pytest.raises(RsctlError, match="two runs would write"):
        api.submit(rsctl.folder / path, resume=old)
    assert rsctl("cancel", writer).code == 0
    assert rsctl.process("submit", job(rsctl, "true"), "--resume", old).code == 0


def test_what_cannot_be_resumed(rsctl: Cli) -> None:
    path = job(rsctl, "true")

    def refused(run: str, *options: str) -> str:
        done = rsctl("submit", path, "--resume", run, *options)
        assert done.code == 2, done.err
        return done.err

    assert "no run" in refused("nothing")
    assert rsctl.process("submit", path).code == 0
    [run] = Store().runs()
    assert f"{run.run} has no checkpoints: " in refused(run.run)
    (Path(os.environ["RSCTL_HOME"]) / "runs" / run.run / "checkpoints" / "a").touch()
    assert "the job gets its checkpoints twice" in refused(run.run, "--set", "checkpoints=/x")
    cannot = refused(run.run, "--target", "slurm")
    assert "cannot see the checkpoints in " in cannot
    assert "ran on target process, and this job runs on target slurm" in cannot
    assert "cannot see" in refused(run.run, "--target", "vertex", "--rehearse")
    assert "cannot see" in refused(run.run, "--target", "sagemaker")
    assert rsctl.process("submit", "-d", job(rsctl, "sleep 600")).code == 0
    assert "two runs would write" in refused("@last")
