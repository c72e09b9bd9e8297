"""The known causes of failed jobs, and what their messages name: a file, an option, a number."""

from __future__ import annotations

import pytest

from rsctl.runs.stream.diagnosis import known_causes


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("efa: Unresponsive remote (error 4103)", "efa-peer", ""),
        ("unknown flag: --gpus-all", "container-option", "--gpus-all"),
        ("you need to add an explicit nodesplitter to your input pipeline", "nodes-shards", ""),
        ("jax.errors.JaxRuntimeError: INTERNAL: it broke", "xla", "INTERNAL: it broke"),
        (
            "A requested component was not found, or was unable to be opened.\nHost: a\n"
            "Framework: pml\nComponent: ucx",
            "mpi-component",
            "ucx",
        ),
        (
            "A request was made to bind to that would result in binding more processes than cpus",
            "mpi-mapping",
            "A request was made to bind",
        ),
        (
            "Total available GPUs 4 is less than total desired GPUs 8",
            "ray-resources",
            "Total available GPUs 4 is less than total desired GPUs 8",
        ),
        ("NCCL WARN Mismatched NCCL version detected : rank 0", "nccl-version", ""),
        ("ValueError: Invalid rank 4, rank should be in the interval [0, 3]", "rank-number", "4"),
        (
            "ImportError: attempted relative import with no known parent package",
            "relative-import",
            "",
        ),
        (
            '  File "/x/train.py", line 3\n    match x:\n          ^\nSyntaxError: invalid syntax',
            "syntax",
            '"/x/train.py", line 3',
        ),
        ("RuntimeError: can't start new thread", "threads", ""),
        (
            "botocore.exceptions.ClientError: An error occurred (NoSuchBucket) when calling the "
            "ListObjectsV2 operation: The specified bucket does not exist",
            "storage-missing",
            "ListObjectsV2",
        ),
        (
            "cannot run ./run.sh: its interpreter /bin/zsh does not exist",
            "interpreter",
            "/bin/zsh",
        ),
        ("cannot run ./run: its first line names no interpreter", "interpreter", "./run"),
        ("cannot run cd x && ls: it is for a shell, and none runs it", "shell", "cd x && ls"),
        (
            "python3: can't open file '/x/none.py': [Errno 2] No such file or directory",
            "script",
            "/x/none.py",
        ),
        (
            "ValueError: the global size of its dimension 0 should be divisible by 8",
            "jax-sharding",
            "global size of its dimension 0",
        ),
        (
            "jax.errors.TracerBoolConversionError: Attempted boolean conversion",
            "jax-tracer",
            "TracerBoolConversionError",
        ),
        ("Ran out of memory in memory space hbm.", "tpu-memory", "hbm"),
    ],
)
def test_what_a_cause_names(text: str, code: str, named: str) -> None:
    cause = known_causes(text.splitlines(), 1, None)[0]
    assert cause.code == code
    assert named in cause.message
    assert cause.remedy


@pytest.mark.parametrize(
    ("text", "exit_code", "message", "remedy"),
    [
        (
            "rsctl: cannot run accelerate: there is no such program",
            127,
            "the command to run is not installed: accelerate",
            "on target process, install it in the environment of rsctl and activate that",
        ),
        (
            "bash: line 1: python,: command not found\nbash: line 2: ,: command not found",
            127,
            "the command to run is not installed: 'python,', ','",
            "correct run.command",
        ),
        (
            "rsctl: cannot run ./adir: it is a folder",
            126,
            "the command to run is a folder: ./adir",
            "correct run.command: it must begin with a program",
        ),
        (
            'unable to start container process: exec: "/app": is a directory: unknown',
            126,
            "the command to run is a folder: /app",
            "correct run.command: it must begin with a program",
        ),
        (
            "rsctl: cannot run ./run: its file is not executable",
            126,
            "the command to run is not executable: ./run",
            "make it executable (`chmod +x`)",
        ),
    ],
)
def test_a_program_that_cannot_start(text: str, exit_code: int, message: str, remedy: str) -> None:
    [cause] = known_causes(text.splitlines(), exit_code, None)
    assert cause.message == message
    assert remedy in (cause.remedy or "")
    assert "chmod" not in (cause.remedy or "") or "not executable" in message


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        (
            f"{'/folder' * 30}/libgomp.so.1: cannot allocate memory in static TLS block",
            "library",
            f"{'/folder' * 30}/libgomp.so.1",
        ),
        (f"/x/{'n' * 240}.so: failed to map segment from shared object", "library", "n" * 240),
        (f"/x/{'n' * 200}.so: undefined symbol: foo", "binary", "n" * 200),
        (
            f"no viable alternative at input '[{'a.yaml,' * 100}'\nSee https://hydra.cc/docs/1.3/"
            "advanced/override_grammar/basic for details",
            "arguments",
            "no viable alternative at input '[a.yaml,a.yaml,",
        ),
    ],
)
def test_long_names_and_lines(text: str, code: str, named: str) -> None:
    [cause] = known_causes(text.splitlines(), 1, None)
    assert (cause.code, named in cause.message) == (code, True)


@pytest.mark.parametrize(
    "text",
    [
        "libcudart.so.12: cannot open shared object file",
        "/x/a.so: undefined symbol: foo",
        "version `GLIBC_2.38' not found",
        "module 'numpy' has no attribute 'bool'",
        "cannot run accelerate: there is no such program",
    ],
)
def test_no_cause_blames_an_image_that_a_process_does_not_have(text: str) -> None:
    assert "image" not in known_causes([text], 1, None)[0].message
