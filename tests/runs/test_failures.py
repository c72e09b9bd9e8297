"""What a job says of itself: true where it has the form, and never more than a text of one line."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rsctl.findings import Finding
from rsctl.runs.exit_reports import ExitReports, believable, exit_report, runtime_finding
from rsctl.runs.failures import first_failure
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.stream.ends import Killer
from rsctl.runs.stream.events import Failure, LogEvent

from .conftest import at


def a_line(kind: str, **fields: Any) -> LogEvent:
    return LogEvent(at(5), "worker-0", "0", "stdout", json.dumps({"rsctl": kind, **fields}))


def test_a_finding_of_a_job_is_one_line_and_points_nowhere() -> None:
    told = {
        "severity": "warning",
        "code": "x\ny",
        "message": "fine\n\x1b[2Jerror: pay here",
        "remedy": "a\r\nb",
        "file": "/etc/passwd",
        "line": 1,
        "column": 1,
        "path": "run",
    }
    assert runtime_finding(a_line("finding", **told)) == Finding(
        severity="warning", code="x y", message="fine error: pay here", remedy=" b"
    )
    assert runtime_finding(a_line("finding", severity="fatal")) is None


@pytest.mark.parametrize(
    ("fields", "signal", "time"),
    [
        ({"code": 137, "signal": "SIGKILL", "time": at(3)}, "SIGKILL", at(3)),
        ({"code": 1, "signal": "SIGX\nerror: forged", "time": "\nerror: forged"}, None, at(5)),
        ({"code": 1, "signal": 9, "time": 9}, None, at(5)),
    ],
)
def test_a_report_of_a_rank(fields: dict[str, Any], signal: str | None, time: str) -> None:
    report = exit_report(a_line("exit", **fields))
    assert report is not None
    assert (report.signal, report.time) == (signal, time)


@pytest.mark.parametrize(
    ("reported", "known", "code", "end"),
    [
        (None, None, "killed", "the sender is unknown"),
        (0, None, "killed", "the kernel killed no process there to free memory"),
        (2, None, "memory", "because memory was exhausted"),
        (None, True, "memory", "because memory was exhausted"),
        (0, True, "memory", "because memory was exhausted"),
    ],
)
def test_who_killed_a_rank(reported: int | None, known: bool | None, code: str, end: str) -> None:
    folder = RunFolder("t-aaaaaa")
    folder.create(
        RunDescription(run="t-aaaaaa", target="process", request={}, replicas=["worker-0"])
    )
    fields = {} if reported is None else {"oom_kills": reported}
    line = a_line("exit", code=137, signal="SIGKILL", time=at(5), rank=0, **fields)
    folder.log("worker-0").write_text(f"{at(5)} o {line.text}\n")
    report = exit_report(line)
    assert report is not None
    failure = first_failure([report], folder, {"worker-0": Killer(known)})
    assert isinstance(failure, Failure)
    [cause] = failure.causes
    assert cause.code == code
    assert cause.message.endswith(end)


KEY = "a key of the launcher"
LOCK = hashlib.sha256(KEY.encode()).hexdigest()


def said(printed_by: str, kind: str, **fields: Any) -> LogEvent:
    return msgspec.structs.replace(a_line(kind, **fields), replica=printed_by)


def test_a_report_counts_that_has_the_key_of_its_launcher() -> None:
    reports = ExitReports({})
    reports.announced(said("worker-0", "node", lock=LOCK))
    [found] = [reports.read(said("worker-0", "exit", code=3, key=KEY))]
    assert found is not None
    assert (found.replica, found.exit_code, found.log) == ("worker-0", 3, None)
    brought = reports.read(said("worker-0", "exit", code=4, key=KEY, replica="worker-7"))
    assert brought is not None
    assert (brought.replica, brought.log) == ("worker-7", "worker-0")  # mpirun's
    sent = reports.read(said("reducer-0", "exit", code=4, key=KEY, replica="worker-0"))
    assert sent is not None
    assert (sent.replica, sent.log) == ("worker-0", "reducer-0")
    for forged in (
        said("worker-0", "exit", code=3),
        said("worker-0", "exit", code=3, key="another"),
        said("worker-0", "exit", code=3, key=""),
        said("worker-0", "exit", code=3, key="x" * 2000),
        said("worker-0", "exit", code=3, key=7),
        said("worker-1", "exit", code=3, key=KEY),
        said("worker-0", "node", code=3, key=KEY),
    ):
        assert reports.read(forged) is None


def test_a_node_that_is_kept_is_told_by_its_launcher() -> None:
    reports = ExitReports({})
    reports.announced(said("worker-0", "node", lock=LOCK))
    assert reports.kept(said("worker-0", "kept", code=3, key=KEY)) == 3
    for forged in (
        said("worker-0", "kept", code=3),
        said("worker-0", "kept", code=0, key=KEY),
        said("worker-0", "kept", code=256, key=KEY),
        said("worker-0", "kept", code="3", key=KEY),
        said("worker-0", "exit", code=3, key=KEY),
        said("worker-1", "kept", code=3, key=KEY),
    ):
        assert reports.kept(forged) is None


def test_as_many_announcements_count_as_the_replica_had_starts() -> None:
    """A program of the job can print one too, but only after its launcher has."""
    reports = ExitReports({})
    for number, key in enumerate(("one", "two", "three")):
        lock = hashlib.sha256(key.encode()).hexdigest()
        reports.announced(said("worker-0", "exits" if number else "node", lock=lock), starts=2)
    reports.announced(said("worker-1", "metric", lock=LOCK))
    reports.announced(said("worker-1", "node", lock=7))
    reports.announced(LogEvent(at(1), "worker-1", "0", "stdout", "no report"))
    read = [reports.read(said("worker-0", "exit", code=1, key=k)) for k in ("one", "two", "three")]
    assert [found is not None for found in read] == [True, True, False]
    assert reports.locks["worker-1"] == []


@pytest.mark.parametrize("code", [0, -1, 256, True, "1", None, 1.5])
def test_what_is_no_exit_code_of_a_failure_is_no_report(code: object) -> None:
    assert exit_report(a_line("exit", code=code)) is None


@pytest.mark.parametrize("code", [1, 255])
def test_what_a_report_says(code: int) -> None:
    report = exit_report(a_line("exit", code=code, rank=3, replica="worker-2"))
    assert report == Failure(replica="worker-2", log="worker-0", time=at(5), exit_code=code, rank=3)
    for name in ("worker-00", "worker-123456", "chief", 7, None):
        other = exit_report(a_line("exit", code=code, rank="3", replica=name))
        assert other == Failure(replica="worker-0", time=at(5), exit_code=code)
    own = exit_report(a_line("exit", code=code, replica="worker-0"))
    assert own == Failure(replica="worker-0", time=at(5), exit_code=code)
    assert exit_report(LogEvent(at(5), "worker-0", "0", "stdout", "no report")) is None


def test_reports_of_other_replicas_are_not_believed() -> None:
    own = Failure(replica="worker-0", time=at(1), exit_code=1)
    alive = Failure(replica="worker-1", time=at(1), exit_code=1)
    brought = Failure(replica="worker-2", log="worker-0", time=at(1), exit_code=1)
    strange = Failure(replica="worker-9", log="worker-0", time=at(1), exit_code=1)
    replicas = ["worker-0", "worker-1", "worker-2"]
    assert believable([own, alive, brought, strange], {"worker-0"}, replicas) == [own, brought]


def begun(**logs: list[str]) -> RunFolder:
    """The folder of a run whose replicas have logged this; line n in second n."""
    folder = RunFolder("t-aaaaaa")
    shutil.rmtree(folder.path, ignore_errors=True)
    replicas = ["worker-0", "worker-1"]
    folder.create(RunDescription(run="t-aaaaaa", target="process", request={}, replicas=replicas))
    for name, lines in logs.items():
        text = "".join(f"{at(second)} o {line}\n" for second, line in enumerate(lines))
        folder.log(name.replace("_", "-")).write_text(text)
    return folder


LOST = ["RuntimeError: Connection closed by peer"]
BROKEN = ["Traceback (most recent call last):", "ValueError: x"]


@pytest.mark.parametrize(
    ("seconds", "first"),
    [(0.0, "worker-1"), (1.99, "worker-1"), (2.0, "worker-0"), (-1.0, "worker-1")],
)
def test_the_earliest_failure_is_the_first_unless_it_only_lost_a_peer(
    seconds: float, first: str
) -> None:
    """That may overtake the peer's own failure, by up to two seconds."""
    folder = begun(worker_0=LOST, worker_1=BROKEN)
    later = f"2026-01-31T12:00:{10 + seconds:09.6f}Z"
    failures = [
        Failure(replica="worker-1", time=later, exit_code=1),
        Failure(replica="worker-0", time=at(10), exit_code=1),
    ]
    found = first_failure(failures, folder)
    assert found.replica == first
    assert found.lines == (BROKEN if first == "worker-1" else LOST)


def of_rank(rank: int, lines: list[str]) -> list[str]:
    return [f"[worker-0/{rank}] [rank{rank}]: {line}" for line in lines]


HAS_LOST = json.dumps({"rsctl": "lost", "rank": 1, "time": at(5), "op": "all_reduce"})


@pytest.mark.parametrize(
    ("logs", "end"),
    [
        ([BROKEN, BROKEN], "; 2 processes failed alike at the same time, so look at what they"),
        (
            [[*of_rank(0, BROKEN), *of_rank(1, BROKEN)], []],
            "; 2 processes failed alike at the same time, so look at what they",
        ),
        ([BROKEN, [HAS_LOST]], "; the other processes only lost this one, so look at what it"),
        ([BROKEN, [BROKEN[0], "KeyError: 'a'"]], None),
        ([BROKEN, ["step 1"]], None),
        ([["ncclInternalError: x"], ["ncclInternalError: x"]], None),
        ([LOST, LOST], None),
    ],
)
def test_the_remedy_says_whether_other_processes_failed_alike(
    logs: list[list[str]], end: str | None
) -> None:
    failure = Failure(replica="worker-0", time=at(9), exit_code=1)
    alone = first_failure([failure], begun(worker_0=BROKEN if end else logs[0])).causes[0].remedy
    found = first_failure([failure], begun(worker_0=logs[0], worker_1=logs[1]))
    remedy = found.causes[0].remedy or ""
    assert remedy.startswith((alone or "") + (end or ""))
    assert (remedy == alone) == (end is None)


def test_what_others_survived_long_before_is_no_failure_alike() -> None:
    folder = begun(worker_0=BROKEN)
    alone = first_failure([Failure(replica="worker-0", time=at(9), exit_code=1)], folder).causes
    hour_ago = [f"2026-01-31T11:00:00.000000Z o {line}\n" for line in BROKEN]
    folder.log("worker-1").write_text("".join(hour_ago))
    found = first_failure([Failure(replica="worker-0", time=at(9), exit_code=1)], folder)
    assert found.causes == alone


def test_where_all_have_lost_a_peer_the_earliest_is_the_first() -> None:
    folder = begun(worker_0=LOST, worker_1=LOST)
    failures = [
        Failure(replica=name, time=time, exit_code=1)
        for name, time in (("worker-0", at(2)), ("worker-1", at(1)))
    ]
    assert first_failure(failures, folder).replica == "worker-1"
    strange = msgspec.structs.replace(failures[0], time="0000")
    assert first_failure([strange, failures[1]], folder).replica == "worker-0"


def test_a_program_that_waited_in_vain_has_not_lost_a_rank_that_ended_before() -> None:
    """Such as rank 0, which uploads the model after the others have ended with exit code 0."""
    ended = json.dumps({"rsctl": "exit", "rank": 1, "time": at(1), "code": 0})
    upload = ["Traceback (most recent call last):", "TimeoutError: the upload timed out"]
    folder = begun(worker_0=upload, worker_1=[ended])
    found = first_failure([Failure(replica="worker-0", time=at(9), exit_code=1)], folder)
    assert (found.headline, found.lines) == ("worker-0 failed first: exit code 1", upload)


def test_the_lines_are_those_before_the_report_of_that_rank() -> None:
    def report(**fields: Any) -> str:
        return a_line("exit", code=3, time=at(5), **fields).text

    log = ["[step 1", report(rank=2), *BROKEN, report(rank=1), "the launcher's own"]
    folder = begun(worker_0=log)
    [*_, reported] = [
        found
        for text in log
        if (found := exit_report(LogEvent(at(5), "worker-0", "0", "stdout", text)))
    ]
    found = first_failure([reported], folder)
    assert (found.lines, found.rank) == (BROKEN, 1)
    unreported = first_failure([Failure(replica="worker-0", time=at(9), exit_code=3)], folder)
    assert unreported.lines[-1] == "the launcher's own"


OUT_OF_MEMORY = [
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 9, in evaluate',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
]


@pytest.mark.parametrize(
    ("after", "codes"),
    [
        (["step 4 loss 0.5", "step 5 loss 0.4", "step 6 loss 0.4"], []),
        (["INFO Epoch [3][10/90] loss 0.5", "INFO Epoch [4][10/90]", "INFO Epoch [5][10/90]"], []),
        ([" 4%| | 4/99 [0:01<0:09]", " 5%| | 5/99 [0:01<0:09]", " 6%| | 6/99 [0:01<0:09]"], []),
        ([f"Epoch(train)  [3][{n}0/90]  lr: 1e-4" for n in range(3)], []),
        ([f"{{'loss': 0.5, 'epoch': 0.{n}1}}" for n in range(3)], []),
        ([f"[{n}/9] c++ -c a{n}.cc" for n in range(9)], ["gpu-memory"]),  # a build by ninja
        ([f"model.safetensors: | {n}/3 [0:0{n}<0:03]" for n in (1, 2, 3)], ["gpu-memory"]),
        (["step 4", "step 4", "step 4", "step 4"], ["gpu-memory"]),  # each rank's line of one step
        (["epoch 1", "step 40", "iter 9"], ["gpu-memory"]),  # the summary of a tracker
        (["step 4", "step 5"], ["gpu-memory"]),
    ],
)
def test_an_error_before_the_last_steps_did_not_end_the_program(
    after: list[str], codes: list[str]
) -> None:
    folder = begun(worker_0=["step 1", *OUT_OF_MEMORY, *after])
    found = first_failure([Failure(replica="worker-0", time=at(30), exit_code=1)], folder)
    assert [cause.code for cause in found.causes] == codes
    assert ("Traceback" in found.lines[0]) == bool(codes)


def test_steps_that_a_program_prints_together_at_its_end_follow_the_error() -> None:
    folder = begun(worker_0=OUT_OF_MEMORY)
    with folder.log("worker-0").open("a") as log:
        log.writelines(f"{at(3)} o step {number}\n" for number in range(9))
    found = first_failure([Failure(replica="worker-0", time=at(3), exit_code=1)], folder)
    assert [cause.code for cause in found.causes] == ["gpu-memory"]


@pytest.mark.parametrize(("code", "codes"), [(1, ["gpu-memory"]), (3, [])])
def test_quick_steps_after_an_error_show_that_it_did_not_end_the_program(
    code: int, codes: list[str]
) -> None:
    folder = begun(worker_0=OUT_OF_MEMORY)
    with folder.log("worker-0").open("a") as log:
        log.writelines(f"2026-01-31T12:00:03.{n}00000Z o step {n}\n" for n in range(5))
    found = first_failure([Failure(replica="worker-0", time=at(4), exit_code=code)], folder)
    assert [cause.code for cause in found.causes] == codes


LATER = at(2)
LEAKED = "[rank0]:[W1130 10:00:00.1 NCCL.cpp:1] Warning: destroy_process_group() was not called"


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        (["o step 1", "e the split of shard 7 is empty"], 1, "the split of shard 7 is empty"),
        (["e the split of shard 7 is empty", f"e {LEAKED}"], 1, "the split of shard 7 is empty"),
        (["e the split of shard 7 is empty", 'o {"rsctl": "telemetry"}'], 1, "the split of shard"),
        (["e the split of shard 7 is empty"], 3, None),
        (["e the split of shard 7 is empty", "o step 2"], 1, "the split of shard 7 is empty"),
        (["e the split of shard 7 is empty", f"{LATER} o step 2"], 1, None),  # it survived that
        (["e the split of shard 7 is empty", f"{LATER} e INFO:root:done"], 1, None),
        (["o the split of shard 7 is empty"], 1, None),
        (["e step 7 loss 0.5"], 1, None),
        (["e  55%|#####     | 5/9 [00:01<00:01]"], 1, None),
        (["e   warnings.warn(text)"], 1, None),
        (["e n:7:7 [0] NCCL INFO cudaDriverVersion 12020"], 1, None),
        (["e wandb: Find logs at: ./wandb/a/logs"], 1, None),
        (["e reading shards", "e 2 shards are missing: retry with -p"], 1, "2 shards are missing"),
        (["e the split is empty", "e Retrying in 3 s"], 1, "the split is"),
        (["e the split is empty", "e libpng warning: known incorrect sRGB"], 1, "the split is"),
        (["e Exception ignored in: <function Loader.__del__>"], 1, None),
        (["e Traceback (most recent call last):", "e a part of it"], 1, None),
        ([], 1, None),
    ],
)
def test_the_last_words_of_a_script_are_its_reason(
    lines: list[str], code: int, words: str | None
) -> None:
    folder = begun()
    timed = [line if line.startswith("2") else f"{at(1)} {line}" for line in lines]
    folder.log("worker-0").write_text("".join(f"{line}\n" for line in timed))
    found = first_failure([Failure(replica="worker-0", time=at(4), exit_code=code)], folder)
    assert len(found.causes) == (words is not None)
    for cause in found.causes:
        assert cause.code == "exit"
        start = "the program ended itself with exit code 1; its last line on standard error: "
        assert cause.message.startswith(f"{start}{words}")


def test_a_kill_after_a_survived_error_and_steps_is_a_kill() -> None:
    folder = begun(worker_0=[*OUT_OF_MEMORY, "step 1", "step 2", "step 3"])
    failure = Failure(replica="worker-0", time=at(9), exit_code=137, signal="SIGKILL")
    assert [cause.code for cause in first_failure([failure], folder).causes] == ["killed"]


def test_a_traceback_in_colours_has_the_same_cause() -> None:
    """Python prints one since 3.13 where FORCE_COLOR is set, as CI systems do."""
    coloured = [
        "Traceback (most recent call last):",
        '  File \x1b[35m"/app/train.py"\x1b[0m, line \x1b[35m2\x1b[0m, in \x1b[35mf\x1b[0m',
        '    return \x1b[31m{"a": 1}\x1b[0m\x1b[1;31m[x]\x1b[0m',
        "           \x1b[31m~~~~~~~~\x1b[0m\x1b[1;31m^^^\x1b[0m",
        "\x1b[1;35mKeyError\x1b[0m: \x1b[35m'b'\x1b[0m",
    ]
    failure = Failure(replica="worker-0", time=at(9), exit_code=1)
    found = first_failure([failure], begun(worker_0=["step 1", *coloured]))
    assert [cause.code for cause in found.causes] == ["key-missing"]
    assert found.causes[0].message.endswith(": KeyError: 'b', at /app/train.py:2 in f")
    assert found.lines == [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 2, in f',
        '    return {"a": 1}[x]',
        "           ~~~~~~~~^^^",
        "KeyError: 'b'",
    ]


def test_what_the_target_reports_counts_where_the_log_says_less() -> None:
    reported = ["x"] * 30 + BROKEN
    failure = Failure(replica="worker-0", time=at(9), exit_code=1, lines=reported)
    assert first_failure([failure], begun()).lines == reported
    assert first_failure([failure], begun(worker_0=["step 1"])).lines == reported
    own = ["Traceback (most recent call last):", "KeyError: y"]
    assert first_failure([failure], begun(worker_0=own)).lines == own
    plain = msgspec.structs.replace(failure, lines=["it failed"])
    assert first_failure([plain], begun(worker_0=["step 1"])).lines == ["step 1"]
    long = msgspec.structs.replace(failure, lines=[str(n) for n in range(60)])
    assert first_failure([long], begun()).lines == [str(n) for n in range(20, 60)]


def test_a_launcher_names_the_rank_and_the_replica_on_its_host() -> None:
    noticed = "mpirun noticed that process rank 7 with PID 0 on node gpu7 exited on signal 9 (K)"
    folder = begun(worker_0=[noticed])
    failure = Failure(replica="worker-0", time=at(9), exit_code=137)
    hosts = {"gpu7": "worker-1"}
    found = first_failure([failure], folder, replica_on=hosts.get)
    assert (found.replica, found.log, found.rank, found.signal) == (
        *("worker-1", "worker-0", 7, "SIGKILL"),
    )
    unknown = first_failure([failure], folder)
    assert (unknown.replica, unknown.log, unknown.rank) == ("worker-0", None, 7)
    known = msgspec.structs.replace(failure, rank=3)
    assert first_failure([known], folder, replica_on=hosts.get).replica == "worker-0"


def test_a_finding_of_the_runtime_is_the_cause() -> None:
    finding = a_line("finding", severity="error", code="data", message="no shards").text
    folder = begun(worker_0=[finding, *BROKEN])
    [cause] = first_failure([Failure(replica="worker-0", time=at(9), exit_code=1)], folder).causes
    assert (cause.code, cause.message) == ("data", "no shards")


@pytest.mark.parametrize(
    ("file", "missing", "remedy"),
    [
        (
            "lib/models/__init__.py",
            "models.net",
            "in folder lib: start the job from a folder where Python "
            "finds it, for example run.env: {PYTHONPATH: lib}",
        ),
        ("models.py", "models", "in folder .: start the job from a folder where Python finds it"),
        ("other.py", "models", None),
    ],
)
def test_a_missing_module_that_lies_in_the_source(
    tmp_path: Path, file: str, missing: str, remedy: str | None
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    error = f"ModuleNotFoundError: No module named '{missing}'"
    folder = begun(worker_0=["Traceback (most recent call last):", error])
    failure = Failure(replica="worker-0", time=at(9), exit_code=1)
    [general] = first_failure([failure], folder).causes
    description = folder.description()
    description.source = str(tmp_path)
    folder.create(description)
    [cause] = first_failure([failure], folder).causes
    assert cause.code == "module"
    if remedy is None:
        assert cause == general
    else:
        assert (cause.remedy or "").endswith(remedy)
        assert (cause.remedy or "").startswith("models is in the source itself")
