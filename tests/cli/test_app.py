"""The program as a whole: help, wrong usage, start-up, output that cannot be written, bugs."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl import __version__
from rsctl.cli import options
from rsctl.cli.app import COMMANDS, run
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent

from .conftest import Cli, MadeRun, at

JOB = "name: job\nrun: {script: train.py}\nimage: {source: src}\n"


def test_help_names_every_command_in_its_order(rsctl: Cli) -> None:
    done = rsctl("--help")
    assert (done.code, done.err) == (0, "")
    sections = done.out.split("\n\n")[3:]
    listed = [section.splitlines() for section in sections]
    titles = ["First steps", "Jobs", "Runs", "Benchmarks", "Setup and tools", "Options"]
    assert [lines[0] for lines in listed] == [f"{title}:" for title in titles]
    assert [line.split()[0] for lines in listed[:-1] for line in lines[1:]] == list(COMMANDS)
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert rsctl("-h").out == done.out


REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
HELP = dict(re.findall(r"^## rsctl (.+)\n\n```text\n((?s:.+?))\n```$", REFERENCE.read_text(), re.M))


@pytest.mark.parametrize("command", HELP)
def test_the_help_of_a_command_is_what_the_reference_shows(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Each option with its names, its value, its range and its heading."""
    monkeypatch.setenv("COLUMNS", "80")
    done = rsctl(*command.split(), "--help")
    assert (done.code, done.out, done.err) == (0, f"{HELP[command]}\n", "")


@pytest.mark.parametrize("command", HELP)
def test_an_option_has_one_default(command: str) -> None:
    """A sentence explains a default that depends on the machine; a second one contradicts it."""
    options = re.split(r"\n  (?=-)", HELP[command])
    assert not [text for text in options if "Default: " in text and "[default: " in text]


def test_every_command_is_in_the_reference() -> None:
    assert set(COMMANDS) <= {command.split()[0] for command in HELP}


@pytest.mark.parametrize("command", [[], ["nothing"], ["--nothing"], ["plan"], ["plan", "a", "b"]])
@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_wrong_usage_ends_with_2_and_says_how(
    rsctl: Cli, command: list[str], quiet: list[str]
) -> None:
    done = rsctl(*command, *(quiet if command[:1] == ["plan"] else []))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: rsctl ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_an_option_that_it_does_not_have(rsctl: Cli, command: str) -> None:
    done = rsctl(command, "--nonsense")
    assert (done.code, done.out) == (2, "")
    assert f"Try 'rsctl {command} --help' for help." in done.err
    assert "No such option" in done.err


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("logs", "'RUN'. A run's ID, a unique prefix of it, @last, or a job's URL."),
        ("submit", "'JOB'. A job file; - is standard input; or a script, such as train.py."),
        ("completion", "'SHELL'. Choose from:\n\tbash,\n\tzsh,\n\tfish"),
    ],
)
def test_a_missing_argument_is_explained(rsctl: Cli, command: str, missing: str) -> None:
    done = rsctl(command)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"\n\nError: Missing argument {missing}\n")


def test_an_unknown_command_is_guessed(rsctl: Cli) -> None:
    done = rsctl("sumbit", "job.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "Usage: rsctl [OPTIONS] COMMAND [ARGS]...\n"
        "Try 'rsctl --help' for help.\n\n"
        "Error: No such command 'sumbit'. Did you mean 'submit'?\n"
    )


def test_a_group_suggests_its_own_commands(rsctl: Cli) -> None:
    assert "Did you mean 'list'?" in rsctl("bench", "ls").err
    assert "Did you mean" not in rsctl("bench", "ssh").err


def test_the_version(rsctl: Cli) -> None:
    assert rsctl("--version").out == f"rsctl, version {__version__}\n"


HEAVY = (
    *("rich", "torch", "boto3", "botocore", "google", "plotille", "sqlite3", "docker", "yaml"),
    "hashlib",
)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["plan", "--help"], {"yaml"}),
        (["validate", "job.yaml"], {"yaml", "sqlite3"}),
        (["plan", "job.yaml"], {"yaml", "sqlite3"}),
        (
            ["plan", "job.yaml", "-t", "compose", "--set", "image.base=x"],
            {"yaml", "sqlite3", "hashlib"},
        ),
    ],
)
def test_start_up_imports_nothing_heavy(
    rsctl: Cli, arguments: list[str], allowed: set[str]
) -> None:
    rsctl.write(JOB)
    code = (
        "import json, sys\nbefore = set(sys.modules)\nfrom rsctl.cli.app import run\n"
        "code = run(sys.argv[1:])\n"
        "new = set(sys.modules) - before\n"
        "print(json.dumps([code, sorted({name.partition('.')[0] for name in new})]))"
    )
    argv = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    exit_code, modules = json.loads(done.stdout.splitlines()[-1])
    assert exit_code == 0
    assert set(HEAVY) & set(modules) <= allowed


def test_a_supervisor_imports_nothing_that_few_runs_need() -> None:
    code = (
        "import sys\n"
        "from rsctl.targets.local import backend, supervisor, supervisor_process\n"
        "rare = {'dataclasses', 'hashlib', 'lzma', 'shutil', 'statistics', 'tempfile'}\n"
        "print(sorted({*rare, 'rsctl.runs.failures'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `rsctl list` raise."""

    def install(problem: BaseException) -> None:
        def raise_it(_store: Store, _limit: int = -1, **_: object) -> None:
            raise problem

        monkeypatch.setattr(Store, "runs", raise_it)

    return install


def test_a_bug_is_a_finding_not_a_traceback(
    rsctl: Cli, broken: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(ZeroDivisionError("division by \x1b[2Jzero"))
    done = rsctl("list")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "error: rsctl failed unexpectedly: ZeroDivisionError: division by \\x1b[2Jzero\n"
        "    -> report it, with the output of RSCTL_DEBUG=1\n"
    )
    monkeypatch.setenv("RSCTL_DEBUG", "1")
    assert rsctl("list").err.startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (
            errno.EACCES,
            "repair, move or remove that file, or set RSCTL_DEBUG=1 to see the traceback",
        ),
        (errno.ENOSPC, "free disk space"),
    ],
)
def test_a_problem_of_the_system_is_told_in_its_words(
    rsctl: Cli, broken: Callable[[BaseException], None], number: int, remedy: str
) -> None:
    broken(OSError(number, os.strerror(number), "/x"))
    done = rsctl("list", "--quiet")
    assert done.code == 3
    assert done.err == f"error: cannot use /x: {os.strerror(number)}\n    -> {remedy}\n"


@pytest.mark.parametrize("where", ["source", "RSCTL_HOME"])
def test_a_folder_whose_name_is_not_utf_8_is_named(
    rsctl: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = tmp_path / os.fsdecode(b"mod\xe8le")
    folder.mkdir()
    if where == "RSCTL_HOME":
        monkeypatch.setenv("RSCTL_HOME", str(folder))
    else:
        monkeypatch.chdir(folder)
    Path("job.yaml").write_text('name: a\nrun: {command: ["true"], launcher: none}\n')
    done = rsctl("submit", "job.yaml", "--target", "process")
    assert done.code == 3
    assert f"error: {tmp_path}/mod\\udce8le" in done.err
    assert done.err.endswith(
        " cannot be written as utf-8\n"
        "    -> use a path that is valid UTF-8, and a locale of UTF-8 such as LC_ALL=C.UTF-8\n"
    )


@pytest.mark.parametrize("words", [["submit"], ["bench", "run"]])
def test_a_file_whose_name_is_not_utf_8_is_an_input(rsctl: Cli, words: list[str]) -> None:
    (rsctl.folder / os.fsdecode(b"mod\xe8le.txt")).touch()
    job = rsctl.write('name: a\nrun: {command: ["true"], launcher: none}\n')
    assert rsctl(*words, job, "--target", "process").code == 0


def test_a_job_file_whose_name_is_not_utf_8_is_submitted(rsctl: Cli) -> None:
    name = os.fsdecode(b"mod\xe8le.yaml")
    rsctl.write('name: a\nrun: {command: ["true"], launcher: none}\n', name)
    assert rsctl("submit", name, "--target", "process").code == 0


@pytest.mark.parametrize("words", [["init"], ["gate", "calibrate"], ["bench"], ["bench", "run"]])
def test_a_python_without_docstrings_shows_the_same_help(words: list[str]) -> None:
    shown = [
        subprocess.check_output([sys.executable, *options, "-m", "rsctl", *words, "--help"])
        for options in ([], ["-OO"])
    ]
    assert shown[0] == shown[1]


def test_an_interruption_ends_with_130(rsctl: Cli, broken: Callable[[BaseException], None]) -> None:
    broken(KeyboardInterrupt())
    assert rsctl("list").code == 130


def test_a_reader_that_has_seen_enough_is_no_problem(
    rsctl: Cli, make_run: Callable[..., MadeRun]
) -> None:
    made = make_run("job-aaaaaa")
    with made.folder.log("worker-0").open("w") as file:
        file.writelines(f"2026-01-31T12:00:03.000000Z o line {n}\n" for n in range(200_000))
    made.succeed(4)
    done = rsctl.shell("rsctl logs @last | head -1")
    assert (done.code, done.out, done.err) == (0, "worker-0 | line 0\n", "")
    done = rsctl.shell("rsctl logs @last -o json | head -1")
    assert (done.code, len(done.events), done.err) == (0, 1, "")
    assert rsctl.shell("rsctl --help | true").code == 0
    value = MetricEvent(time=at(3), replica="worker-0", name="loss", value=0.5)
    made.store.add_metrics(made.run, [value] * 5000)
    done = rsctl.shell("rsctl export @last --table metrics | head -1")
    assert (done.code, done.out[:4], done.err) == (0, "run,", "")


@pytest.mark.parametrize("is_unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["validate", "plan", "bench run"])
def test_a_reader_that_goes_away_hides_no_error(
    rsctl: Cli, command: str, is_unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", is_unbuffered)
    rsctl.write("name: [")
    done = rsctl.shell(f"rsctl {command} job.yaml -o json | true")
    assert done.code == 2
    assert ("error: a value is missing here" in done.err) is (command != "validate")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *(("validate bad.yaml -o sarif", 2), ("validate job.yaml bad.yaml", 2)),
        *(("status @last --watch", 130), ("status @last --watch -o json", 130)),
        ("status @last", 0),
    ],
)
def test_a_reader_that_goes_away_changes_no_exit_code(
    rsctl: Cli, make_run: Callable[..., MadeRun], command: str, code: int
) -> None:
    """A pipeline with pipefail: `rsctl validate … | head -1`. A watch ends as `rsctl watch`."""
    make_run("job-aaaaaa").succeed(4)
    rsctl.write("name: job\nrun: {script: src/train.py}\n")
    rsctl.write("name: job\nrun: {script: 1, args: [}\n", "bad.yaml")
    assert rsctl.shell(f"rsctl {command} | true").code == code


@pytest.mark.parametrize(
    "command",
    [
        *("list", "list -o json", "status @last", "logs @last", "report @last -o -"),
        *("schema", "catalog", "completion bash", "--version", "--help", "submit --help"),
    ],
)
def test_a_full_disk_below_the_output_is_told(
    rsctl: Cli, make_run: Callable[..., MadeRun], command: str
) -> None:
    made = make_run()
    made.log(2, "hello")
    made.succeed(3)
    done = rsctl.shell(f"rsctl {command} > /dev/full")
    assert done.code == 3
    assert done.err == (
        "error: cannot write to standard output: No space left on device\n"
        "    -> free disk space, and run the command again\n"
    )


class FailingDisk(io.FileIO):
    """A file on a disk or a mounted bucket that fails."""

    is_failing = True

    def write(self, data: Any, /) -> int:
        if self.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(data)


@pytest.mark.parametrize(
    "command", ["validate job.yaml", "validate job.yaml -o json", "status @last --watch"]
)
def test_a_file_that_cannot_be_written_is_told(
    rsctl: Cli, make_run: Callable[..., MadeRun], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """With the error that a closed terminal has too."""
    rsctl.write(JOB)
    make_run("job-aaaaaa").succeed(4)
    disk = FailingDisk(rsctl.folder / "out", "w")
    with io.TextIOWrapper(io.BufferedWriter(disk)) as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        code = run(command.split())
        disk.is_failing = False
    assert code == 3


def test_a_terminal_that_was_closed_hides_no_outcome(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    rsctl.write(JOB)
    master, terminal = os.openpty()
    os.close(master)
    with os.fdopen(terminal, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert run(["validate", "job.yaml"]) == 0


def test_closed_streams_are_no_problem(rsctl: Cli, make_run: Callable[..., MadeRun]) -> None:
    make_run().succeed(3)
    assert rsctl.shell("rsctl list >&-").code == 0
    assert rsctl.shell("rsctl list 2>&- >/dev/null").code == 0
    assert rsctl.shell("rsctl status nope 2>&-").code == 2
    assert rsctl.shell("rsctl validate - <&-").code == 2
    assert rsctl.shell("rsctl shell @last <&-").code == 2
    assert rsctl.shell("rsctl mcp <&-").code == 0


def test_an_output_that_cannot_take_every_character(
    rsctl: Cli, make_run: Callable[..., MadeRun]
) -> None:
    made = make_run(workers=1)
    made.log(2, "\u4e2d")
    made.succeed(3)
    done = rsctl.process("logs", "@last", PYTHONIOENCODING="ascii")
    assert (done.code, done.out) == (0, "worker-0 | \\u4e2d\n")
    done = rsctl.process("logs", "@last", "-o", "json", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.events[0]["text"] == "\u4e2d"


def test_a_file_is_shown_as_utf_8_in_every_locale(rsctl: Cli) -> None:
    rsctl.write("name: caf\u00e9\n")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = rsctl.process("plan", "job.yaml", **ascii_only)
    assert done.code == 2
    assert "    name: caf\u00e9\n          ^\n" in done.err


@pytest.mark.parametrize("command", ["validate job.yaml", "plan job.yaml", "build-image job.yaml"])
def test_a_working_directory_that_was_removed_is_the_error(
    rsctl: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = rsctl(*command.split())
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "error: the working directory no longer exists\n    -> change to a folder that exists\n"
    )
    assert rsctl("list").code == 0


def test_colours_are_for_terminals_and_only_if_nobody_objects(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:

    def shown(*options: str) -> str:
        done = rsctl.terminal("validate", "nothing.yaml", *options, stdout=subprocess.DEVNULL)
        assert done.code == 2
        return done.out

    assert "\x1b[31m\x1b[1merror" in shown()
    assert "\x1b" not in shown("--no-color")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown()
    monkeypatch.delenv("TERM")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown()
    assert "\x1b" not in rsctl.process("validate", "nothing.yaml").err


def test_no_color_does_not_reach_the_environment(rsctl: Cli) -> None:
    rsctl("list", "--no-color")
    assert "NO_COLOR" not in os.environ


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_for_every_shell(rsctl: Cli, shell: str) -> None:
    done = rsctl("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_RSCTL_COMPLETE=complete_{shell}" in done.out
    assert rsctl("completion", "tcsh").code == 2


COMPLETED = {
    "rsctl st": "status",
    "rsctl bench c": "cancel",
    "rsctl --": "--version --help",
    "rsctl logs ": "@last job-aaaaaa",
    "rsctl logs job": "job-aaaaaa",
    "rsctl bench status @": "@last",
    "rsctl logs -f --ro": "--role",
    "rsctl plan -t ver": "vertex",
    "rsctl plan job.yaml -o ": "text json python script",
    "rsctl init dd": "ddp",
    "rsctl plan job.yaml --set limits.g": "(-o nospace) limits.grace=",
    "rsctl plan --set inputs.a.m": "(-o nospace) inputs.a.mode=",
    "rsctl plan --set = limits.g": "(-o nospace) limits.grace=",  # bash splits words at =
    "rsctl plan --target = ver": "vertex",
    "rsctl list --state =": "queued starting running succeeded failed cancelling cancelled expired",
    "rsctl plan --set limits.grace = 1m --target ver": "vertex",
    "rsctl plan --set targets.vertex.regio": "(-o nospace) targets.vertex.region=",
    "rsctl logs job-a --replica ": "worker-0 worker-1",
    "rsctl logs @last -f --replica worker-1": "worker-1",
    "rsctl logs other --replica ": "",
    "rsctl shell job-aaaaaa ": "worker-0 worker-1",
    "rsctl plan job": "",  # bash completes names of files then
}
COMPLETE = """
eval "$(rsctl completion bash)"
complete=$(complete -p rsctl | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
compopt() { printf '(%s %s) ' "$@"; }
"""


def test_bash_completes_commands_options_values_runs_and_benches(
    rsctl: Cli, make_run: Callable[..., MadeRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("job-aaaaaa")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    script = COMPLETE
    for words in (line.split(" ") for line in COMPLETED):
        given = " ".join(f"'{word}'" for word in words)
        script += f"COMP_WORDS=({given}) COMP_CWORD={len(words) - 1}\n"
        script += '$complete rsctl; echo "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert dict(zip(COMPLETED, done.stdout.splitlines(), strict=True)) == COMPLETED


def test_zsh_finds_the_program_of_a_script_in_a_folder_of_functions(rsctl: Cli) -> None:
    """compinit reads the first line of each file there."""
    assert rsctl("completion", "zsh").out.startswith("#compdef rsctl\n")


def test_the_beginning_of_an_id_completes_an_old_run(make_run: Callable[..., MadeRun]) -> None:
    for name in ["job-aaaaaa", *(f"other-{number:06}" for number in range(60))]:
        make_run(name)
    assert options._complete_runs("job-a") == ["job-aaaaaa"]
    assert options._complete_runs("")[:2] == ["@last", "other-000059"]
    assert len(options._complete_runs("")) == 51


@pytest.mark.parametrize("command", ["list", "status x", "logs x", "metrics x", "cancel x"])
def test_a_store_that_cannot_be_used_ends_with_3(
    rsctl: Cli, rsctl_home: Path, command: str
) -> None:
    rsctl_home.mkdir()
    (rsctl_home / "runs.db").write_bytes(b"no database" * 100)
    done = rsctl(*command.split())
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"error: cannot use {rsctl_home}/runs.db: file is not a database\n"
        "    -> move it to another place, or set RSCTL_HOME to another folder\n"
    )


def test_a_home_that_is_a_file_ends_with_3(rsctl: Cli, rsctl_home: Path) -> None:
    rsctl_home.write_text("")
    rsctl.write(JOB)
    for command in (["list"], ["submit", "job.yaml", "--set", "run.launcher=once"]):
        done = rsctl(*command)
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith(f"error: cannot use {rsctl_home}/runs.db: ")
        assert "Traceback" not in done.err


def test_a_store_that_breaks_while_it_is_read_ends_with_3(
    rsctl: Cli, make_run: Callable[..., MadeRun]
) -> None:
    made = make_run()
    made.metric(2, "loss", 1)
    made.succeed(3)
    made.store._db.execute("DROP TABLE metrics")
    made.store._db.execute("UPDATE runs SET plan='{'")
    for command in ("status @last", "logs @last", "metrics @last", "cancel @last"):
        done = rsctl(*command.split())
        assert done.code == 3
        assert done.err.startswith("error: cannot read job-aaaaaa: ")


def test_an_error_of_a_server_for_agents_is_not_a_group(rsctl: Cli) -> None:
    client = {"name": "x", "version": "1"}
    parameters = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    (rsctl.folder / "request").write_text(json.dumps(request) + "\n")
    done = rsctl.shell("rsctl mcp < request > /dev/full")
    assert done.code == 3
    assert done.err.startswith("error: [Errno 28] No space left on device\n    -> free disk space")


def test_the_schema_is_the_schema(rsctl: Cli) -> None:
    done = rsctl("schema")
    assert (done.code, done.err) == (0, "")
    assert done.json["properties"]["workers"]
