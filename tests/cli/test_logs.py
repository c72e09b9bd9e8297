"""`rsctl logs`: the merged log and its options, of runs with lines of our choice."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from rsctl.findings import JobState
from rsctl.runs.stream.events import Failure
from tests.kit.polling import wait_until

from .conftest import Cli, MadeRun, at

Make = Callable[..., MadeRun]


@pytest.fixture
def made(make_run: Make) -> MadeRun:
    """A run of two workers that failed, with telemetry among its lines."""
    run = make_run("job-aaaaaa")
    run.log(2, "step 1")
    run.log(4, '{"rsctl": "telemetry", "cpu": 1}')
    run.log(6, '{"rsctl": "metrics", "step": 2, "loss": 0.5}')
    run.log(8, "bad \x1b[2Jtext", stream="e")
    run.log(3, "step 1", "worker-1")
    run.log(5, "10%\r20%", "worker-1", stream="e")
    run.log(7, "ValueError: x", "worker-1", stream="e")
    run.log(9, '{"rsctl": "exit", "code": 1}', "worker-1")
    return run.fail(10, Failure(replica="worker-1", time=at(7), exit_code=1))


WHOLE = """\
worker-0 | step 1
worker-1 | step 1
worker-1 | 20%
worker-0 | step 2  loss=0.5
worker-1 | ValueError: x
worker-0 | bad text
"""


def test_the_merged_log(rsctl: Cli, made: MadeRun) -> None:
    for reference in ("@last", "job-aaaaaa", "job", "process://job-aaaaaa"):
        done = rsctl("logs", reference)
        assert (done.code, done.out, done.err) == (0, WHOLE, "")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--replica", "worker-1"], [1, 2, 4]),
        (["--replica", "worker-1", "--replica", "worker-0"], [0, 1, 2, 3, 4, 5]),
        (["--role", "worker"], [0, 1, 2, 3, 4, 5]),
        (["--role", "reducer"], []),
        (["--failed"], [1, 2, 4]),
        (["--failed", "--replica", "worker-0"], []),
        (["--grep", "step"], [0, 1, 3]),
        (["--grep", "^step .$"], [0, 1]),
        (["--since", "2026-01-31T12:00:06Z"], [3, 4, 5]),
        (["--since", "2026-01-31T13:00:06+01:00"], [3, 4, 5]),
        (["--since", "2026-01-31 12:00:06"], [3, 4, 5]),
        (["--since", "2026-02-01"], []),
        (["--since", "0001-01-01"], [0, 1, 2, 3, 4, 5]),
        (["--since", "10m"], []),
        (["--tail", "2"], [4, 5]),
        (["--tail", "0"], []),
        (["--tail", "100"], [0, 1, 2, 3, 4, 5]),
        (["--tail", "1", "--replica", "worker-1"], [4]),
        (["--tail", "1", "--grep", "step"], [3]),
        (["--tail", "2", "--since", "2026-01-31T12:00:08Z"], [5]),
        (["--tail", "2", "--follow"], [4, 5]),
        (["--follow"], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_options_choose_lines(
    rsctl: Cli, made: MadeRun, options: list[str], shown: list[int]
) -> None:
    lines = WHOLE.splitlines(keepends=True)
    done = rsctl("logs", "@last", *options)
    assert (done.code, done.out) == (0, "".join(lines[i] for i in shown))
    if "--follow" not in options:  # which ends with the final state
        is_filtered = not shown and options[0] != "--tail"
        assert done.err == ("no line of job-aaaaaa matches\n" if is_filtered else "")


def test_no_line_matches(rsctl: Cli, make_run: Make) -> None:
    run = make_run(workers=1)
    run.log(2, '{"rsctl": "telemetry", "cpu": 1}')
    run.succeed(4)
    for more in ([], ["-o", "json"]):
        done = rsctl("logs", "@last", "--grep", "step", *more)
        assert (done.code, done.out, done.err) == (0, "", "no line of job-aaaaaa matches\n")
    assert rsctl("logs", "@last", "--grep", "cpu").err == "no line of job-aaaaaa matches\n"
    assert rsctl("logs", "@last", "--grep", "cpu", "-o", "json").err == ""


def test_as_json_every_line_is_told_as_it_is(rsctl: Cli, made: MadeRun) -> None:
    done = rsctl("logs", "@last", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert [event["time"] for event in done.events] == [at(second) for second in range(2, 10)]
    assert done.events[6] == {
        "type": "log",
        "time": at(8),
        "replica": "worker-0",
        "id": done.events[6]["id"],
        "stream": "stderr",
        "text": "bad \x1b[2Jtext",
    }
    [last] = rsctl("logs", "@last", "-o", "json", "--tail", "1").events
    assert last["text"] == '{"rsctl": "exit", "code": 1}'


def test_the_tail_is_of_lines_that_are_shown(rsctl: Cli, make_run: Make) -> None:
    """Of a long run most of the last lines may be telemetry."""
    run = make_run(workers=1)
    for number in range(5):
        run.log(2, f"line {number}")
    for _ in range(300):
        run.log(3, '{"rsctl": "telemetry", "cpu": 1}')
    run.succeed(4)
    for options in ([], ["--follow"]):
        done = rsctl("logs", "@last", "--tail", "2", *options)
        assert done.out == "worker-0 | line 3\nworker-0 | line 4\n"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--since", "soon"], 2, "'soon' is neither a duration such as 10m nor a time such as"),
        (["--since", "99999999999999h"], 2, "is neither a duration"),
        (["--since", "0001-01-01T00:00:00+14:00"], 2, "is neither a duration"),
        (["--grep", "("], 2, "Invalid value for --grep: missing ), unterminated subpattern"),
        (["--tail", "-1"], 2, "Invalid value for '--tail'"),
        (["--role", "chief"], 2, "error: job-aaaaaa has no role 'chief'\n    -> it has worker\n"),
        (["--replica", "worker-9"], 2, "error: job-aaaaaa has no replica 'worker-9'\n"),
    ],
)
def test_wrong_options_are_refused(
    rsctl: Cli, made: MadeRun, options: list[str], code: int, message: str
) -> None:
    done = rsctl("logs", "@last", *options)
    assert (done.code, done.out) == (code, "")
    assert message in done.err


def test_of_a_run_without_a_failure_no_replica_failed(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(2)
    done = rsctl("logs", "@last", "--failed")
    assert (done.code, done.out, done.err) == (0, "", "no replica of job-aaaaaa has failed\n")


def test_a_run_that_has_written_nothing(rsctl: Cli, make_run: Make) -> None:
    run = make_run()
    lock = run.folder.lock()
    assert rsctl("logs", "@last").err == "job-aaaaaa has written nothing yet\n"
    os.close(lock)
    run.succeed(2)
    said = "job-aaaaaa has written nothing\n"
    for options in ([], ["--tail", "3"], ["-o", "json"], ["-f"]):
        done = rsctl("logs", "@last", *options)
        end = "job-aaaaaa succeeded after 0:02\n" if options == ["-f"] else ""
        assert (done.code, done.out, done.err) == (0, "", said + end)
    assert rsctl("logs", "@last", "--replica", "worker-1").err == "no line of job-aaaaaa matches\n"


def test_no_run_and_several(rsctl: Cli, make_run: Make) -> None:
    done = rsctl("logs", "@last")
    assert (done.code, done.err) == (
        2,
        "error: there are no runs yet\n    -> start one: rsctl submit JOB\n",
    )
    make_run("job-aaaaaa").succeed(2)
    make_run("job-bbbbbb", second=1).succeed(2)
    done = rsctl("logs", "job")
    assert (done.code, done.err) == (
        2,
        "error: 'job' matches several runs: job-bbbbbb, job-aaaaaa\n"
        "    -> give more characters of the ID\n",
    )


def test_following_shows_what_comes_until_the_end(rsctl: Cli, make_run: Make) -> None:
    """The lock is held here in place of a supervisor, so that the run is taken for alive."""
    import os
    import subprocess

    run = make_run(workers=1)
    lock = run.folder.lock()
    run.log(2, "one")
    run.log(3, "two")
    argv = rsctl.argv("logs", "@last", "-f", "--tail", "1")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "worker-0 | two\n"
        run.log(4, "three")
        assert follower.stdout.readline() == "worker-0 | three\n"
        assert follower.poll() is None
        run.log(5, "four")
        run.state(6, JobState.SUCCEEDED, exit_code=0)
        assert follower.stdout.read() == "worker-0 | four\n"
    os.close(lock)
    assert wait_until(lambda: follower.returncode is not None)
    assert follower.returncode == 0
    assert rsctl("logs", "@last", "-f").err == "job-aaaaaa succeeded after 0:06\n"
    assert rsctl("logs", "@last").err == rsctl("logs", "@last", "-f", "-o", "json").err == ""


def test_of_many_workers_the_chief_alone_is_followed(rsctl: Cli, make_run: Make) -> None:
    """And it is said; whoever chooses replicas or lines, or has a program read them, gets them."""
    for count in (8, 9):
        run = make_run(f"job-{count}aaaaa", workers=count)
        for worker in range(count):
            run.log(2 + worker / 100, f"line {worker}", f"worker-{worker}")
        run.succeed(3)
    assert len(rsctl("logs", "-f", "job-8aaaaa").out.splitlines()) == 8
    done = rsctl("logs", "-f", "job-9aaaaa")
    assert done.out == "worker-0 | line 0\n"
    assert done.err == (
        "job-9aaaaa has 9 workers: following only worker-0; to follow all: rsctl logs -f --all "
        "job-9aaaaa\njob-9aaaaa succeeded after 0:03\n"
    )
    for more in (["--all"], ["--role", "worker"], ["--grep", "line"], ["-o", "json"]):
        done = rsctl("logs", "-f", "job-9aaaaa", *more)
        assert len(done.out.splitlines()) == 9
        assert "following only" not in done.err
    assert rsctl("logs", "-f", "job-9aaaaa", "--replica", "worker-3").out == "worker-3 | line 3\n"
    assert len(rsctl("logs", "job-9aaaaa").out.splitlines()) == 9
