"""What ended a program, in one line: exceptions of Python in all their forms, and native errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from time import process_time

import pytest

from rsctl.runs.stream.diagnosis import known_causes
from rsctl.runs.stream.exceptions import (
    Raised,
    find_error_line,
    find_exception,
    find_native_error,
    unwrapped,
    without_prose,
)
from rsctl.runs.stream.failure_lines import failure_lines

SIMPLE = """\
Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    main()
  File "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in _call_impl
    return forward_call(*args, **kwargs)
KeyError: 'loss'"""

IN_WORKER = """\
Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    for batch in loader:
  File "/opt/lib/python3.11/site-packages/torch/_utils.py", line 733, in reraise
    raise exception
IndexError: Caught IndexError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _loop
    data = fetcher.fetch(index)
  File "/app/data.py", line 12, in __getitem__
    return self.x[i]
IndexError: list index out of range"""

ERROR_FILE = """\
ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:{
  "message": {
    "message": "ValueError: bad lr",
    "extraInfo": {
      "py_callstack": "Traceback (most recent call last):\\n  File \\"/app/train.py\\", line 155, \
in main\\n    f()\\nValueError: bad lr\\n",
      "timestamp": "1629"
    }
  }
}"""

BOX = """\
╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮
│ /app/train.py:477 in <module>                                                                    │
│                                                                                                  │
│   476 │   if True:                                                                               │
│ ❱ 477 │   │   train(args)                                                                        │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
ValueError: bad lr"""

SEVERAL_LINES = """\
Traceback (most recent call last):
  File "/app/train.py", line 8, in work
    parse(text)
config.errors.Invalid:
  the rate is negative"""

RAY = """\
(train pid=12, ip=10.0.0.1) Traceback (most recent call last):
(train pid=12, ip=10.0.0.1)   File "/app/train.py", line 8, in work
(train pid=12, ip=10.0.0.1)     x
(train pid=12, ip=10.0.0.1) ValueError: bad lr"""


LOWER_CASE = """\
Traceback (most recent call last):
  File "/app/data.py", line 8, in work
    unpack(line)
struct.error: unpack requires a buffer of 4 bytes"""

IN_POOL = '''\
multiprocessing.pool.RemoteTraceback:
"""
Traceback (most recent call last):
  File "/usr/lib/python3.10/multiprocessing/pool.py", line 125, in worker
    result = (True, func(*args, **kwds))
  File "/app/prepare.py", line 12, in work
    raise ValueError("bad lr")
ValueError: bad lr
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    pool.map(work, items)
  File "/usr/lib/python3.10/multiprocessing/pool.py", line 774, in get
    raise self._value
ValueError: bad lr'''

# https://github.com/pytorch/pytorch/issues/87815: two ranks wrote at the same time
MIXED = """\
  File "/opt/lib/python3.9/site-packages/torch/distributed/fsdp/_state_dict_utils.py", line 85, in f
    assert fqn in state_dict, (
AssertionError    : hook_result = hook(self)FSDP assumes a.weight is in the state_dict    
module.state_dict(destination=destination)"""

BAR = """\
Traceback (most recent call last):
  File "/app/train.py", line 9, in main
    fit(cfg)
ValueError: bad lr
  1%|          | 1/800 [00:03<40:00,  3.0s/it]"""


@pytest.mark.parametrize(
    ("text", "raised", "position"),
    [
        (
            LOWER_CASE,
            "struct.error: unpack requires a buffer of 4 bytes",
            "/app/data.py:8 in work",
        ),
        (IN_POOL, "ValueError: bad lr", "/app/prepare.py:12 in work"),
        (
            MIXED,
            "AssertionError: hook_result = hook(self)FSDP assumes a.weight is in the state_dict",
            "/opt/lib/python3.9/site-packages/torch/distributed/fsdp/_state_dict_utils.py:85 in f",
        ),
        (BAR, "ValueError: bad lr", "/app/train.py:9 in main"),
        (SIMPLE, "KeyError: 'loss'", "/app/train.py:9"),
        (SIMPLE.replace("\n", "\n[rank3]: "), "KeyError: 'loss'", "/app/train.py:9"),
        (SIMPLE.replace("\n", "\n[1,3]<stderr>:"), "KeyError: 'loss'", "/app/train.py:9"),
        (IN_WORKER, "IndexError: list index out of range", "/app/data.py:12 in __getitem__"),
        (ERROR_FILE, "ValueError: bad lr", "/app/train.py:155 in main"),
        (
            *("{" + ERROR_FILE.partition("{")[2], "ValueError: bad lr"),
            "/app/train.py:155 in main",
        ),
        (BOX, "ValueError: bad lr", "/app/train.py:477"),
        (RAY, "ValueError: bad lr", "/app/train.py:8 in work"),
        (
            SEVERAL_LINES,
            "config.errors.Invalid: the rate is negative",
            "/app/train.py:8 in work",
        ),
        ("RuntimeError: torch.cat(): no tensors", "RuntimeError: torch.cat(): no tensors", None),
    ],
)
def test_the_exception_and_its_place_in_the_script(
    text: str, raised: str, position: str | None
) -> None:
    found = find_exception(failure_lines(text.splitlines()))
    assert found is not None
    assert (found.text, found.position) == (raised, position)


@pytest.mark.parametrize("own", ["node/rank.py", "transport/pytorch/inspection.py"])
def test_code_of_rsctl_is_not_the_scripts(own: str) -> None:
    text = SIMPLE.replace("lib/python3.11/site-packages/torch/nn/modules/module.py", f"rsctl/{own}")
    found = find_exception(text.splitlines())
    assert found is not None
    assert found.position == "/app/train.py:9"


def test_a_frame_in_a_package_is_better_than_none() -> None:
    found = find_exception(SIMPLE.replace("/app/", "/opt/lib/python3.11/").splitlines())
    assert found is not None
    assert found.position == (
        "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py:1 in _call_impl"
    )


@pytest.mark.parametrize(
    "line", ["UserWarning: a thing", "loss: 3", "Epoch: 4", "Note: Error", "INFO: ValueError"]
)
def test_other_lines_are_no_exceptions(line: str) -> None:
    assert find_exception(["step 1", line, "step 2"]) is None


def _written(script: str) -> list[str]:
    """What this Python writes as a script fails."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    return done.stderr.splitlines()


def test_a_chain_names_its_origin() -> None:
    lines = _written("""
        try:
            1 / 0
        except ZeroDivisionError as error:
            raise RuntimeError("no data") from error
    """)
    found = find_exception(lines)
    assert found is not None
    assert found.text == "RuntimeError: no data; after ZeroDivisionError: division by zero"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_a_group_gives_its_first_member() -> None:
    lines = _written('raise ExceptionGroup("two", [ValueError("a"), TypeError("b")])')
    found = find_exception(lines)
    assert found is not None
    assert found.text == "ValueError: a; after ExceptionGroup: two (2 sub-exceptions)"


def test_a_group_in_a_group_gives_its_first_member() -> None:
    lines = [
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/app/train.py", line 4, in <module>',
        "  |     raise group",
        "  | ExceptionGroup: a (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | ExceptionGroup: b (1 sub-exception)",
        "    +-+---------------- 1 ----------------",
        "      | ValueError: c",
        "      +------------------------------------",
    ]
    found = find_exception(lines)
    assert found is not None
    assert found.text == "ValueError: c; after ExceptionGroup: a (1 sub-exception)"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():  bad thing happened\nAborted (core dumped)",
            "std::runtime_error: bad thing happened",
        ),
        (
            "thread '<unnamed>' panicked at src/lib.rs:10:5:\nindex out of bounds: the len is 3",
            "<unnamed>: src/lib.rs:10:5: index out of bounds: the len is 3",
        ),
        (
            "python: /src/csrc/aio.cpp:159: void stop(): Assertion `0 == n' failed.",
            "/src/csrc/aio.cpp:159: void stop(): Assertion `0 == n' failed",
        ),
        # https://github.com/BVLC/caffe/issues/441, shortened
        (
            "F0514 10:39:14.850065  3012 im2col.cu:49] Cuda kernel failed. Error: no launch\n"
            "*** Check failure stack trace: ***\n    @  0x7f41020b0b7d  google::LogMessage::Fail()",
            "im2col.cu:49] Cuda kernel failed. Error: no launch",
        ),
        # https://github.com/homuler/MediaPipeUnityPlugin/blob/master/docs/Tutorial-Custom-Graph.md,
        # as absl writes before it is set up
        (
            "F0000 00:00:1739782582.369034  548617 calculator_graph.cc:157] Non-OK-status: x",
            "calculator_graph.cc:157] Non-OK-status: x",
        ),
        (
            "2025-04-05 18:39:10.838153: F external/xla/hlo_lexer.cc:80] the layout was lost",
            "external/xla/hlo_lexer.cc:80] the layout was lost",
        ),
        ("double free or corruption (!prev)", "double free or corruption (!prev)"),
        ("run.sh: line 4: DATA: unbound variable", "run.sh: line 4: DATA: unbound variable"),
        (
            "/app/run.sh: line 9: syntax error near unexpected token `fi'",
            "/app/run.sh: line 9: syntax error near unexpected token `fi'",
        ),
    ],
)
def test_errors_of_native_code_and_of_shells(text: str, error: str) -> None:
    found = find_native_error(["step 1", *text.splitlines()])
    assert found is not None
    assert found.text == error


def test_the_exception_is_the_cause_where_none_is_known() -> None:
    lines = [*SIMPLE.splitlines()[:-1], "LookupError: loss"]
    (cause,) = known_causes(failure_lines(lines), 1, None)
    assert (cause.code, cause.message) == (
        "exception",
        "the program raised an exception: LookupError: loss, at /app/train.py:9",
    )
    assert cause.remedy


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/pytorch/xla/issues/2658
        "RuntimeError: torch_xla/csrc/tensor.cpp:486 : Check failed: data_ != nullptr ",
        "xgboost.core.XGBoostError: [12:00:01] /src/c_api.cc:9: Check failed: n == m (3 vs. 4) : ",
    ],
)
def test_a_check_of_native_code_that_python_raises_has_its_place_in_the_script(text: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "/app/train.py", line 9, in step', text]
    (cause,) = known_causes(lines, 1, None)
    assert cause.message.endswith(f": {text.strip()}, at /app/train.py:9 in step")


def test_an_exception_is_the_cause_of_a_crash_only_if_nothing_is_between() -> None:
    (cause,) = known_causes(SIMPLE.splitlines(), 139, "SIGSEGV")
    assert cause.code == "key-missing"
    (cause,) = known_causes([*SIMPLE.splitlines(), "step 7: loss 0.1"], 139, "SIGSEGV")
    assert cause.code == "crash"


@pytest.mark.parametrize(
    ("after", "exit_code", "signal"),
    [
        ("Segmentation fault (core dumped)", 1, None),
        ("free(): invalid pointer\nAborted (core dumped)", 134, "SIGABRT"),
        ("double free or corruption (!prev)", 1, None),
        ("Fatal Python error: _enter_buffered_busy: could not acquire lock", 134, "SIGABRT"),
        (
            "terminate called after throwing an instance of 'c10::Error'\n"
            "  what():  CUDA error: driver shutting down",
            134,
            "SIGABRT",
        ),
        ("wandb: ERROR Error while calling W&B API: Connection refused", 1, None),
        (
            "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"
            "wandb: ERROR Error while calling W&B API: Connection refused",
            1,
            None,
        ),
        ("rm: cannot remove '/tmp/x': No such file or directory", 1, None),
        ("upload failed: ./o to s3://b/o An error occurred (AccessDenied) when calling x", 1, None),
        ("E0101 12:00:00.000 12 tcp_posix.cc:50] recvmsg: Connection reset by peer", 1, None),
        ("n:7:7 [0] misc/socket.cc:52 NCCL WARN Net : Connection closed by remote peer", 1, None),
        ("[rank0]:[W1101 12:00:00.0 TCPStore.cpp:125] recvValue failed: reset by peer", 1, None),
        ("Metrics are off: [Errno 98] Address already in use", 1, None),
        ("No checkpoint: An error occurred (NoSuchKey) when calling the GetObject", 1, None),
        ("INFO: shutting down\nOOM at batch size 64: CUDA out of memory.", 1, None),
        ("[1756893021.123456] [n:7 :0] sock.c:323 UCX ERROR connect() failed: refused", 1, None),
    ],
)
def test_what_follows_a_clear_exception_is_no_cause(
    after: str, exit_code: int, signal: str | None
) -> None:
    lines = [*SIMPLE.splitlines(), *after.splitlines()]
    (cause,) = known_causes(failure_lines(lines), exit_code, signal, earlier=lines)
    assert cause.code == "key-missing"


def test_what_follows_an_exception_of_many_lines_is_no_cause() -> None:
    text = "RuntimeError: Error(s) in loading state_dict for Net:"
    lines = [*SIMPLE.splitlines()[:-1], text]
    lines += [f"\tsize mismatch for l{n}.weight: copying a param" for n in range(60)]
    lines += ["Metrics: CUDA out of memory."]
    kept = failure_lines(lines)
    assert text in kept
    (cause,) = known_causes(kept, 1, None, earlier=lines)
    assert cause.code == "checkpoint-mismatch"


def test_what_follows_an_exception_in_a_box_is_no_cause() -> None:
    box = ["\u256d\u2500\u2500\u256e", "\u2502 /app/train.py:9 in main", "\u2502 \u2771 9 a[k]"]
    box += ["\u2570" + "\u2500" * 60, "KeyError: 'lr'", "Metrics: CUDA out of memory."]
    (cause,) = known_causes(box, 1, None, earlier=box)
    assert cause.code == "key-missing"


@pytest.mark.parametrize(
    ("after", "exit_code", "code"),
    [
        ("srun: error: n1: task 0: Out Of Memory", 137, "memory"),
        ("srun: error: Node failure on n1", 1, "node-lost"),
        ("tee: run.log: No space left on device", 1, "disk"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", 134, "memory"),
        ("Fatal Python error: Bus error", 135, "shared-memory"),
        ("{'loss': 1.25, 'lr': 0.1}", 137, "killed"),
        ("received SIGTERM, saving a checkpoint", 143, "signal"),
    ],
)
def test_an_end_that_no_exception_brings_about_is_the_cause(
    after: str, exit_code: int, code: str
) -> None:
    """The program survived the exception that its log shows last."""
    lines = [*SIMPLE.splitlines(), after]
    causes = known_causes(failure_lines(lines), exit_code, None, earlier=lines)
    assert causes[0].code == code


def test_an_interruption_is_no_failure_before_the_lines_of_a_tracker() -> None:
    lines = [*SIMPLE.splitlines()[:-1], "KeyboardInterrupt"]
    alone = known_causes(lines, 130, "SIGINT")
    assert [cause.code for cause in alone] == ["signal"]
    assert known_causes([*lines, "wandb: Find logs at: ./wandb/a/logs"], 130, "SIGINT") == alone


def test_what_follows_the_loss_of_a_connection_may_be_its_cause() -> None:
    lines = [*SIMPLE.splitlines()[:-1], "BrokenPipeError: [Errno 32] Broken pipe"]
    lines += ["slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "rm: x"]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["memory"]


@pytest.mark.parametrize(
    "end",
    [
        [],
        ["terminate called without an active exception"],
        ["pure virtual method called", "terminate called without an active exception", ""],
        ["terminate called without an active exception", "Aborted (core dumped)"],
        ["terminate called without an active exception", "run.sh: line 3: 77 Aborted  python x"],
    ],
)
def test_an_exception_is_the_cause_of_an_abort_that_follows_it(end: list[str]) -> None:
    lines = [*SIMPLE.splitlines(), *end]
    (cause,) = known_causes(failure_lines(lines), 134, "SIGABRT", earlier=lines)
    assert cause.code == "key-missing"


@pytest.mark.parametrize("between", ["step 7: loss 0.1", "Check failed: count > 0 (0 vs. 0)"])
def test_an_exception_before_other_lines_is_not_the_cause_of_an_abort(between: str) -> None:
    lines = [*SIMPLE.splitlines(), between, "terminate called without an active exception"]
    codes = [cause.code for cause in known_causes(lines, 134, "SIGABRT", earlier=lines)]
    assert "key-missing" not in codes


@pytest.mark.parametrize(
    ("exit_code", "reported", "codes"),
    [(127, [], ["command"]), (1, ["AlgorithmError: , exit code: 1"], []), (1, [], ["exception"])],
)
def test_the_way_it_ended_says_more_than_a_line_without_its_traceback(
    exit_code: int, reported: list[str], codes: list[str]
) -> None:
    lines = [] if reported else ["CommandError: it failed"]
    causes = known_causes(lines, exit_code, None, reported=reported)
    assert [cause.code for cause in causes] == codes


def test_a_long_exception_takes_one_line_of_bounded_length() -> None:
    found = find_exception([*SIMPLE.splitlines()[:-1], "ValueError: " + "x" * 5000])
    assert found is not None
    assert len(found.text) == 300
    assert found.text.endswith("...")


def test_hostile_lines_do_not_take_long() -> None:
    lines = ["Traceback (most recent call last):", '  File "' + "a" * 100_000]
    lines += ["A." * 50_000, "│" * 100_000, "[rank1]: " * 20_000, "a: line 1: " * 10_000] * 20
    assert find_exception(lines) is None
    assert find_native_error(lines) is None
    code = ['  File "/app/train.py", line 9, in f', "    '" + "a " * 100_000]
    assert without_prose(code) == code


def test_lines_within_a_traceback_do_not_take_long() -> None:
    """Other processes write into it, or it has boxes."""
    *head, end = SIMPLE.splitlines()
    for between in (["worker: ready " * 6] * 590, ["\u2502 /a/t.py:9 in f", "\u2502 x"] * 295):
        began = process_time()
        causes = known_causes([*head, *between, end, "bye"], 1, None)
        assert causes[0].code == "key-missing"
        assert process_time() - began < 1.5


LOGGED = """\
2026-01-31 12:00:01,123 ERROR app | Traceback (most recent call last):
2026-01-31 12:00:01,124 ERROR app |   File "/app/train.py", line 8, in work
2026-01-31 12:00:01,125 ERROR app |     x
2026-01-31 12:00:01,126 ERROR app | ValueError: bad lr"""

CONTINUED = """\
Traceback (most recent call last):
  File "/app/train.py", line 8, in work
    load(model)
RuntimeError: Error(s) in loading state_dict for Net:
\tsize mismatch for head: torch.Size([10]), torch.Size([12]).
2026-01-31 12:00:01 INFO done"""

INDENTED = """\
ERROR the training failed:
    Traceback (most recent call last):
      File "/app/train.py", line 8, in work
        step(model)
    ValueError: bad lr
the end"""

BY_TORCHRUN = """\
  exitcode  : 1 (pid: 8)
  error_file: /tmp/torchelastic_x/none_y/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/app/train.py", line 8, in work
      step(model)
  ValueError: bad lr
============================================================"""

BY_SRUN = """\
3: Traceback (most recent call last):
3:   File "/app/train.py", line 8, in work
3:     step(model)
3: app.errors.RateError: bad lr"""


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (INDENTED, "ValueError: bad lr"),
        (INDENTED.replace("    ", "\t"), "ValueError: bad lr"),
        (BY_TORCHRUN, "ValueError: bad lr"),
        (BY_SRUN, "app.errors.RateError: bad lr"),
        (LOGGED, "ValueError: bad lr"),
        (
            CONTINUED,
            "RuntimeError: Error(s) in loading state_dict for Net: size mismatch for head: "
            "torch.Size([10]), torch.Size([12]).",
        ),
    ],
)
def test_an_exception_with_marks_or_more_lines_is_read_as_a_whole(text: str, raised: str) -> None:
    found = find_exception(text.splitlines())
    expected = Raised(raised, "/app/train.py:8 in work", raiser="/app/train.py")
    assert found is not None
    assert found._replace(call="") == expected


def test_a_traceback_without_an_end_shows_its_place() -> None:
    cut = SIMPLE.splitlines()[:4]
    assert find_exception(cut) == Raised(
        "its text is missing, as the log ends in its traceback",
        "/app/train.py:9",
        False,
        True,
        f"{LIBRARY}/torch/nn/modules/module.py",
    )
    cut.append('    raise ReadError("unexpected end of data")')
    assert find_exception(cut) == Raised("ReadError: unexpected end of data", "/app/train.py:9")


def test_a_log_that_begins_within_a_traceback_and_ends_in_it() -> None:
    """Frames further up are of a warning, or of an exception that the program survived."""
    frames = ['  File "/app/train.py", line 9, in work', "    step()"]
    cut = find_exception(["a line", *frames])
    assert cut is not None
    assert (cut.is_cut, cut.position) == (True, "/app/train.py:9 in work")
    assert find_exception([*frames, "epoch 1", "epoch 2", "epoch 3"]) is None
    survived = SIMPLE.splitlines()[:4]
    later = [
        survived[0],
        '  File "/usr/lib/python3.11/site-packages/torch/x.py", line 3, in y',
        "    z()",
    ]
    cut = find_exception([*survived, *later])
    assert cut is not None
    assert cut.position == "/usr/lib/python3.11/site-packages/torch/x.py:3 in y"


def test_a_path_that_rich_wrapped_in_its_box_is_one_frame() -> None:
    lines = [
        "[rank3]: \u256d\u2500\u2500 Traceback (most recent call last) \u2500\u2500\u256e",
        "[rank3]: \u2502 /leonardo/python-envs/llm-foundry-0.8.0- \u2502",
        "[rank3]: \u2502 venv/lib/site-packages/torch/optim.py:461 \u2502",
        "[rank3]: \u2502  in _flatten                             \u2502",
        "[rank3]: \u2502 \u2771  461     state = unflat['state']        \u2502",
        "[rank3]: \u2570\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u256f",
        "[rank3]: KeyError: 'state'",
    ]
    path = "/leonardo/python-envs/llm-foundry-0.8.0-venv/lib/site-packages/torch/optim.py"
    raised = find_exception(lines)
    inside = "torch/optim.py:461 in _flatten"
    expected = Raised("KeyError: 'state'", f"{path}:461 in _flatten", raiser=path, inside=inside)
    assert raised == expected


def test_what_rich_wrapped_below_its_box_is_one_line() -> None:
    wide = "ValueError: " + "a " * 44
    *box, _ = BOX.splitlines()
    assert unwrapped([*box, wide, "last words", "step 2"])[-2:] == [
        f"{wide.rstrip()} last words",
        "step 2",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("step 1\nERROR: no data\n  in shard 3\n\nstep 2", "ERROR: no data in shard 3"),
        ("error: first\nerror: second", "error: first"),
        ("There must be at least one chain", "There must be at least one chain"),
        ("step 1\nplease set the rate of layer 3 first", "please set the rate of layer 3 first"),
        ("Training failed! Reason: no data\nCleaning up", "Training failed! Reason: no data"),
        ("Exception during training: no data", "Exception during training: no data"),
        ("bash: cannot set terminal process group", None),
        ("Please cite our paper\nPlease report bugs to us", None),
        ("For more information, please check our website", None),
        ("To see the curves, please use tensorboard", None),
        ("If you use it for research, please give us credit", None),
        ("WARNING: the cache cannot be read", None),
        ("x was not found. Setting it to empty.", None),
        ("slurmstepd: error: Detected 1 task", None),
        ("finished with 0 errors", None),
        ("step 1\nstep 2", None),
    ],
)
def test_the_first_of_the_last_errors(text: str, error: str | None) -> None:
    assert find_error_line(text.splitlines()) == error


def test_a_message_of_open_mpi_is_an_error_unless_it_warns() -> None:
    rule = "-" * 74
    message = [rule, "No slots are left", "on node 1.", "", "  more", rule]
    warning = [rule, "WARNING: no device was found", rule]
    assert find_error_line([*warning, *message]) == "No slots are left on node 1."
    assert find_error_line(warning) is None


def test_hostile_ends_of_logs_do_not_take_long() -> None:
    texts = ("--- ", "error ", "a.b:", "x: File ", "\u2570", "warning ", "a" * 40 + ": ")
    lines = [text * 25_000 for text in texts] + [text * 500 for text in texts] * 10
    assert len(find_error_line(lines) or "") == 300
    assert find_error_line(["-" * 60] * 40) is None
    assert len(unwrapped(lines)) <= len(lines)


LIBRARY = "/opt/lib/python3.11/site-packages"


def test_a_program_that_pip_installs_is_not_the_script() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/conda/bin/accelerate", line 8, in <module>',
        f'  File "{LIBRARY}/accelerate/commands/launch.py", line 3, in load',
        "TypeError: __init__() got an unexpected keyword argument 'x'",
    ]
    found = find_exception(lines)
    assert found is not None
    assert found.position == f"{LIBRARY}/accelerate/commands/launch.py:3 in load"
    script = [line.replace("bin/accelerate", "bin/train.py") for line in lines]
    found = find_exception(script)
    assert found is not None
    assert found.position == "/opt/conda/bin/train.py:8"


def test_an_exception_of_a_services_client_needs_no_traceback() -> None:
    found = find_exception(["step 1", "google.api_core.exceptions.NotFound: 404 no bucket"])
    assert found is not None
    assert found.text == "google.api_core.exceptions.NotFound: 404 no bucket"
    assert find_exception(["step 1", "NotFound: 404 no bucket"]) is None


def test_keras_shows_the_exception_below_its_own_text() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "train.py", line 5, in <module>',
        "ValueError: in user code:",
        "",
        '    File "/usr/lib/python3.8/site-packages/keras/engine/training.py", line 853, in step',
        "        return step_function(self, iterator)",
        "",
        "    ValueError: the labels have two columns",
        "",
        "done: ValueError: 3",
    ]
    raised = find_exception(lines)
    assert raised is not None
    assert (raised.text, raised.position) == (
        "ValueError: the labels have two columns",
        "train.py:5",
    )


def test_keras_text_without_an_exception_below_it_stays() -> None:
    lines = ["Traceback (most recent call last):", "ValueError: in user code:", "", "step 4"]
    raised = find_exception(lines)
    assert raised is not None
    assert raised.text == "ValueError: in user code:"


@pytest.mark.parametrize(
    ("path", "source", "raised_at"),
    [
        ("/app/model.py", "return odd(3)", ""),
        (
            "/opt/lib/python3.11/site-packages/odd/a.py",
            "raise RuntimeError(",
            "odd/a.py:7 in inner",
        ),
        ("/opt/lib/python3.11/site-packages/odd/a.py", "return call()", "trl/loop.py:3 in step"),
    ],
)
def test_a_function_of_the_script_or_with_a_check_raised_itself(
    path: str, source: str, raised_at: str
) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        "    trainer.train()",
        '  File "/opt/lib/python3.11/site-packages/trl/loop.py", line 3, in step',
        "    self.call(batch)",
        f'  File "{path}", line 7, in inner',
        f"    {source}",
        "RuntimeError: odd things happen",
    ]
    raised = find_exception(lines)
    assert raised is not None
    assert raised.inside == raised_at


PADDLE = """\
Traceback (most recent call last):
  File "/app/train.py", line 32, in train_epoch
    outputs = model(inputs)
  File "/opt/lib/python3.7/site-packages/paddle/fluid/dygraph/tracer.py", line 43, in trace_op
    not stop_gradient)
paddle.fluid.core_avx.EnforceNotMet: 

--------------------------------------------
C++ Call Stacks (More useful to developers):
--------------------------------------------
0   paddle::platform::EnforceNotMet::EnforceNotMet(std::string const&, char const*, int)

----------------------
Error Message Summary:
----------------------
InvalidArgumentError: The number of channels is 32.
  [Hint: Expected 32 == 3] at (/paddle/paddle/fluid/operators/conv_op.cc:104)
"""


def test_the_summary_of_paddle_below_its_stacks_is_the_message() -> None:
    """Seen in https://github.com/PaddlePaddle/Paddle/issues/26410."""
    raised = find_exception(PADDLE.splitlines())
    assert raised is not None
    assert raised.text == (
        "paddle.fluid.core_avx.EnforceNotMet: InvalidArgumentError: The number of channels is 32. "
        "[Hint: Expected 32 == 3] at (/paddle/paddle/fluid/operators/conv_op.cc:104)"
    )


def test_an_abort_has_the_message_above_the_stacks_of_native_code() -> None:
    """Seen in https://github.com/PaddlePaddle/Paddle/issues/55635."""
    lines = [
        "terminate called after throwing an instance of 'phi::enforce::EnforceNotMet'",
        "  what():  (Fatal) 900 seconds elapsed after the first worker stopped",
        *["C++ Traceback (most recent call last):", "-" * 38] * 8,
    ]
    [cause] = known_causes(failure_lines(lines), 134, "SIGABRT", earlier=lines)
    assert cause.message == (
        "native code ended the program: phi::enforce::EnforceNotMet: (Fatal) 900 seconds elapsed "
        "after the first worker stopped"
    )


def test_the_message_of_user_code_in_the_words_of_paddle() -> None:
    """Seen in https://github.com/jiangnanboy/pdf_to_docx/issues/2."""
    lines = ["ValueError: In user code:", "", "    InvalidArgumentError: The shapes differ."]
    raised = find_exception(['  File "/app/t.py", line 1, in f', *lines])
    assert raised is not None
    assert raised.text == "ValueError: The shapes differ."
