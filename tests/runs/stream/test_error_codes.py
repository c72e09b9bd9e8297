"""Errors that a program names by a code of a finite list: each member of the list has its cause."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rsctl.findings import Finding
from rsctl.runs.stream.diagnosis import known_causes
from tests.fixtures import real


@pytest.mark.parametrize("one", real("error_codes"), ids=lambda one: one["set"])
def test_each_member_of_a_list_has_its_cause(one: dict[str, Any]) -> None:
    """In one of the texts in which programs print it; they take turns."""
    members = [(code, member) for code, of in one["codes"].items() for member in of]
    lines = [
        text.replace("{}", member)
        for (_, member), text in zip(members, itertools.cycle(one["texts"]), strict=False)
    ]
    told = {line: [cause.code for cause in _causes(line)][:1] for line in lines}
    expected = {
        line: [code] if code else [] for line, (code, _) in zip(lines, members, strict=True)
    }
    assert told == expected


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("NoSuchUpload", "what the script names does not exist at the service: "),
        ("RepositoryNotFoundException", "what the script names does not exist at the service: "),
        ("ResourceInUse", "a call does not fit the state of what it names"),
        ("InvalidObjectState", "an object is in an archive"),
        ("ValidationException", "a service refused a call of the job: "),
    ],
)
def test_the_words_of_a_services_code_say_what_it_means(code: str, message: str) -> None:
    text = f"An error occurred ({code}) when calling the GetObject operation: no"
    [cause] = _causes(f"botocore.exceptions.ClientError: {text}")
    assert cause.message.startswith(message)
    assert cause.message.endswith(f"({code}) when calling the GetObject operation: no")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("NRT_HW_ERROR", "a Neuron device failed, not the script"),
        ("NRT_TIMEOUT", "a collective operation or an execution of Neuron did not end"),
        ("NRT_EXEC_OOB", "a graph of Neuron got an input that it does not accept: NRT_EXEC_OOB"),
        ("NRT_CLOSED", "Neuron's runtime failed on a NeuronCore"),
    ],
)
def test_a_status_of_neurons_runtime_says_what_failed(status: str, message: str) -> None:
    assert _causes(f"RuntimeError: nrt_execute failed: [{status}]")[0].message.startswith(message)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("OSError: [Errno 107] Transport endpoint is not connected", "network", "server"),
        ("OSError: [Errno 107] Transport endpoint is not connected: '/mnt/a'", "mount", "bucket"),
        ("OSError: [Errno 112] Host is down", "network", "server"),
        ("OSError: [Errno 112] Host is down: '/mnt/a'", "file-system", "/mnt/a"),
        ("PermissionError: [Errno 13] Permission denied", "file-permission", "port"),
        ("FileNotFoundError: [Errno 2] No such file or directory", "file-missing", "not name it"),
        # https://github.com/huggingface/safetensors: SafetensorError of an io::Error
        (
            "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 13, "
            'kind: PermissionDenied, message: "Permission denied" })',
            "file-permission",
            "PermissionDenied",
        ),
        (
            "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 2, "
            'kind: NotFound, message: "No such file or directory" })',
            "file-missing",
            "NotFound",
        ),
        ("KeyboardInterrupt", "signal", "interrupted"),
        (
            "subprocess.CalledProcessError: Command 'a' returned non-zero exit status 1.",
            "script-failed",
            "a command that the script started failed",
        ),
        ("TypeError: bad operand type for unary -: 'str'", "wrong-type", "another type"),
        ("TypeError: sequence item 0: expected str instance, int found", "wrong-type", "another"),
        ("TypeError: keywords must be strings", "wrong-type", "another type"),
        ("TypeError: __init__() should return None, not 'int'", "wrong-type", "another type"),
        ("TypeError: cannot create weak reference to 'int' object", "wrong-type", "another type"),
        (
            "TypeError: only integer tensors of a single element can be converted to an index",
            "wrong-type",
            "as one number",
        ),
        (
            "TypeError: only 0-dimensional arrays can be converted to Python scalars",
            "wrong-type",
            "as one number",
        ),
        (
            "TypeError: unsupported format string passed to Tensor.__format__",
            "wrong-type",
            "another type",
        ),
        # https://github.com/pytorch/torchdynamo/issues/1804
        ("RuntimeError: Triton Error [CUDA]: invalid argument", "compile", "invalid argument"),
        ("RuntimeError: CUDA driver error: invalid argument", "gpu-arguments", "invalid argument"),
        # By safetensors 0.8, tokenizers 0.23, pyarrow 25, numpy 2.4 and click 8.5.
        (
            "safetensors_rust.SafetensorError: Error while serializing: I/O error: No such file or "
            "directory (os error 2)",
            "file-missing",
            "os error 2",
        ),
        ("Exception: No such file or directory (os error 2)", "file-missing", "os error 2"),
        ("FileNotFoundError: /data/train.parquet", "file-missing", "/data/train.parquet"),
        (
            "IndexError: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
            "integer or boolean arrays are valid indices",
            "wrong-type",
            "another type",
        ),
        ("Error: Option '--lr' requires an argument.", "arguments", "--lr"),
        # https://github.com/tensorflow/tensor2tensor/issues/45
        (
            "tensorflow.python.framework.errors_impl.NotFoundError: No session factory registered "
            "for the given session options",
            "file-missing",
            "registered operation",
        ),
        (
            "google.auth.exceptions.MalformedError: The file a.json has no valid type.",
            "credentials-invalid",
            "a.json",
        ),
        # Words that alone would mean something else.
        (
            "google.api_core.exceptions.RetryError: Timeout of 60.0s exceeded, last exception: no",
            "exception",
            "waited in vain",
        ),
        ("FileNotFoundError: ffmpeg is not installed", "module", "program"),
        ("FileNotFoundError: CUDA_HOME is not set", "setting", "not given"),
        ("TypeError: model needs a head", "exception", "raised"),
        ("TypeError: duplicate base class A", "exception", "raised"),
        (
            "TypeError: metaclass conflict: the metaclass of a derived class must be a (non-strict)"
            " subclass of the metaclasses of all its bases",
            "exception",
            "raised",
        ),
        ("TypeError: not all arguments converted during string formatting", "exception", "raised"),
        (
            "tensorflow.python.framework.errors_impl.AbortedError: Operation received an exception:"
            "Status: 3, message: could not create a primitive",
            "grpc-peer",
            "an operation of TensorFlow was cancelled",
        ),
        (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Received message "
            "larger than max (5 vs. 4)",
            "setting",
            "a number is outside the limits",
        ),
        # torch up to 1.6: THCGeneral.cpp
        (
            "RuntimeError: cuda runtime error (11) : invalid argument at a:3",
            "gpu-arguments",
            "",
        ),
        ("RuntimeError: cuda runtime error (3) : initialization error at a.cpp:3", "driver", ""),
        ("RuntimeError: cuda runtime error (999) : unknown error at a.cpp:3", "gpu-fault", ""),
    ],
)
def test_the_number_or_the_class_of_an_error_decides(error: str, code: str, said: str) -> None:
    [cause] = _causes(error)
    assert cause.code == code
    assert said in cause.message


def test_a_training_of_tensorflow_that_needs_a_gpu_and_has_none_says_so() -> None:
    """TensorFlow logs it at its start, and only the script ends."""
    logged = (
        "2021-05-19 14:25:18.473291: E tensorflow/stream_executor/cuda/cuda_driver.cc:328] failed "
        "call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    )
    raised = [
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 8, in main',
        '    assert tf.config.list_physical_devices("GPU")',
        "AssertionError",
    ]
    for lines in (raised, [logged]):
        [cause] = known_causes(lines, 1, None, earlier=[logged, "epoch", *raised])
        assert cause.code == "no-gpu"


def test_a_training_of_tensorflow_that_continues_without_a_gpu_is_not_the_cause() -> None:
    # https://github.com/sglvladi/TensorFlowObjectDetectionTutorial/issues/79
    logged = (
        "2021-05-19 14:25:18.473291: E tensorflow/stream_executor/cuda/cuda_driver.cc:328] failed "
        "call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    )
    raised = [
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 8, in main',
        "    run(x)",
    ]
    [cause] = known_causes([logged, *raised, "TypeError: keywords must be strings"], 1, None)
    assert cause.code == "wrong-type"


@pytest.mark.parametrize(
    "logged",
    [
        "sensor: done, ErrorCode: 0",
        "ErrorCode:timeout, using the last value",
        "cache: google.api_core.exceptions.NotFound: gone",
        "anonymous, as google.auth.exceptions.DefaultCredentialsError: none",
        "no upload: <_InactiveRpcError of RPC that terminated with:\n\tstatus = "
        'StatusCode.UNAVAILABLE\n\tdetails = "no"\n>',
        "export: Error: <_InactiveRpcError of RPC that terminated with:\n\tstatus = "
        'StatusCode.UNAVAILABLE\n\tdetails = "no"\n>',
        "no priority: PermissionError: [Errno 13] Permission denied",
        "no git: FileNotFoundError: [Errno 2] No such file or directory",
        "no metrics: OSError: [Errno 111] Connection refused",
        "cache is read-only: Permission denied (os error 13)",
        "monitor: Error reading the fan: No such file or directory (os error 2)",
        'no cache: Os { code: 2, kind: NotFound, message: "No such file or directory" }',
        "NRT_NETWORK interface: eth0",
        "input starts again: errors_impl.CancelledError: Loop execution was cancelled.",
        "Error: Option 'x' is deprecated",
    ],
)
def test_an_error_that_a_program_only_logs_is_not_the_cause(logged: str) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 8, in main',
        "    run(x)",
        "TypeError: keywords must be strings",
        *logged.split("\n"),
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.code == "wrong-type"


@pytest.mark.parametrize("before", ["", "Traceback (most recent call last): main() "])
def test_an_error_in_sagemakers_text_about_a_job_is_the_cause(before: str) -> None:
    """Its toolkit puts the end of the standard error into one line."""
    text = f"ExitCode 1 ErrorMessage \"{before}OSError: [Errno 39] Directory not empty: '/a'\""
    [cause] = known_causes(
        [], 1, None, reported=[f"AlgorithmError: ExecuteUserScriptError: {text}"]
    )
    assert "let one rank of all nodes write" in (cause.remedy or "")


def test_a_limit_of_the_command_timeout_has_its_cause() -> None:
    [cause] = known_causes(["step 7"], 124, None)
    assert (cause.code, "raise the limit" in (cause.remedy or "")) == ("signal", True)
    found = known_causes(["step 7", "ERROR: the data server is gone"], 124, None)
    assert [each.code for each in found] == ["error", "signal"]


def _causes(error: str) -> list[Finding]:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        "    run(x)",
        *error.split("\n"),
    ]
    is_raised = not error.startswith(("NVRM", "srun", "Error", "ERROR", "In '", "train.py"))
    return known_causes(lines if is_raised else lines[3:], 1, None)


@pytest.mark.parametrize(("signal", "code"), [("SIGKILL", "killed"), ("SIGTERM", "signal")])
@pytest.mark.parametrize("behind", [[], ["bye"], ["a.sh: line 3:    77 Killed    python a.py"]])
def test_a_program_that_another_one_ended_had_not_ended_by_its_exception(
    signal: str, code: str, behind: list[str]
) -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "/app/a.py", line 8, in main',
        "    run(x)",
        "KeyError: 'a'",
    ]
    causes = known_causes([*raised, *behind], 128 + (9 if signal == "SIGKILL" else 15), signal)
    assert [cause.code for cause in causes] == [code]
