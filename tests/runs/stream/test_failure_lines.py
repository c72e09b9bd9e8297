"""Which lines of a failed replica's log are shown."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from time import process_time

import pytest

from rsctl.runs.stream.diagnosis import known_causes
from rsctl.runs.stream.failure_lines import failure_lines

CHAINED = """\
step 1
Traceback (most recent call last):
  File "/app/train.py", line 3, in load
    open("x")
FileNotFoundError: [Errno 2] No such file or directory: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    load()
RuntimeError: no data""".splitlines()

TORCHRUN = """\
E0131 12:00:00.123000 139 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1)
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/opt/torch/distributed/run.py", line 901, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/app/train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
  exitcode  : 1 (pid: 8)
============================================================""".splitlines()

GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/train.py", line 4, in <module>
  |     raise ExceptionGroup("two", [first, second])
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/train.py", line 1, in <module>
    | ValueError: first
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/app/train.py", line 2, in <module>
    | ValueError: second
    +------------------------------------""".splitlines()


CRASH = """
import faulthandler, threading

def wait(depth):
    wait(depth - 1) if depth else threading.Event().wait()

def step(depth):
    step(depth - 1) if depth else faulthandler._sigsegv()

for _ in range(2):
    threading.Thread(target=wait, args=(30,), daemon=True).start()
step(20)
"""


def test_without_a_traceback_the_last_lines_are_shown() -> None:
    assert failure_lines(f"line {n}" for n in range(50)) == [f"line {n}" for n in range(40, 50)]
    assert failure_lines([]) == []


def test_structured_lines_are_not_shown() -> None:
    assert failure_lines(["a", '{"rsctl": "telemetry", "cpu": 1}', "b"]) == ["a", "b"]


def test_of_tracebacks_the_last_is_shown() -> None:
    earlier = ["Traceback (most recent call last):", "ValueError: caught", "going on"]
    assert failure_lines([*earlier, *CHAINED[8:]]) == CHAINED[8:]


def test_a_chain_of_tracebacks_is_shown_from_its_first() -> None:
    assert failure_lines(CHAINED) == CHAINED[1:]
    during = "During handling of the above exception, another exception occurred:"
    chain = [during if "direct cause" in line else line for line in CHAINED]
    assert failure_lines(chain) == chain[1:]


@pytest.mark.parametrize("prefix", ["", "[rank0]:"])
def test_an_exception_group_is_shown_as_a_whole(prefix: str) -> None:
    group = [prefix + line for line in GROUP]
    assert failure_lines(["step 1", *group]) == group


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_an_exception_group_as_this_python_writes_it() -> None:
    script = textwrap.dedent("""
        inner = ExceptionGroup("inner", [ValueError("a"), TypeError("b")])
        raise ExceptionGroup("outer", [inner, OSError("c")])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    written = done.stderr.splitlines()
    assert failure_lines(["before", *written]) == written


def test_what_torchrun_says_of_a_failure_is_left_out() -> None:
    assert failure_lines([*CHAINED, *TORCHRUN]) == CHAINED[1:]
    assert failure_lines(["loss 1", TORCHRUN[0]]) == ["loss 1"]


def test_torchruns_own_traceback_is_better_than_none() -> None:
    assert failure_lines(["loss 1", *TORCHRUN]) == TORCHRUN[1:]


def test_of_a_very_long_traceback_the_head_and_the_end_are_shown() -> None:
    long = ["Traceback (most recent call last):", *map(str, range(100)), "RecursionError"]
    shown = failure_lines(long)
    assert shown[:2] == [long[0], "..."]
    assert shown[2:] == long[-30:]


@pytest.mark.parametrize("after", [[], ["train.sh: line 3:     7 Segmentation fault"], TORCHRUN])
def test_of_a_crash_the_frames_of_the_thread_that_crashed_are_shown(after: list[str]) -> None:
    argv = [sys.executable, "-X", "faulthandler", "-c", CRASH]
    stderr = subprocess.run(argv, capture_output=True, text=True).stderr
    lines = ["step 1", *stderr.splitlines(), *after]
    shown = failure_lines(lines)
    assert '  File "<string>", line 8 in step' in shown
    assert len(shown) < 50
    assert not any(line.endswith("in wait") for line in shown)
    (cause,) = known_causes(shown, 139, "SIGSEGV", earlier=lines)
    assert cause.message == 'native code crashed, called from: "<string>", line 8 in step'


def test_a_traceback_that_was_cut_off_gives_way_to_the_one_before() -> None:
    cut = ["Traceback (most recent call last):", '  File "/app/train.py", line 9, in <module>']
    assert failure_lines([*CHAINED[8:], *cut])[: len(CHAINED) - 8] == CHAINED[8:]


def _of_rank(rank: int, *raised: str) -> list[str]:
    """The traceback that ends a rank, as PyTorch marks it."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in <module>',
        "    main()",
        *raised,
    ]
    return [f"[rank{rank}]: {line}" for line in lines]


LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4711",
    "RuntimeError: [Rank 1] Caught collective operation timeout: WorkGLOO(x) ran for 1800 ms",
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    "KeyboardInterrupt",
)


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("is_marked", [True, False])
def test_of_ranks_in_one_log_the_one_that_failed_by_itself_is_shown(
    lost: str, is_marked: bool
) -> None:
    own, other = _of_rank(0, "ValueError: bad lr"), _of_rank(1, lost)
    if not is_marked:
        own = [line.removeprefix("[rank0]: ") for line in own]
        other = [line.removeprefix("[rank1]: ") for line in other]
    assert failure_lines(["step 1", *own, *other]) == own


def test_ranks_that_write_at_the_same_time_are_told_apart() -> None:
    own, other = _of_rank(0, "ValueError: bad lr"), _of_rank(1, LOST[0])
    mixed = [line for pair in zip(own, other, strict=True) for line in pair]
    assert failure_lines(mixed) == own


def test_a_rank_whose_own_program_was_too_slow_did_not_lose_another() -> None:
    raised = "subprocess.TimeoutExpired: Command 'tar x' timed out after 60 seconds"
    own = _of_rank(0, raised)
    assert failure_lines([*own, *_of_rank(1, LOST[0])]) == own


def test_where_all_ranks_only_lost_another_the_last_is_shown() -> None:
    other = _of_rank(1, LOST[0])
    assert failure_lines([*_of_rank(0, LOST[2]), *other]) == other


def test_an_exception_that_the_script_survived_is_not_the_failure_of_another_rank() -> None:
    caught = [line.removeprefix("[rank0]: ") for line in _of_rank(0, "ValueError: no cache")]
    lost = [line.removeprefix("[rank1]: ") for line in _of_rank(1, LOST[0])]
    steps = [f"step {n}" for n in range(9)]
    assert failure_lines([*caught, *steps, *lost]) == lost


STARTERS = {
    "accelerate/commands/launch.py": "'/usr/bin/python3', 'train.py'",
    "torch/distributed/launch.py": "'/usr/bin/python', '-u', 'train.py', '--local_rank=1'",
}


@pytest.mark.parametrize(("path", "command"), STARTERS.items())
def test_the_traceback_of_the_script_is_shown_and_not_its_starters(path: str, command: str) -> None:
    starter = [
        "Traceback (most recent call last):",
        f'  File "/opt/lib/python3.11/site-packages/{path}", line 8, in main',
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)",
        f"subprocess.CalledProcessError: Command '[{command}]' returned non-zero exit status 1.",
    ]
    own = CHAINED[8:]
    assert failure_lines([*own, *starter]) == own
    assert failure_lines(["step 1", own[-1], *starter]) == ["step 1", own[-1]]
    assert failure_lines(["step 1", *starter]) == starter


@pytest.mark.parametrize(
    "header",
    [
        ["Exception ignored in: <function _Iter.__del__ at 0x7f>"],
        ["Exception in thread Thread-3:"],
        ["Error in atexit._run_exitfuncs:"],
        ["--- Logging error ---"],
        ["Task exception was never retrieved", "future: <Task finished name='Task-1'>"],
    ],
)
def test_an_exception_while_the_program_ends_is_not_its_failure(header: list[str]) -> None:
    own = CHAINED[8:]
    later = [
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.11/threading.py", line 7, in run',
        "AttributeError: 'NoneType' object has no attribute 'close'",
    ]
    assert failure_lines([*own, *header, *later]) == own
    assert failure_lines(["step 1", *header, *later]) == later
    assert failure_lines([*own[1:], *header, *later]) == own[1:]  # the log is cut
    steps = [f"step {n}" for n in range(9)]
    assert failure_lines([*own, *steps, *header, *later]) == later


REPORTS = {
    "torchrun": [
        "Traceback (most recent call last):",
        '  File "/opt/python3.11/site-packages/torch/distributed/launcher/api.py", line 269, in '
        "launch_agent",
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "train.py FAILED",
    ],
    "accelerate": [
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.11/site-packages/accelerate/commands/launch.py", line 763, in '
        "simple_launcher",
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit "
        "status 1.",
    ],
    "toolkit": [
        "sagemaker-training-toolkit ERROR    ExecuteUserScriptError:",
        "ExitCode 1",
        'ErrorMessage ""',
    ],
}


@pytest.mark.parametrize("starter", REPORTS)
@pytest.mark.parametrize(
    ("own", "code"),
    [
        (["[rank3]: Cuda failure 802 'system not yet initialized'"], "gpu-state"),
        (["/usr/bin/python: No module named mpi4py"], "module"),
        (["KeyError: 'loader-0'"], "key-missing"),
        (
            ['  File "/app/train.py", line 3, in main', "    assert n", "AssertionError"],
            "exception",
        ),
    ],
)
def test_the_cause_that_stands_before_the_report_of_a_starter(
    own: list[str], code: str, starter: str
) -> None:
    lines = ["step 7", *own, *REPORTS[starter]]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == [code]
    report = ["step 7", *REPORTS[starter]]
    assert failure_lines(report)[-3:] == REPORTS[starter][-3:]


# The referring exceptions: https://github.com/vllm-project/vllm/issues/39685
ENGINE = """\
(Worker_TP1 pid=400) ERROR 04-11 22:28:50 [multiproc_executor.py:800] Traceback (most recent call last):
(Worker_TP1 pid=400) ERROR 04-11 22:28:50 [multiproc_executor.py:800]   File "/opt/vllm/awq.py", line 88, in create
(Worker_TP1 pid=400) ERROR 04-11 22:28:50 [multiproc_executor.py:800]     raise FormatError("seven scales")
(Worker_TP1 pid=400) ERROR 04-11 22:28:50 [multiproc_executor.py:800] vllm.FormatError: seven scales
(EngineCore pid=335) ERROR 04-11 22:28:52 [core.py:1108] Traceback (most recent call last):
(EngineCore pid=335) ERROR 04-11 22:28:52 [core.py:1108]   File "/opt/vllm/multiproc_executor.py", line 762, in wait
(EngineCore pid=335) ERROR 04-11 22:28:52 [core.py:1108]     raise e from None
(EngineCore pid=335) ERROR 04-11 22:28:52 [core.py:1108] Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
Traceback (most recent call last):
  File "/app/grpo.py", line 40, in <module>
    llm = LLM(model=args.model)
  File "/opt/vllm/v1/engine/utils.py", line 759, in wait_for_engine_startup
    raise RuntimeError("Engine core initialization failed. "
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""  # noqa: E501


def test_an_exception_that_refers_to_another_one_is_not_the_cause() -> None:
    lines = ENGINE.splitlines()
    shown = failure_lines(lines)
    assert len(shown) == 4
    (cause,) = known_causes(shown, 1, None, earlier=lines)
    assert cause.message.endswith(
        ": vllm.FormatError: seven scales, at /opt/vllm/awq.py:88 in create"
    )


def test_an_exception_that_refers_to_its_own_values_is_the_cause() -> None:
    handled = ["Traceback (most recent call last):", '  File "/app/a.py", line 2', "KeyError: 'x'"]
    last = [handled[0], '  File "/app/b.py", line 9', "ValueError: bad lr, check the values above"]
    assert failure_lines([*handled, "step 1", *last]) == last


# https://github.com/luuuyi/RefineDet.PyTorch/issues/28
IN_REPR = r"""
Traceback (most recent call last):
  File "train.py", line 8, in <module>
    raise batch.exc_type(batch.exc_msg)
KeyError: 'Traceback (most recent call last):\n  File "/data/voc.py", line 67, in __call__\n    label_idx = self.class_to_ind[name]\nKeyError: \'trepang\'\n'
"""  # noqa: E501

IN_JSON = r"""
{"level": "info", "msg": "step 10"}
{"level": "error", "exc_info": "Traceback (most recent call last):\n  File \"/data/voc.py\", line 67, in __call__\n    label_idx = self.class_to_ind[name]\nKeyError: 'trepang'", "msg": "the end"}
"""  # noqa: E501


@pytest.mark.parametrize("text", [IN_REPR, IN_JSON])
def test_a_traceback_inside_one_line_is_shown_as_lines(text: str) -> None:
    lines = text.strip().splitlines()
    shown = failure_lines(lines)
    assert shown[:4] == [
        "Traceback (most recent call last):",
        '  File "/data/voc.py", line 67, in __call__',
        "    label_idx = self.class_to_ind[name]",
        "KeyError: 'trepang'",
    ]
    (cause,) = known_causes(shown, 1, None, earlier=lines)
    assert cause.message.endswith(": KeyError: 'trepang', at /data/voc.py:67 in __call__")


def test_other_escapes_inside_one_line_stay() -> None:
    line = r'{"e": "Traceback (most recent call last):\n\tx = \"a\"\nOSError: donn\u00e9es"}'
    assert failure_lines([line])[1:3] == ['\tx = "a"', r"OSError: donn\u00e9es"]


def test_a_long_traceback_inside_one_line_keeps_its_end() -> None:
    frames = [f'  File \\"/app/model.py\\", line {n}, in forward' for n in range(500)]
    text = "\\n".join(["Traceback (most recent call last):", *frames, "ValueError: bad lr"])
    assert failure_lines([f'{{"error": "{text}"}}'])[-2:] == ["ValueError: bad lr", '"}']


def test_hostile_text_inside_one_line_does_not_take_long() -> None:
    head = "Traceback (most recent call last):\\n"
    started = process_time()
    failure_lines([head + "\\" * 200_000, "'" + head * 20_000, head + "\\\\n" * 100_000])
    assert process_time() - started < 2
