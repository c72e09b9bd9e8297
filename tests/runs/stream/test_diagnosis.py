"""Why a job failed, from logs as PyTorch, NCCL, torchrun and docker write them."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from rsctl.runs.stream.diagnosis import known_causes
from rsctl.runs.stream.ends import Killer
from rsctl.runs.stream.failure_lines import failure_lines
from tests.fixtures import real


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "`cublasCreate(handle)`",
            "gpu-memory",
        ),
        (
            "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. ",
            "shared-memory",
        ),
        (
            "[1] misc/shmutils.cc:87 NCCL WARN Error while creating shared memory segment "
            "/dev/shm/nccl-Vh2Sbu (size 9637888)",
            "shared-memory",
        ),
        ("MemoryError", "memory"),
        (
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array",
            "memory",
        ),
        ("OSError: [Errno 12] Cannot allocate memory", "memory"),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: "
            "can't allocate memory: you tried to allocate 4000000000000 bytes.",
            "memory",
        ),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "memory"),
        ("MemoryError: std::bad_alloc: bad allocation", "memory"),
        ("MemoryError: std::bad_alloc: CUDA error at: memory_resource.hpp:70", "gpu-memory"),
        (
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed "
            "or device error.",
            "nccl",
        ),
        ("AssertionError: Torch not compiled with CUDA enabled", "cpu-torch"),
        # By torch 2.13.0+cpu: torch.cuda.set_device(0), torch.cuda.Stream().
        (
            "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
            "cpu-torch",
        ),
        ("RuntimeError: torch.cuda.Stream requires CUDA support", "cpu-torch"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "cpu-torch"),
        ("RuntimeError: Distributed package doesn't have MPI built in.", "backend-device"),
        (
            "worker-0:7:7 [0] net/plugin.cc:40 NCCL WARN Failed to initialize any NET plugin",
            "plugin",
        ),
        ("ModuleNotFoundError: No module named 'transformers.models'", "module"),
        (
            "2024-05-01 10:00:00,123 sagemaker-training-toolkit ERROR    Framework Error:",
            "toolkit",
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
            "local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, "
            "message: address already in use",
            "port",
        ),
        (
            'OCI runtime create failed: exec: "rsctl-launch": executable file not found in $PATH',
            "entrypoint",
        ),
        (
            'runc create failed: exec: "python3": executable file not found in $PATH: unknown',
            "python",
        ),
        ("/gcs/b/packages/0a/package.tar.gz is not what was submitted", "package"),
        ("rsctl cannot start the source: [Errno 2] No such file or directory: '/x'", "package"),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection "
            "closed by peer [172.18.0.3]:23811",
            "peer",
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, "
            "ncclRemoteError: A call failed possibly due to a network error",
            "peer",
        ),
        (
            "rsctl.transport.errors.TransportError: reducer 1 (10.0.0.7:29600) ended the run "
            "during operation 9: rank 2 was lost: it closed the connection",
            "peer",
        ),
        ("rsctl.transport.errors.TransportError: reducer 0 was lost during operation 3", "peer"),
        ("rsctl.transport.errors.TransportError: reducer 0 has been silent for 60 s", "peer"),
        (
            "RuntimeError: size mismatch, m1: [4 x 4096], m2: [2048 x 10] at x.cu:266",
            "tensor-shape",
        ),
        ("ValueError: cannot reshape array of size 1200 into shape (20,30)", "tensor-shape"),
        (
            "RuntimeError: 0D or 1D target tensor expected, multi-target not supported",
            "tensor-shape",
        ),
        (
            "ValueError: Expected more than 1 value per channel when training, got input size "
            "torch.Size([1, 512])",
            "tensor-shape",
        ),
        ("RuntimeError: Found dtype Double but expected Float", "tensor-type"),
        ("TypeError: Object of type int64 is not JSON serializable", "tensor-type"),
        ("TypeError: pic should be PIL Image or ndarray. Got <class 'str'>", "tensor-type"),
        ("RuntimeError: grad can be implicitly created only for scalar outputs", "gradient"),
        ("ValueError: can't optimize a non-leaf Tensor", "gradient"),
        ("RuntimeError: cuda runtime error (2) : out of memory at x.cu:58", "gpu-memory"),
        ("RuntimeError: cuda runtime error (8) : invalid device function", "gpu-binary"),
        ("RuntimeError: cuda runtime error (10) : invalid device ordinal", "processes"),
        ("RuntimeError: Not compiled with GPU support", "extension-missing"),
        ("RuntimeError: expected a CUDA tensor but got torch.FloatTensor", "devices"),
        (
            "ValueError: DistributedDataParallel device_ids and output_device arguments only work "
            "with single-device/multiple-device GPU modules or CPU modules, but got device_ids "
            "[1], output_device None, and module parameters {device(type='cpu')}.",
            "devices",
        ),
        (
            "RuntimeError: Attempting to deserialize object on CUDA device 1 but "
            "torch.cuda.device_count() is 1.",
            "devices",
        ),
        (
            "AttributeError: Can't get attribute 'Model' on <module '__main__' from 'a.py'>",
            "pickled-class",
        ),
        ("numpy.linalg.LinAlgError: Singular matrix", "matrix"),
        ("ValueError: Input contains NaN, infinity or a value too large", "nan-loss"),
        (
            "cv2.error: OpenCV(4.1.0) error: (-215:Assertion failed) !_src.empty() in function "
            "'cvtColor'",
            "data-missing",
        ),
        (
            "ImportError: /lib/libssl.so.3: version `OPENSSL_3.2.0' not found (required by "
            "/lib/libcurl.so.4)",
            "binary",
        ),
    ],
)
def test_a_known_cause_has_a_remedy(line: str, code: str) -> None:
    [cause] = known_causes(["Traceback (most recent call last):", line], 1, None)
    assert (cause.code, cause.severity) == (code, "note")
    assert cause.remedy


def test_a_missing_module_is_named() -> None:
    [cause] = known_causes(["ModuleNotFoundError: No module named 'a'"], 1, None)
    assert cause.message == "a Python module is missing: a"


def test_a_missing_module_of_a_package_that_is_found_needs_another_version() -> None:
    [cause] = known_causes(["ModuleNotFoundError: No module named 'a.b'"], 1, None)
    assert cause.code == "module"
    assert cause.message == (
        "a package or folder of this name is found, but does not have the module: a.b"
    )
    assert (cause.remedy or "").startswith("install the version of the package")


@pytest.mark.parametrize(
    ("exit_code", "signal", "codes"),
    [
        (137, None, ["killed"]),
        (1, "SIGKILL", ["killed"]),
        (139, None, ["crash"]),
        (1, "SIGSEGV", ["crash"]),
        (1, "SIGABRT", ["abort"]),
        (1, "SIGILL", ["processor"]),
        (1, "SIGFPE", ["crash"]),
        (1, "SIGBUS", ["shared-memory"]),
        (2, None, ["arguments"]),
        (1, None, []),
        (255, None, ["exit"]),
        (1, "SIGTERM", ["signal"]),
        (143, None, ["signal"]),
        (1, "SIGHUP", ["signal"]),
        (130, None, ["signal"]),
        (1, "SIGALRM", ["signal"]),
        (152, None, ["signal"]),
        (1, "SIGUSR1", ["signal"]),
        (1, "SIGTRAP", []),
    ],
)
def test_without_a_message_the_way_it_ended_tells(
    exit_code: int, signal: str | None, codes: list[str]
) -> None:
    assert [cause.code for cause in known_causes([], exit_code, signal)] == codes


def test_a_module_whose_import_leaves_its_package_is_not_called_a_script() -> None:
    """A script of `run.module` with `from ..other import y` is a module already."""
    [script] = known_causes(
        ["ImportError: attempted relative import with no known parent package"], 1, None
    )
    assert "started as a script" in script.message
    [module] = known_causes(
        ["ImportError: attempted relative import beyond top-level package"], 1, None
    )
    assert module.code == script.code == "relative-import"
    assert module.message == "a relative import has more dots than its file has packages around it"
    assert "from a higher folder" in (module.remedy or "")


def test_a_closed_file_is_not_looked_for_on_a_disk() -> None:
    [cause] = known_causes(["OSError: [Errno 9] Bad file descriptor"], 1, None)
    assert cause.message == (
        "a file, pipe or socket was used after it had been closed: Bad file descriptor"
    )
    assert "free space" not in (cause.remedy or "")


def test_exit_code_255_is_a_cause_only_if_the_log_has_none() -> None:
    [cause] = known_causes(["step 1", "done"], 255, None)
    assert "sys.exit(-1), and its log does not say why" in cause.message
    assert "print the reason where the program exits" in (cause.remedy or "")
    for line in ("Error: cannot open the split", "ValueError: x", "bash: x: command not found"):
        assert [each.code for each in known_causes([line], 255, None)] != ["exit"]


@pytest.mark.parametrize(("sent", "remedy"), [("SIGALRM", "signal.alarm"), ("SIGXCPU", "ulimit")])
def test_a_signal_of_the_kernel_is_not_one_from_a_user(sent: str, remedy: str) -> None:
    """A script's own timer, and a limit, need no sender."""
    [cause] = known_causes(["step 1"], 1, sent)
    assert sent in cause.message
    assert "sender" not in cause.message
    assert remedy in (cause.remedy or "")


@pytest.mark.parametrize(
    "line",
    [
        "Received SIGUSR1, a checkpoint is written",
        "Finished with 152 batches",
        "solver: CPU time limit exceeded, the best bound is 7",
        "upload: File size limit exceeded: a.zip",
        "EXIT CODE: 12",
    ],
)
def test_a_number_or_the_name_of_a_signal_that_the_program_survived_is_not_its_end(
    line: str,
) -> None:
    [cause] = known_causes(["step 1", line, "ERROR: the score is below 0.5"], 1, None)
    assert cause.message.endswith("ERROR: the score is below 0.5")


def test_a_sentence_after_an_exit_code_leaves_it_one() -> None:
    for line in ("worker exited with code 139 on node 7", "train.sh failed with 139 after 3 s"):
        [cause] = known_causes(["step 1", line], 1, None)
        assert cause.code == "crash"


@pytest.mark.parametrize("line", ["Error: 138 of 2000 files are missing", "Error: 137 rows left"])
def test_a_count_in_an_error_is_not_an_exit_code(line: str) -> None:
    [cause] = known_causes(["step 1", line], 1, None)
    assert cause.message == f"the log reports an error near its end: {line}"


def test_a_signal_from_outside_has_a_remedy_unless_the_log_says_more() -> None:
    [cause] = known_causes(["step 1"], 143, "SIGTERM")
    assert cause.message == "it was ended by SIGTERM and did not fail itself; the sender is unknown"
    assert "a user, a script, a time limit or a preemption" in (cause.remedy or "")
    [cause] = known_causes(["ModuleNotFoundError: No module named 'a'"], 143, "SIGTERM")
    assert cause.code == "module"


@pytest.mark.parametrize(
    ("out_of_memory", "code", "message"),
    [
        (None, "killed", "it was killed by SIGKILL; the sender is unknown"),
        (
            False,
            "killed",
            "it was killed by SIGKILL; the sender is unknown, but the kernel killed no process "
            "there to free memory",
        ),
        (
            True,
            "memory",
            "out of memory: it was killed by SIGKILL, and the kernel killed processes there "
            "because memory was exhausted",
        ),
    ],
)
def test_a_kill_is_explained_as_far_as_it_is_known(
    out_of_memory: bool | None, code: str, message: str
) -> None:
    [cause] = known_causes([], 137, "SIGKILL", Killer(out_of_memory))
    assert (cause.code, cause.message) == (code, message)


@pytest.mark.parametrize(
    ("lines", "exit_code", "remedy"),
    [
        ([], 137, "most often memory was exhausted"),
        (
            [
                "torch._dynamo.exc.BackendCompilerFailed: backend='compile_fn' raised:",
                "NotImplementedError: DDPOptimizer backend: Found a higher order op in the graph. "
                "This is not supported. Please turn off DDP optimizer using "
                "torch._dynamo.config.optimize_ddp=False.",
            ],
            1,
            "follow the advice in its message: Please turn off DDP optimizer",
        ),
        (
            [
                "2020-07-17 08:45:46,383 sagemaker-training-toolkit ERROR    "
                "ExecuteUserScriptError:",
                'Command "/usr/local/bin/python3.7 train.py --batch_size 500 --epochs 30"',
            ],
            1,
            "if the script wrote no error, it was probably killed",
        ),
        (
            ["RuntimeError: Trying to backward through the graph a second time (or directly"],
            1,
            "detach() what a step keeps",
        ),
        (
            ["ValueError: Unable to create tensor, you should activate truncation and/or padding"],
            1,
            "tokenize with truncation=True",
        ),
        (
            ["torch._inductor.exc.InvalidCxxCompiler: No working C++ compiler found in torch."],
            1,
            "image.apt: [g++]",
        ),
    ],
)
def test_the_remedy_where_the_text_names_no_reason(
    lines: list[str], exit_code: int, remedy: str
) -> None:
    [cause] = known_causes(lines, exit_code, None)
    assert remedy in (cause.remedy or "")


def test_a_script_without_a_first_line_has_no_wrong_architecture_alone() -> None:
    """The kernel has one error for both: opencontainers/runc, issue 1773."""
    [cause] = known_causes(["exec /app/start.sh: exec format error"], 1, None)
    assert "is a script without a first line" in cause.message
    assert "`bash SCRIPT`" in str(cause.remedy)


def test_a_script_that_fails_since_the_kernel_ended_a_process_of_it() -> None:
    [cause] = known_causes(["it said nothing"], 1, None, Killer(out_of_memory=True))
    assert (cause.code, cause.message) == (
        "memory",
        "out of memory: the kernel killed processes there because memory was exhausted",
    )


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (["ConnectionResetError: [Errno 104] Connection reset by peer"], ["pipe"]),
        (["RuntimeError: [1] Connection reset by peer"], ["peer"]),
        (
            [
                "ConnectionResetError: [Errno 104] Connection reset by peer",
                "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
            ],
            ["data-worker"],
        ),
    ],
)
def test_a_pipe_that_ended_is_not_a_peer_of_a_collective(
    lines: list[str], codes: list[str]
) -> None:
    assert [cause.code for cause in known_causes(lines, 1, None)] == codes


def test_a_bus_error_shows_a_full_shared_memory_only_where_a_data_loader_says_so() -> None:
    [of_loader] = known_causes(
        ["DataLoader worker (pid 7) is killed by signal: Bus error. "], 1, None
    )
    [of_slurm] = known_causes(["srun: error: n1: task 3: Bus error"], 1, None)
    assert of_loader.message == "the shared memory of the container is full"
    assert of_slurm.message.startswith("a process could not reach its memory (SIGBUS), as when")


@pytest.mark.parametrize(
    ("ranks", "joined", "is_more"),
    [(2, 4, True), (2, 16, True), (16, 32, True), (2048, 1792, False), (16, 9, False)],
)
def test_more_processes_than_ranks_are_not_taken_for_missing_ones(
    ranks: int, joined: int, is_more: bool
) -> None:
    text = "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, "
    text += f"for key: store_based_barrier_key:1 (world_size={ranks}, worker_count={joined}, "
    [cause] = known_causes([text + "timeout=0:30:00)"], 1, None)
    assert cause.message.startswith("more processes" if is_more else "not all ranks")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("mujoco.FatalError: Unable to initialize EGL", "display"),
        ("qt.qpa.plugin: Could not load the Qt platform plugin xcb in", "display"),
        ("libEGL warning: DRI2: failed to create dri screen", None),
    ],
)
def test_a_program_without_a_display(text: str, code: str | None) -> None:
    assert [cause.code for cause in known_causes([text], 1, None)] == ([code] if code else [])


def test_a_report_that_is_longer_than_the_end_of_the_log() -> None:
    lines = [
        "An MPI communication peer process has unexpectedly disconnected.  This",
        *["text"] * 12,
    ]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["peer"]


def test_the_command_that_ended_it_comes_first() -> None:
    killer = Killer(command="docker stop")
    first, second = known_causes(["Connection reset by peer"], 143, None, killer)
    assert (first.code, first.message, second.code) == (
        "killed",
        "its container was ended through docker (docker stop); it did not fail itself",
        "peer",
    )


def test_lines_that_are_made_to_be_slow() -> None:
    lines = [text * 13_000 for text in ("DataLoader worker (", "ended the run ")] * 2
    assert known_causes(lines, 1, None) == []


def test_a_message_tells_more_than_the_signal_and_the_first_cause_most() -> None:
    lines = ["Connection reset by peer", "CUDA out of memory"]
    assert [c.code for c in known_causes(lines, 137, "SIGKILL")] == ["gpu-memory", "peer"]


def test_nccl_names_what_its_own_error_is_an_effect_of() -> None:
    lines = [
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, invalid usage",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        "Duplicate GPU detected : rank 3 and rank 0 both on CUDA device f000",
    ]
    assert [c.code for c in known_causes(lines, 1, None)] == ["processes", "nccl"]


@pytest.mark.parametrize("one", real("log_lines"), ids=lambda one: one["text"][:50])
def test_real_lines_have_a_cause(one: dict[str, Any]) -> None:
    lines = one["text"].splitlines()
    cause, *others = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code, *(other.code for other in others)] == [one["code"], *one.get("also", [])]
    assert cause.remedy
    if "named" in one:
        assert cause.message.endswith(f": {one['named']}")


@pytest.mark.parametrize(
    ("out_of_memory", "codes"),
    [(True, ["memory", "data-worker"]), (False, ["data-worker"]), (None, ["data-worker"])],
)
def test_a_killed_data_worker_is_the_kernels_only_if_it_counted_one(
    out_of_memory: bool | None, codes: list[str]
) -> None:
    lines = ["RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed. "]
    causes = known_causes(lines, 1, None, Killer(out_of_memory=out_of_memory))
    assert [cause.code for cause in causes] == codes


def test_a_script_that_refuses_its_arguments_with_its_exit_code_alone() -> None:
    (cause,) = known_causes(["some text"], 2, None)
    assert cause.code == "arguments"


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        ("__path__ attribute not found on 'train' while trying to find 'train.py'", "train.py"),
        ("No module named 'train'", "train.py"),
        ("No module named 'scripts/train'", "scripts/train.py"),
    ],
)
def test_a_file_in_place_of_a_module(reason: str, named: str) -> None:
    """The message is Python's own, on any target."""
    line = f"/usr/bin/python: Error while finding module specification for '{named}' "
    causes = known_causes([f"{line}(ModuleNotFoundError: {reason})."], 1, None)
    assert [(each.code, each.message) for each in causes] == [
        ("module-name", f"Python was started with -m and a file instead of a module: {named}")
    ]


def test_a_module_of_a_package_that_is_missing() -> None:
    line = "python3: Error while finding module specification for 'pkg.train' "
    line += "(ModuleNotFoundError: No module named 'pkg')"
    assert [each.code for each in known_causes([line], 1, None)] == ["module"]


def test_a_plugin_that_failed_is_not_said_to_be_missing() -> None:
    lines = [
        "algo-1:7:7 [1] nccl_net_ofi_create_plugin:259 NCCL WARN NET/OFI aws-ofi-nccl "
        "initialization failed",
        "algo-1:7:7 [1] NCCL INFO NET/Socket : Using [0]eth0:10.0.227.37<0>",
    ]
    assert [cause.code for cause in known_causes(lines, 1, None)] == ["ofi"]


@pytest.mark.parametrize("one", real("harmless_lines"), ids=lambda one: one["text"][:50])
def test_warnings_of_trainings_that_succeed_are_no_cause(one: dict[str, str]) -> None:
    lines = one["text"].splitlines()
    assert known_causes(failure_lines(lines), 1, None, earlier=lines) == []


def test_the_warnings_of_nccl_before_a_traceback_say_why_it_failed() -> None:
    lines = [
        "algo-1:7:7 [1] misc/socket.cc:52 NCCL WARN Connect to 10.0.0.7<4711> failed : No route",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, unhandled system "
        "error, NCCL version 2.27.3",
    ]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["nccl-network", "nccl"]


@pytest.mark.parametrize(
    "source",
    [
        'report("CUDA out of memory", batch["rollout"])',
        "check(batch['rollout'])  # No space left on device",
    ],
)
def test_the_source_code_in_a_traceback_names_no_cause(source: str) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in <module>',
        f"    {source}",
        "KeyError: 'rollout'",
    ]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["key-missing"]


@pytest.mark.parametrize(
    ("source", "code"),
    [("check(x)", "hub-missing"), ('raise TypeError("not a string")', "exception")],
)
def test_an_exception_of_the_script_is_not_a_librarys(source: str, code: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "/app/train.py", line 9, in <module>']
    lines += [f"    {source}", "TypeError: not a string"]
    assert [cause.code for cause in known_causes(lines, 1, None)] == [code]


def test_a_product_of_a_vector_is_not_one_of_a_sharded_parameter() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in <module>',
        "    y = torch.mm(x, w)",
        "RuntimeError: mat2 must be a matrix, got 1-D tensor",
    ]
    (cause,) = known_causes(failure_lines(lines), 1, None)
    assert cause.code == "tensor-shape"


def test_a_sample_that_the_program_skips_is_not_the_cause() -> None:
    lines = ["Skipping a.jpg: cannot identify image file 'a.jpg'", "step 9", "ValueError: lr"]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["setting"]


def test_a_computation_that_xla_refuses_is_not_the_loss_of_a_process() -> None:
    """https://github.com/AI-Hypercomputer/maxtext/issues/264."""
    line = (
        "jaxlib.xla_extension.XlaRuntimeError: INVALID_ARGUMENT: Failed to compile a Mosaic "
        "module: 'tpu.matmul' op Unsupported input data type in matrix multiplication."
    )
    (cause,) = known_causes([line], 1, None)
    assert cause.code == "xla"
    assert cause.message.startswith("XLA, or a kernel that it calls, refuses a computation: INVAL")


def test_an_error_before_a_clear_exception_is_not_its_cause() -> None:
    lines = [
        "HTTP Error 429: Too Many Requests",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in <module>',
        "    load()",
        "RuntimeError: no data",
    ]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["empty-data"]


@pytest.mark.parametrize(
    ("lines", "exit_code", "codes"),
    [
        (
            ["requests: Max retries exceeded with url", "CERTIFICATE_VERIFY_FAILED"],
            1,
            ["certificate"],
        ),
        (["bash: nvidia-smi: command not found", "CUDA out of memory"], 1, ["gpu-memory"]),
        (["bash: train: command not found"], 127, ["command"]),
        (["bash: train: command not found"], 1, ["command"]),
        (
            [
                "Connection reset by peer",
                "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT "
                "2026-01-31T12:00:00 DUE TO TIME LIMIT ***",
            ],
            1,
            ["slurm-step"],
        ),
        (
            ["Could not find conda environment: train", "ModuleNotFoundError: No module named 'a'"],
            1,
            ["environment", "module"],
        ),
        (
            [
                "torch.AcceleratorError: CUDA error: unknown error",
                "Unable to determine the device handle for GPU1: Unknown Error",
            ],
            1,
            ["gpu-hardware"],
        ),
        (["step 1", "error: the shard is empty"], 2, ["error"]),
    ],
)
def test_of_several_causes_the_one_that_explains_the_others(
    lines: list[str], exit_code: int, codes: list[str]
) -> None:
    assert [cause.code for cause in known_causes(lines, exit_code, None, earlier=lines)] == codes


MARKS = ["", "[rank1]: ", "3: ", "[1,3]<stderr>:", "[1,mpirank:3,algo-2]<stderr>:", "[default3]:"]
RECORDS = ["2025-05-16T16:39:51.208-07:00 ", "2025-05-16T16:39:51Z "]
RECORDS += ["algo-1-57SXP_1  | ", "x4z-algo-1-0c5g8 | "]
LOGGED = ["2025-01-31 12:00:01,123 - ERROR - ", "ERROR:root:", "[1,3]<stderr>:ERROR train.py:7 - "]


@pytest.mark.parametrize("mark", MARKS)
def test_a_cause_of_several_lines_below_the_marks_of_a_launcher(mark: str) -> None:
    lines = [
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f (most recent call first):",
        '  File "/app/train.py", line 7 in step',
    ]
    (cause,) = known_causes([f"{mark}{line}" for line in lines], 139, "SIGSEGV")
    assert cause.message.endswith(': "/app/train.py", line 7 in step')
    assert "PYTHONFAULTHANDLER" not in (cause.remedy or "")


@pytest.mark.parametrize("mark", [*MARKS, *RECORDS, *LOGGED])
def test_an_exception_without_its_traceback_behind_a_mark(mark: str) -> None:
    lines = ["step 3", f"{mark}UnboundLocalError: local variable 'a' referenced before"]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["name-undefined"]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (
            "OSError: /env/site-packages/bitsandbytes/libbitsandbytes_cpu.so: cannot open shared "
            "object file: No such file or directory",
            ["cuda-library"],
        ),
        (
            'RuntimeError: nrt_load_collectives status=4 message="Allocation Failure"',
            ["neuron-memory"],
        ),
        (
            "size mismatch for a.bias: copying a param with shape torch.Size([320]) from "
            "checkpoint, the shape in current model is torch.Size([0]).",
            ["sharded-tensor"],
        ),
        (
            "Error: Service account `a@b.c` does not have `[storage.objects.get, "
            'storage.objects.create]` IAM permission(s) to the bucket "d".',
            ["storage-denied"],
        ),
        (
            "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
            '"https://data.s3.none.amazonaws.com/a.json"',
            ["cloud-call"],
        ),
        (
            "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
            '"https://data.s3.us-east-1.amazonaws.com/a.json"',
            ["network"],
        ),
    ],
)
def test_a_cause_and_not_what_follows_from_it(text: str, codes: list[str]) -> None:
    causes = known_causes(failure_lines([text]), 1, None, earlier=[text])
    assert [cause.code for cause in causes] == codes


@pytest.mark.parametrize(
    ("before", "last", "codes"),
    [
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            "RuntimeError: DataLoader worker (pid(s) 372) exited unexpectedly",
            ["shared-memory", "data-worker"],
        ),
        (
            "2020-07-17 20:50:48.353275: E tensorflow/cuda_dnn.cc:319] Loaded runtime CuDNN "
            "library: 7.5.1 but source was compiled with: 7.6.0.",
            "tensorflow.UnknownError: This is probably because cuDNN failed to initialize",
            ["gpu-libraries"],
        ),
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ",
            ["data-worker"],
        ),
    ],
)
def test_the_reason_stands_before_an_exception_that_refers_to_it(
    before: str, last: str, codes: list[str]
) -> None:
    lines = [
        before,
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        last,
    ]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == codes


def test_a_name_that_is_none_comes_from_an_option_that_is_not_set() -> None:
    (cause,) = known_causes(["OSError: Can't load config for 'None'. Make sure that:"], 1, None)
    assert cause.code == "hub-missing"
    assert (cause.remedy or "").startswith("set the option that it comes from, such as in run.args")


@pytest.mark.parametrize(
    ("line", "code", "named"),
    [
        ("KeyError: 'SM_CHANNEL_TRAINING'", "input-missing", "TRAINING"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/labels/'",
            "input-missing",
            "labels",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: "
            "'/opt/ml/input/data/train/a.csv'",
            "file-missing",
            "/opt/ml/input/data/train/a.csv",
        ),
        ("KeyError: 'SM_HP_LR'", "variable-unset", "SM_HP_LR"),
    ],
)
def test_an_input_that_the_job_does_not_have(line: str, code: str, named: str) -> None:
    (cause,) = known_causes([line], 1, None)
    assert (cause.code, cause.message.rpartition(": ")[2]) == (code, named)


def test_a_gpu_whose_memory_is_full_while_the_whole_model_is_gathered_to_save_it() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 109, in save',
        "    state = model.state_dict()",
        '  File "/opt/torch/distributed/fsdp/_state_dict_utils.py", line 303, in '
        "_full_pre_state_dict_hook",
        "    _common_unshard_pre_state_dict_hook(",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 26.30 GiB.",
    ]
    (cause,) = known_causes(lines, 1, None)
    assert cause.code == "gpu-memory"
    assert "sharded" in (cause.remedy or "")


def test_a_log_of_long_lines_does_not_take_long_and_has_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the limit it takes 5 seconds of processor time."""
    monkeypatch.setattr("rsctl.runs.stream.diagnosis._MOST_TEXT", 20_000)
    long = ["ERROR x.y - AError: " * 200] * 100
    assert [each.code for each in known_causes([*long, "MemoryError"], 1, None)] == ["memory"]
    begin = process_time()
    assert [each.code for each in known_causes(["MemoryError", *long], 1, None)] == ["memory"]
    assert [each.code for each in known_causes(long, 1, None)] == ["error"]
    assert process_time() - begin < 3


@pytest.mark.parametrize(
    "end",
    [
        ["the totals differ"],
        ["ERROR: the totals differ"],
        [
            "Traceback (most recent call last):",
            '  File "/app/train.py", line 7, in finish',
            "    assert total == expected",
            "AssertionError",
        ],
    ],
)
def test_an_error_long_before_an_end_of_its_own_is_only_a_possible_reason(end: list[str]) -> None:
    lines = ["RuntimeError: CUDA out of memory.", *["INFO evaluating"] * 20, *end]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert cause.message == (
        "an earlier error of its log may be the reason: the GPU ran out of memory"
    )


OF_A_WARNING = "CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    "line",
    [
        f"warning: {OF_A_WARNING}",
        f"[2026-11-30 12:00:00,1][train][WARNING] - {OF_A_WARNING}",  # hydra
        f"2026-11-30 12:00:00.123 | WARNING  | train:main:12 - {OF_A_WARNING}",  # loguru
        f"2026-11-30 12:00:00,123 - train-7.sub - WARNING - {OF_A_WARNING}",
        f"Retrying after error: {OF_A_WARNING}",
        f"Ignoring {OF_A_WARNING}",
        f"Skipping sample 3 because of RuntimeError: {OF_A_WARNING}",
        f"Failed to load sample 17, skipped: {OF_A_WARNING}",
        f"train.py: error: {OF_A_WARNING} (ignored)",
        "errors: AccessDenied=0 NoSuchKey=2 SlowDown=0",
        "s3://b/x: NoSuchKey, a new file begins",
        "retries on ExpiredToken and InvalidAccessKeyId are on",
    ],
)
def test_an_error_that_the_program_survived_is_no_cause(line: str) -> None:
    lines = [line, "INFO the metric is below its limit, so we stop"]
    assert known_causes(failure_lines(lines), 1, None, earlier=lines) == []


def test_an_environment_without_modules_is_not_the_cause_of_a_clear_exception() -> None:
    lines = ["bash: /usr/share/lmod/lmod/libexec/lmod: No such file or directory"]
    lines += ["Traceback (most recent call last):", '  File "/app/train.py", line 7, in main']
    lines += ["KeyError: 'loss'"]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert cause.code == "key-missing"


def test_a_variable_that_a_frozen_module_of_python_does_not_find() -> None:
    """As Python 3.14 prints it."""
    lines = ["Traceback (most recent call last):", '  File "/app/train.py", line 2, in <module>']
    lines += ['    rank = os.environ["RANK"]', '  File "<frozen os>", line 679, in __getitem__']
    [cause] = known_causes([*lines, "KeyError: 'RANK'"], 1, None)
    assert (cause.code, cause.message[-4:]) == ("variable-unset", "RANK")
