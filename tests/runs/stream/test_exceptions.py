"""What ended a program, in one line: exceptions of Python in all their forms, and native errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from rsctl.findings import Finding
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
    ("text", "code"),
    [
        ("KeyError: 'loss'", "key-missing"),
        ("KeyError: 'loss is already there'", "exception"),
        ("TypeError: 'NoneType' object is not iterable", "none-value"),
        ("AttributeError: 'DistributedDataParallel' object has no attribute 'a'", "wrapped-model"),
        ("AttributeError: 'Model' object has no attribute 'a'", "package-versions"),
        ("IndexError: list index out of range", "empty-data"),
        ("IndexError: index 0 is out of bounds for axis 0 with size 0", "empty-data"),
        ("IndexError: too many indices", "exception"),
        ("omegaconf.errors.ConfigKeyError: Key 'a' is not in struct", "configuration"),
        ("ValueError: mode a needs at least 2 GPUs", "setting"),
        ("ValueError: not enough values to unpack (expected 2, got 1)", "unpack"),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", "wrong-type"),
        ("RuntimeError: Please set dtype", "setting"),
        ("RuntimeError: unexpected state", "exception"),
    ],
)
def test_an_exception_is_explained_by_its_kind_only_if_that_is_certain(
    text: str, code: str
) -> None:
    lines = [*SIMPLE.splitlines()[:-1], text]
    (cause,) = known_causes(failure_lines(lines), 1, None)
    assert cause.code == code
    assert text in cause.message


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        (
            "torch/_inductor/codegen/cpp.py",
            "AssertionError: Expected a Buffer, got None",
            "compile",
        ),
        ("torch/_dynamo/variables/iter.py", "TypeError: 'X' object is not callable", "compile"),
        ("megatron/core/triton/ops.py", "ValueError: Tensors on two devices", "megatron"),
        ("triton/compiler/compiler.py", "ValueError: Kernel argument cannot be used", "compile"),
        ("torch/distributed/checkpoint/x.py", "ValueError: Failed to validate plan", "checkpoint"),
        ("torch/distributed/run.py", "ValueError: Port is absent in endpoint: n1", "launcher"),
        ("torch/distributed/fsdp/_x.py", "RuntimeError: Parameters on one mesh", "sharded-tensor"),
        ("torch/distributed/pipelining/x.py", "RuntimeError: Stage 1 got 2 args", "pipeline"),
        ("torch/distributed/c10d.py", "ValueError: Global rank 8 is not in it", "distributed-call"),
        ("torch/distributed/c10d.py", "RuntimeError: wait timeout after 9 ms", "distributed"),
        ("torch/utils/data/dataset.py", "ValueError: Sum of lengths differs", "data-loader"),
        ("torch/optim/adam.py", "ValueError: lr as a Tensor needs foreach off", "optimizer"),
        ("deepspeed/runtime/config.py", "RuntimeError: No batch size given", "deepspeed"),
        ("megatron/training/arguments.py", "AssertionError: needs sequence parallel", "megatron"),
        ("accelerate/accelerator.py", "ValueError: You can only pass one plugin", "accelerate"),
        ("lightning/pytorch/core/module.py", "RuntimeError: no trainer attached", "lightning"),
        ("sagemaker_training/encoders.py", "UnsupportedError: no such dtype", "toolkit"),
        ("megatron/core/optimizer/x.py", "AssertionError: (torch.Size([]), 0)", "exception"),
        ("torch/optim/adam.py", "KeyError: 'step'", "key-missing"),
        ("torch/nn/modules/module.py", "RuntimeError: unexpected state", "exception"),
        ("torch/utils/data/x.py", "TypeError: 'int' object is not iterable", "wrong-type"),
    ],
)
def test_the_package_that_raised_an_exception_says_what_failed(
    path: str, text: str, code: str
) -> None:
    frame = f'  File "/usr/lib/python3/site-packages/{path}", line 12, in call'
    lines = [*SIMPLE.splitlines()[:-1], frame, "    check()", text]
    (cause,) = known_causes(failure_lines(lines), 1, None)
    assert cause.code == code
    assert text in cause.message


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
    ],
)
def test_what_follows_a_clear_exception_is_no_cause(
    after: str, exit_code: int, signal: str | None
) -> None:
    lines = [*SIMPLE.splitlines(), *after.splitlines()]
    (cause,) = known_causes(failure_lines(lines), exit_code, signal, earlier=lines)
    assert cause.code == "key-missing"


@pytest.mark.parametrize(
    ("after", "exit_code", "code"),
    [
        ("srun: error: n1: task 0: Out Of Memory", 137, "memory"),
        ("srun: error: Node failure on n1", 1, "node-lost"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", 134, "memory"),
        ("Fatal Python error: Bus error", 135, "shared-memory"),
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


def _below(package_file: str, call: str, raised: str) -> Finding:
    """The cause of an exception that a package raises below a call of the script."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        f"    {call}",
        f'  File "/opt/lib/python3.11/site-packages/{package_file}", line 72, in check',
        "    raise ValueError(",
        *raised.split("\n"),
    ]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    return cause


def test_a_package_that_refuses_a_call_is_named_with_the_call_and_both_places() -> None:
    # https://github.com/PaddlePaddle/Paddle/issues/52394
    raised = "ValueError: loss can be list only in PS mode"
    cause = _below("paddle/distributed/fleet/fleet.py", "optimizer.minimize([cost])", raised)
    assert cause.message == (
        f"paddle refuses a call, a setting or its input: {raised}, at /app/train.py:8 in main; "
        "raised at paddle/distributed/fleet/fleet.py:72 in check"
    )
    assert (cause.remedy or "").startswith(
        "compare what the message says with `optimizer.minimize([cost])` at /app/train.py:8 in main"
    )


def test_an_open_call_and_a_long_one_are_told_in_few_words() -> None:
    raised = "ValueError: the mode is odd"
    assert "`model.fit(...` at /app" in (_below("a/b.py", "model.fit(", raised).remedy or "")
    long = _below("a/b.py", f"fit({'x, ' * 40})", raised)
    assert (long.remedy or "").startswith(
        "compare what the message says with the line at /app/train.py:8 in main, "
    )


def test_a_mistake_inside_a_package_is_not_the_scripts() -> None:
    # https://github.com/Lightning-AI/pytorch-lightning/issues/2306
    raised = "UnboundLocalError: local variable 'task' referenced before assignment"
    cause = _below("pytorch_lightning/trainer/trainer.py", "trainer.fit(model)", raised)
    assert cause.code == "exception"
    assert cause.message.startswith(f"code of pytorch_lightning failed: {raised}, at ")
    assert "another version of pytorch_lightning" in (cause.remedy or "")
    # https://github.com/kohya-ss/sd-scripts/issues/485
    raised = "NameError: name 'str2optimizer8bit_blockwise' is not defined"
    assert _below("bitsandbytes/functional.py", "optimizer.step()", raised).code == "extension"


def test_a_check_of_the_script_itself_is_told_with_its_place() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in parse',
        "    raise ValueError('the rate is negative')",
        "ValueError: the rate is negative",
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.code == "setting"
    assert (cause.remedy or "").startswith("see the condition before /app/train.py:9 in parse, ")


def test_the_remedy_of_a_known_cause_names_the_line_of_the_script() -> None:
    raised = "RuntimeError: shape '[4, 5]' is invalid for input of size 24"
    remedy = _below("torch/_tensor.py", "x.view(4, 5)", raised).remedy or ""
    assert remedy.startswith("print the shapes before /app/train.py:8 in main, ")


@pytest.mark.parametrize(
    ("raised", "code", "advice"),
    [
        # https://github.com/facebookresearch/detectron2/issues/2430
        ("AssertionError: Dataset 'densepose_coco_2014_train' is already registered!", "registry",
         "two copies"),
        # https://github.com/ray-project/ray/pull/57863
        ("RuntimeError: TrainFnUtils has not been initialized.", "setting", "initialization"),
        # https://github.com/tensorflow/tensorflow/issues/35743
        ("ValueError: `handle` is not available outside the replica context or a "
         "`tf.distribute.Strategy.update()` call.", "setting", "initialization"),
        # https://github.com/bmaltais/kohya_ss/issues/1867
        ("ImportError: No bitsandbytes / bitsandbytes", "module", "image.python"),
        # https://github.com/axolotl-ai-cloud/axolotl/issues/1700
        ("TypeError: LlamaForCausalLM.forward() got an unexpected keyword argument 'length'",
         "package-versions", "columns"),
        # https://github.com/AI-Hypercomputer/maxtext/issues/20
        ("jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: TPU platform already "
         "registered for platform hardware version", "xla", "one process"),
    ],
)  # fmt: skip
def test_the_shape_of_a_message_decides_on_the_remedy(raised: str, code: str, advice: str) -> None:
    cause = _below("odd/core.py", "run(x)", raised)
    assert (cause.code, advice in (cause.remedy or "")) == (code, True), cause


@pytest.mark.parametrize(
    ("file", "raised"),
    [
        # https://github.com/NVIDIA/DALI/issues/4429
        ("nvidia/dali/pipeline.py", "RuntimeError: Critical error when building pipeline: LMDB "
         "Error: Invalid argument, with file: /data/db/lmdb"),
        # https://github.com/webdataset/webdataset/issues/418
        ("webdataset/shardlists.py", "AssertionError: k,v = url, /mypath/dataset.tar"),
        # https://github.com/ray-project/ray/pull/48643
        ("ray/data/_internal/datasource/webdataset_datasource.py", "ValueError: fx001.jpg: "
         "duplicate file name in tar file jpg dict_keys(['__key__', 'jpg', 'json'])"),
    ],
)  # fmt: skip
def test_a_library_that_reads_data_failed_on_the_data(file: str, raised: str) -> None:
    cause = _below(file, "for batch in loader:", raised)
    assert cause.code == "data-file"
    assert "shard" in (cause.remedy or "")


def test_fatal_native_text_that_is_no_condition_concerns_versions() -> None:
    # https://github.com/kingoflolz/mesh-transformer-jax/issues/202
    line = (
        "2022-02-23 07:56:56.271731: F external/org_tensorflow/tensorflow/core/tpu/"
        "tpu_library_init_fns.inc:104] TpuEmbeddingEngine_WriteParameters not available in this "
        "library."
    )
    [cause] = known_causes([line], 134, "SIGABRT")
    assert (cause.remedy or "").startswith("look for the package that it comes from")


def test_native_text_of_a_condition_concerns_settings_and_data() -> None:
    fatal = ["F0601 10:00:00.000000 1 a.cc:7] Check failed: n == m"]
    thrown = ["terminate called after throwing an instance of 'std::out_of_range'", "what():  stoi"]
    for lines in (fatal, thrown):
        [cause] = known_causes(lines, 134, "SIGABRT")
        assert (cause.remedy or "").startswith("compare the condition")


def test_a_failure_of_a_replica_of_data_parallel_is_its_own_exception() -> None:
    # https://github.com/mlcommons/algorithmic-efficiency/issues/582
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in main',
        "    out = model(x)",
        '  File "/opt/lib/python3.11/site-packages/torch/_utils.py", line 699, in reraise',
        "    raise exception",
        "AssertionError: Caught AssertionError in replica 0 on device 0.",
        "Original Traceback (most recent call last):",
        '  File "/opt/lib/python3.11/site-packages/torch/nn/parallel/parallel_apply.py", line 83, '
        "in _worker",
        "    output = module(*input, **kwargs)",
        '  File "/app/model.py", line 43, in forward',
        "    assert x.ndim == 4",
        "AssertionError",
    ]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert cause.message.endswith(
        ": AssertionError: assert x.ndim == 4, at /app/model.py:43 in forward"
    )


def test_code_that_the_compiler_wrote_fails_as_the_compilers() -> None:
    # https://github.com/pytorch/pytorch/issues/138715
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in main',
        "    trainer.fit(model)",
        '  File "/tmp/torchinductor_me/fa/cfaqkfhrkudj.py", line 559, in call',
        "    assert_size_stride(primals_2, (1024, 1024), (1024, 1))",
        "AssertionError: expected size 4096==1024, stride 1024==1024 at dim=0",
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.code == "compile"
    assert cause.message.endswith(", at /app/train.py:9 in main")
    # https://github.com/pytorch/torchtitan/issues/2401
    raised = "RuntimeError: Attempting to use FunctionalTensor on its own."
    assert _below("torch/_subclasses/functional_tensor.py", "train()", raised).code == "compile"


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        # https://github.com/PaddlePaddle/Paddle/issues/52394
        ("ValueError: paddle.distributed initialize error, environment variable "
         "PADDLE_CURRENT_ENDPOINT is needed, but not set.", "variable-unset",
         "PADDLE_CURRENT_ENDPOINT"),
        # https://github.com/OSUSecLab/SymLM/issues/18
        ('    registry.set_defaults(state["args"], tasks.TASK_REGISTRY[state["args"].task])\n'
         "KeyError: 'trex'", "registry", "'trex'"),
        # https://github.com/NVIDIA/DALI/issues/3387
        ("RuntimeError: Failed to load libcuda.so. Check your library paths and if the driver is "
         "installed correctly.", "gpu-container", "libcuda.so"),
    ],
)  # fmt: skip
def test_a_message_that_names_what_is_missing(text: str, code: str, named: str) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 9, in f',
        *text.split("\n"),
    ]
    [cause] = known_causes(lines, 1, None)
    assert (cause.code, cause.message.rpartition(": ")[2]) == (code, named)


def test_a_sharded_operation_that_refuses_its_input_is_no_order_of_modules() -> None:
    # https://github.com/pytorch/torchtitan/issues/2401
    raised = (
        "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: "
        'call_function matmul(*(x, y), **{}): got RuntimeError("only bfloat16 inputs are '
        'supported, got torch.float32\\n\\nSharding propagation failed for torch.ops")'
    )
    assert _below("torch/_dynamo/utils.py", "train()", raised).code == "tensor-shape"


def test_a_message_goes_past_a_comma() -> None:
    # https://github.com/NVIDIA/DALI/issues/6149
    raised = (
        "RuntimeError: Error in CPU operator 'fn.decoders.image',\nwhich was used in a pipeline"
    )
    message = _below("nvidia/dali/pipeline.py", "run()", raised).message
    assert "'fn.decoders.image', which was used in a pipeline, at /app/train.py:8" in message


def test_a_missing_key_is_told_with_the_line_that_reads_it() -> None:
    # https://github.com/open-mmlab/mmdetection3d/issues/1642
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/mmdet3d/datasets/pipelines/loading.py", line 202, in __call__',
        "    ts = results['timestamp']",
        "KeyError: 'timestamp'",
    ]
    [cause] = known_causes(lines, 1, None)
    assert (cause.remedy or "").startswith(
        "look at the keys in `ts = results['timestamp']` at /app/"
    )


def test_an_example_of_a_package_is_a_script() -> None:
    # https://github.com/TheLastBen/fast-stable-diffusion/issues/1959
    lines = [
        "Traceback (most recent call last):",
        '  File "/content/diffusers/examples/dreambooth/train.py", line 321, in __init__',
        '    raise ValueError("{}")',
        "ValueError: {}",
    ]
    texts = ("Instance images root doesn't exists.", "Odd instance images.")
    found = [known_causes([line.format(text) for line in lines], 1, None) for text in texts]
    assert [cause.code for [cause] in found] == ["file-missing", "setting"]
    assert (found[1][0].remedy or "").startswith("see the condition before /content/diffusers/")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("ValueError: label 7 is outside the range [0, 5)", "refuses a call"),
        ("AssertionError: a box lies outside of the image", "refuses a call"),
        ("ValueError: 3 weights were not initialized from the checkpoint", "refuses a call"),
        ("RuntimeError: Please install flash-attn before using it", "the image does not have"),
        ("ValueError: the root node is not found", "a value or a name"),
        ("ImportError: No backend found", "name that does not exist"),
        ("ValueError: the environment variable MODE must not be set", "refuses a call"),
        ("ValueError: environment variable DATA is /x, which is not found", "a value or a name"),
    ],
)
def test_a_message_of_another_meaning_keeps_its_kind(raised: str, said: str) -> None:
    assert said in _below("odd/core.py", "run(x)", raised).message


@pytest.mark.parametrize(
    ("file", "raised", "code", "advice"),
    [
        # https://github.com/ROCm/pytorch/issues/453
        ("torch/distributed/c10d.py", "RuntimeError: CUDA tensor detected and the MPI used "
         "doesn't have CUDA-aware MPI support", "binary", "another backend or option in `run(x)`"),
        # https://github.com/EleutherAI/gpt-neox/issues/1165
        ("apex/optimizers/fused_adam.py", "RuntimeError: apex.optimizers.FusedAdam requires cuda "
         "extensions", "binary", "a build that has it"),
        # https://github.com/NVIDIA-NeMo/Speech/issues/6976
        ("torchmetrics/metric.py", "ValueError: Unexpected keyword arguments: `compute_on_step`",
         "package-versions", "the version of torchmetrics"),
        # https://github.com/Lightning-AI/lightning-thunder/issues/858
        ("thunder/core/interpreter.py", "TypeError: expected 2 arguments, got 1",
         "package-versions", "otherwise change `run(x)` at /app/train.py:8"),
        # https://github.com/EleutherAI/gpt-neox/issues/1043
        ("deepspeed/__init__.py", "AssertionError: Not sure how to proceed, we were given "
         "deepspeed configs in the deepspeed arguments and deepspeed.initialize() function call",
         "deepspeed", "keep one of the two"),
        # https://github.com/scikit-learn/scikit-learn/blob/1.5.0/sklearn/metrics/_ranking.py
        ("sklearn/metrics/_ranking.py", "ValueError: Only one class present in y_true. ROC AUC "
         "score is not defined in that case.", "setting", "with `run(x)` at /app/train.py:8"),
        ("odd/a.py", "ValueError: the mode wide is not supported", "setting", "version of odd"),
        ("odd/a.py", "RuntimeError: The hook is already set", "setting", "once, in `run"),
        ("odd/a.py", "ValueError: Unknown mode: wide", "setting", "documentation of odd"),
        ("odd/a.py", "ValueError: rate must be specified", "setting", "give what the message"),
        ("odd/a.py", "ValueError: stage 2 requires an optimizer", "setting", "give what the"),
        ("odd/a.py", "ValueError: rope must contain keys {'a'}", "setting", "give what the"),
        ("odd/a.py", "ValueError: count must be an integer > 0.", "setting", "compare the numbers"),
        ("odd/a.py", "RuntimeError: the lock timed out", "exception", "what `run(x)` at"),
        ("odd/a.py", "ValueError: size 9 exceeds the buffer", "setting", "compare the numbers"),
        ("odd/a.py", "ValueError: expected 3 bands but got 4", "setting", "print both, "),
        # https://github.com/xai-org/grok-1/issues/248
        ("jax/mesh_utils.py", "ValueError: Number of devices 1 must equal the product of "
         "mesh_shape (1, 8)", "setting", "number of ranks), in `run(x)` at"),
        ("megatron/core/x.py", "ValueError: Unknown mode: wide", "megatron", "in run.args"),
    ],
)  # fmt: skip
def test_the_words_of_a_refusal_and_its_place_are_the_remedy(
    file: str, raised: str, code: str, advice: str
) -> None:
    cause = _below(file, "run(x)", raised)
    assert (cause.code, advice in (cause.remedy or "")) == (code, True), cause


def test_the_words_of_an_error_without_a_traceback_have_their_remedy() -> None:
    # https://github.com/facebookresearch/ParlAI/issues/3084
    [cause] = known_causes(["RUNTIME ERROR: SLURM does not appear to be installed."], 1, None)
    assert (cause.remedy or "").startswith("install it: ")
    # https://github.com/PaddlePaddle/Paddle/issues/10876
    [cause] = known_causes(["E0523 18:38:30.05 4 grpc.cc:2] grpc error:Deadline Exceeded"], 1, None)
    assert (cause.remedy or "").startswith("look at what the script")


def test_a_worker_that_was_killed_is_no_wrong_argument() -> None:
    # https://conda.store/conda-store/references/faq
    raised = "billiard.exceptions.WorkerLostError: Worker exited: signal 9 (SIGKILL) Job: 348."
    assert _below("billiard/pool.py", "run()", raised).code == "killed"


def test_a_value_that_is_none_is_told_with_the_call() -> None:
    # https://github.com/huggingface/peft/issues/356
    raised = "TypeError: 'NoneType' object does not support item assignment"
    remedy = _below("datasets/iterable_dataset.py", "data.cast_column(x)", raised).remedy or ""
    assert remedy.startswith("see which value of `data.cast_column(x)` at /app/train.py:8")


def test_an_object_of_another_class_is_named_with_the_code_that_uses_it() -> None:
    # https://github.com/tensorflow/tensorflow/issues/28018
    raised = "AttributeError: 'PerReplica' object has no attribute 'begin'"
    remedy = _below("odd/session.py", "run(hooks)", raised).remedy or ""
    assert remedy.startswith("see where the PerReplica comes from: ")
    assert "the version that odd was written for" in remedy


def test_a_function_that_only_calls_another_one_did_not_raise() -> None:
    # https://github.com/axolotl-ai-cloud/axolotl/issues/1700
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        "    trainer.train()",
        '  File "/opt/lib/python3.11/site-packages/odd/loop.py", line 3, in step',
        "    model(**batch)",
        '  File "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1541, in '
        "_call_impl",
        "    return forward_call(*args, **kwargs)",
        "TypeError: work() got an unexpected keyword argument 'length'",
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.message.endswith("; raised at odd/loop.py:3 in step")
    assert "install the version of it that odd was written for" in (cause.remedy or "")


@pytest.mark.parametrize("raised", ["dataset version mismatch: 3, not 4", "expected 2 arguments"])
def test_a_check_of_the_script_itself_is_not_read_for_words(raised: str) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in parse',
        "    raise ValueError(message)",
        f"ValueError: {raised}",
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.code == "setting"
    assert (cause.remedy or "").startswith("see the condition before /app/train.py:9 in parse, ")


@pytest.mark.parametrize(
    "raised",
    [
        "openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit exceeded'}}",
        "av.error.InvalidDataError: [Errno 1094995529] Invalid data found when processing: 'a.mp4'",
        "RuntimeError: Too many failed requests",
        "RuntimeError: tried more than 5 times",
        "RuntimeError: view size is not compatible with input tensor's size and stride (at least "
        "one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
        "RuntimeError: two ranks wrote to the file at the same time",
        "RuntimeError: Gpt does not have gradient checkpointing support",
        "RuntimeError: the call failed: StatusCode.UNKNOWN",
        "struct.error: unpack requires a buffer of 4 bytes",
        "subprocess.CalledProcessError: Command 'pip install -r x.txt' returned non-zero exit "
        "status 1.",
        "subprocess.CalledProcessError: Command 'curl http://x/?a==b' returned non-zero exit "
        "status 22.",
    ],
)
def test_words_of_another_meaning_are_no_refusal(raised: str) -> None:
    assert _below("odd/a.py", "run(x)", raised).message.startswith("code of odd failed: ")


def test_a_range_is_a_limit_and_a_device_is_no_name() -> None:
    raised = "ValueError: rate must be in (0, 1]"
    assert _below("odd/a.py", "run(x)", raised).message.startswith("a number is outside")
    raised = "RuntimeError: The device cuda:1 is not available."
    assert "not available:" in _below("odd/a.py", "run(x)", raised).message


def test_less_memory_than_a_program_is_set_to_take_is_no_reason_to_take_more() -> None:
    # https://github.com/vllm-project/vllm/issues/16141
    raised = (
        "ValueError: Free memory on device (70.1/79.3 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 71.4 GiB)."
    )
    remedy = _below("vllm/v1/worker/gpu_worker.py", "LLM(model)", raised).remedy or ""
    assert "raise gpu_memory_utilization" not in remedy


def test_what_only_one_call_may_make_is_made_on_each_rank() -> None:
    raised = "RuntimeError: trying to initialize the default process group twice!"
    assert "test before whether it exists" in (_below("odd/a.py", "run(x)", raised).remedy or "")


def test_the_remedy_names_no_package_that_does_not_exist() -> None:
    """A checkout of transformers is outside site-packages."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/src/transformers/src/transformers/modeling_utils.py", line 9, in load',
        "    check(config)",
        "ValueError: the mode is odd",
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.message.startswith("the package refuses a call, a setting or its input: ")
    assert "the model's config.json" in (cause.remedy or "")


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


def test_a_main_module_without_a_file_is_no_pickled_class() -> None:
    # https://github.com/python/cpython/issues/87115
    raised = "AttributeError: module '__main__' has no attribute '__spec__'"
    assert _below("odd/pdb.py", "run(x)", raised).code == "package-versions"


def test_a_class_that_is_private_to_its_module_is_an_exception() -> None:
    # https://github.com/googleapis/python-aiplatform/issues/2177,
    # https://github.com/spaceone-dev/homi/issues/22
    raised = (
        "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n"
        "        status = StatusCode.UNKNOWN\n"
        '        details = "Exception calling application: wrapper() missing 1 required positional '
        "argument: 'context'\""
    )
    message = _below("grpc/_channel.py", "stub.Get(x)", raised).message
    assert message.startswith("a service did not answer, or failed: ")
    assert "Exception calling application" in message


def test_a_file_that_cannot_be_renamed_has_two_paths() -> None:
    # https://github.com/huggingface/pytorch-image-models/issues/2407
    raised = "FileNotFoundError: [Errno 2] No such file or directory: '/o/tmp.pt' -> '/o/last.pt'"
    cause = _below("timm/saver.py", "save(x)", raised)
    assert cause.message.endswith(": '/o/tmp.pt' -> '/o/last.pt'")
    assert "let one rank write" in (cause.remedy or "")


def test_only_a_check_of_the_script_itself_is_one() -> None:
    """An exception that the script wraps, or raises for any reason, refuses no setting."""
    raise_line = '    raise RuntimeError("training failed") from error'
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        "    fit()",
        "ValueError: an odd mode",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 20, in main',
        raise_line,
    ]
    for text in ("RuntimeError: training failed", "ValueError: another mode"):
        [cause] = known_causes([*lines, text], 1, None)
        assert "the script's own code refuses" not in cause.message
        assert "see the condition" not in (cause.remedy or "")
    [cause] = known_causes([*lines[7:], "RuntimeError: training failed"], 1, None)
    assert cause.message.startswith("the program raised an exception: RuntimeError: training")
    library = '  File "/usr/lib/python3.11/subprocess.py", line 571, in run'
    [cause] = known_causes([lines[7], library, raise_line, "ValueError: an odd mode"], 1, None)
    assert cause.message.startswith("a package or the script refuses a setting")
    assert (cause.remedy or "").startswith("change what the message names, in the script, ")


def test_the_origin_in_another_process_is_no_handler() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        "    mp.spawn(work, nprocs=2)",
        "torch.multiprocessing.spawn.ProcessRaisedException: ",
        "",
        "-- Process 0 terminated with the following error:",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 20, in work',
        '    raise ValueError("the rate is negative")',
        "ValueError: the rate is negative",
    ]
    [cause] = known_causes(lines, 1, None)
    assert (cause.remedy or "").startswith("see the condition before /app/train.py:20 in work, ")


def test_the_line_of_a_handler_is_not_the_line_of_a_known_cause() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        "    x.view(4, 5)",
        "RuntimeError: shape '[4, 5]' is invalid for input of size 24",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 20, in main',
        '    raise RuntimeError("training failed") from error',
        "RuntimeError: training failed",
    ]
    [cause] = known_causes(lines, 1, None)
    assert (cause.remedy or "").startswith("print the shapes before the script's line in the trace")


def test_a_package_has_its_name_in_an_egg_and_below_a_folder_of_examples() -> None:
    raised = "ValueError: the mode is odd"
    egg = "detectron2-0.6-py3.8-linux-x86_64.egg/detectron2/config.py"
    assert _below(egg, "run(x)", raised).message.startswith("detectron2 refuses")
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/examples/.venv/lib/python3.11/site-packages/peft/config.py", line 7, in f',
        "    raise ValueError(",
        raised,
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.message.startswith("peft refuses a call")


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
