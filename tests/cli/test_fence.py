"""What a CI system would take for its commands in what rsctl prints."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rsctl.cli.fence import Escape, fence_output
from tests.cli.conftest import Cli
from tests.kit.polling import DEADLINE_SECONDS

HOSTILE = (
    "::stop-commands::pwned",
    "  ::add-mask::a",
    "\u2003::error::forged",
    "x ##[error]forged",
    "##vso[task.setvariable variable=a]b",
    "##teamcity[buildStatus text='b']",
    "##octopus[setVariable name='YQ==' value='Yg==']",
    "travis_fold:start:a\r\x1b[0Ktravis_time:end:1:start=1,finish=2,duration=1\r\x1b[0K",
    "one\r::error::forged",
    "one\x0b::error::forged",
    "\x1b[0Ksection_start:1:evil\r\x1b[0Khidden",
    "left\u202eright\u2066\u200b\U000e0041",
    "\r::error::forged",
    "#\ufe0f#[error]forged",
    "\u3000\ufe0f::error::forged",
    "x #\U00013430#vso[task.complete]done",
    "--- group",
    "+++",
    "~~~\tgroup",
    "^^^ +++",
)


# .NET compares by the rules of a culture, which ignore these: string.IndexOf(string).
IGNORED = re.compile("[\ufe00-\ufe0f\U00013430-\U00013455]")


def acts(text: str) -> list[str]:
    """The lines that a runner would act on, read as actions/runner and GitLab read them."""
    lines = re.split(r"\r\n|\r|\n", text)  # .NET's ReadLine
    return [
        line
        for line in lines
        if IGNORED.sub("", line).lstrip().startswith("::")
        or re.search(
            r"##(vso|teamcity|octopus)?\[|section_(start|end):|travis_(fold|time):",
            IGNORED.sub("", line),
        )
        or re.match(r"(---|\+\+\+|~~~)(\s|$)|\^\^\^\s+\+\+\+", line)
        or re.search("[\x00-\x08\x0b-\x1f\u202e\u2066\u200b\U000e0041]", line)
    ]


def test_texts_are_escaped() -> None:
    assert [Escape()(text) for text in HOSTILE] == [
        ":\\u003astop-commands::pwned",
        "  :\\u003aadd-mask::a",
        "\u2003:\\u003aerror::forged",
        "x ##\\u005berror]forged",
        "##vso\\u005btask.setvariable variable=a]b",
        "##teamcity\\u005bbuildStatus text='b']",
        "##octopus\\u005bsetVariable name='YQ==' value='Yg==']",
        "travis_fold\\u003astart:a\\u000d\\u001b[0Ktravis_time\\u003aend:1:start=1,finish=2,duration=1"
        "\\u000d\\u001b[0K",
        "one\\u000d::error::forged",
        "one\\u000b::error::forged",
        "\\u001b[0Ksection_start\\u003a1:evil\\u000d\\u001b[0Khidden",
        "left\\u202eright\\u2066\\u200b\\udb40\\udc41",
        "\\u000d::error::forged",
        "#\\ufe0f#[error]forged",
        "\u3000\\ufe0f::error::forged",
        "x #\\ud80d\\udc30#vso[task.complete]done",
        "--\\u002d group",
        "++\\u002b",
        "~~\\u007e\tgroup",
        "^^^ +\\u002b+",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("a::b", "std::vector<int>", "# [1]", "a: [::1]", "⚠️ déjà\tvu", "-----", "x\n---x"),
        *("a --- b", "| --- |", "^^^", "+1", "❤️\n"),
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert Escape()(text) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_the_parts_in_which_a_text_comes_do_not_matter(text: str) -> None:
    for size in (1, 2, 3):
        escape = Escape()
        parts = [escape((text + "\n")[at : at + size]) for at in range(0, len(text) + 1, size)]
        assert not acts("".join(parts))
    blank = " " * 500
    for parts in (("a\n" + blank, ":", ":x::"), (f"a\n{blank}:", ":x::"), ("a\n", f"{blank}::x::")):
        assert "".join(map(Escape(), parts)) == f"a\n{blank}:\\u003ax::"


def test_escaped_json_is_the_same_document() -> None:
    data = msgspec.json.format(msgspec.json.encode({text: [text] for text in HOSTILE})).decode()
    assert json.loads(Escape()(data)) == {text: [text] for text in HOSTILE}
    assert not acts(Escape()(data))


PROGRAM = """
import sys
for text in {texts!r}:
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
print("loss=1.5", flush=True)
sys.exit(3)
"""


@pytest.fixture
def hostile(rsctl: Cli, tmp_path: Path) -> str:
    """A job whose log, unit and arguments are hostile."""
    job = {
        "name": "hostile",
        "target": "process",
        "metrics": {
            "loss": {"regex": "loss=(?P<value>[0-9.]+)", "goal": "min", "unit": "::error::y"}
        },
        "matrix": {"run.args.mode": ["::add-mask::a", "##[error]b"]},
        "run": {"script": "train.py", "launcher": "once", "args": {"mode": "x"}},
    }
    (tmp_path / "train.py").write_text(PROGRAM.format(texts=HOSTILE))
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job))
    return str(path)


@pytest.mark.timeout(400)
def test_no_command_prints_what_acts(rsctl: Cli, hostile: str) -> None:
    """Each text of a process in two ways: in blocks, and as it is printed."""
    commands = [
        ("bench", "run", hostile),
        ("bench", "status", "@last"),
        ("bench", "list"),
        ("logs", "@last"),
        ("logs", "@last", "-o", "json"),
        ("status", "@last"),
        ("list",),
        ("metrics", "@last"),
        ("export", "@last", "--format", "json"),
        ("export", "@last", "--format", "csv", "--table", "runs"),
        ("gate", "@last", "--baseline", "@last", "--max-regression", "loss=5%"),
        ("gate", "@last", "--baseline", "@last", "--max-regression", "##[error]x=5%"),
        ("compare", "@last", "-o", "markdown"),
        ("plan", hostile),
        ("validate", hostile, "--set", "run.args.mode=::error::x"),
        ("nonsense::error::x\n::error::y",),
    ]
    shown = ""
    modes: list[tuple[dict[str, str], tuple[str, ...]]] = [({}, command) for command in commands]
    modes += [({"PYTHONUNBUFFERED": "1"}, command) for command in commands[:4]]
    for unbuffered, command in modes:
        done = rsctl.process(*command, GITHUB_ACTIONS="true", **unbuffered)
        own = [line for line in done.err.splitlines() if "title=" in line and line[:2] == "::"]
        assert acts(done.out) == [], command
        assert acts(done.err) == own, command
        shown += done.out + done.err
    assert "x ##\\u005berror]forged" in shown


def test_the_command_of_a_gate_does_act(rsctl: Cli, hostile: str) -> None:
    rsctl.process("bench", "run", hostile)
    limit = ("--baseline", "@last", "--max-regression", "loss=5%")
    done = rsctl.process("gate", "@last", *limit, GITHUB_ACTIONS="true")
    assert [line[:8] for line in done.err.splitlines() if line[:2] == "::"] == ["::error "] * 2


def test_a_table_in_a_pipe_of_a_ci_system_is_the_same_table(rsctl: Cli, tmp_path: Path) -> None:
    """Its last column was `unit\\u000d`."""
    (tmp_path / "job.yaml").write_text(
        json.dumps({"name": "t", "target": "process", "run": {"command": ["true"]}})
    )
    rsctl.process("submit", str(tmp_path / "job.yaml"))
    for table in ("runs", "telemetry"):
        shown = [rsctl.process("export", "@last", "--table", table, CI=ci) for ci in ("true", "")]
        assert shown[0].out == shown[1].out


@pytest.mark.parametrize(
    ("variable", "count"), [("CI", 0), ("GITLAB_CI", 0), ("JENKINS_URL", 0), ("OTHER", 1)]
)
def test_the_fence_is_for_ci_systems(rsctl: Cli, variable: str, count: int) -> None:
    done = rsctl.process("list", "##[error]x", **{variable: "true"})
    assert done.err.count("##[error]x") == count


SHARED = """
import sys
from rsctl.cli.fence import fence_output, write_workflow_command
fence_output()
out, err = sys.stdout, sys.stderr
for stream, text in (
    (out, "one #"), (err, "#[error]two\\n"), (out, "::error::three\\n"), (err, "four"),
):
    print(text, end="", file=stream, flush=True)
write_workflow_command("::notice::rsctl")
print("::error::five", file=err)
"""


def test_two_streams_into_one_are_one_text() -> None:
    argv = [sys.executable, "-c", SHARED]
    env = {**os.environ, "CI": "true"}
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    assert done.stdout.decode().splitlines() == [
        "one ##\\u005berror]two",
        ":\\u003aerror::three",
        "four::notice::rsctl",
        ":\\u003aerror::five",
    ]


FENCED = """
import os, sys
from rsctl.cli.fence import run_fenced
sys.exit(run_fenced(sys.argv[1:], None, os.environ))
"""
SIGNALLING = """
import ctypes, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
threads = os.listdir(f"/proc/{os.getppid()}/task")
ctypes.CDLL(None).tgkill(os.getppid(), max(map(int, threads)), signal.SIGTERM)
assert signal.sigtimedwait([signal.SIGTERM], 10)
"""


def test_a_signal_that_another_thread_gets_reaches_the_command() -> None:
    """The kernel chooses the thread; the signal interrupts the wait of that thread only."""
    argv = [sys.executable, "-c", FENCED, sys.executable, "-c", SIGNALLING]
    subprocess.run(argv, check=True, timeout=DEADLINE_SECONDS)


def test_a_terminal_of_a_ci_system_is_fenced(rsctl: Cli) -> None:
    """Buildkite's agent runs commands in a pseudoterminal."""
    done = rsctl.terminal("list", "x ##[error]y", BUILDKITE="true")
    assert done.code == 2
    assert "x ##\\u005berror]y" in done.out
    assert not acts(done.out)


def test_a_file_has_what_was_printed(rsctl: Cli, tmp_path: Path) -> None:
    code = "import sys\nfrom rsctl.cli.fence import fence_output\nfence_output()\n"
    code += "print('::error::x')\n"
    argv = [sys.executable, "-c", code]
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(argv, stdout=out, check=True, env={**os.environ, "CI": "true"})
    assert (tmp_path / "out").read_bytes() == b"::error::x\n"


@pytest.mark.parametrize(("is_unbuffered", "early"), [(True, b"one\n"), (False, b"")])
def test_an_unbuffered_stream_stays_unbuffered(
    monkeypatch: pytest.MonkeyPatch, is_unbuffered: bool, early: bytes
) -> None:
    """As with PYTHONUNBUFFERED, where a CI system shows each line as it comes."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with open(reader, "rb", buffering=0) as pipe, open(writer, "wb", buffering=0) as raw:
        buffer = raw if is_unbuffered else io.BufferedWriter(raw)
        own = io.TextIOWrapper(buffer, write_through=is_unbuffered)
        monkeypatch.setattr(sys, "stdout", own)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        fence_output()
        print("one")
        assert (pipe.read() or b"") == early
        sys.stdout.flush()
        assert (pipe.read() or b"") == b"one\n".removeprefix(early)
