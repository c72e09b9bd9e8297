"""Why a job failed, from logs as PyTorch, NCCL, torchrun and docker write them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from rsctl.runs.stream.diagnosis import Killer, failure_lines, known_causes
from tests.fixtures import real

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


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
            "total capacity of 79.15 GiB of which 1.2 GiB is free.",
            "gpu-memory",
        ),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "`cublasCreate(handle)`",
            "gpu-memory",
        ),
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            "shared-memory",
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
        ("RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed. ", "data-worker"),
        (
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=23, "
            "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 milliseconds",
            "timeout",
        ),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] "
            "Timed out waiting 1800000ms for recv operation to complete",
            "timeout",
        ),
        (
            "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. "
            "2/4 clients joined.",
            "rendezvous",
        ),
        (
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed "
            "or device error.",
            "nccl",
        ),
        (
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
            "NVIDIA GPU",
            "no-gpu",
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
        ("OSError: [Errno 28] No space left on device: '/rsctl/outputs/x'", "disk"),
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
            "Error response from daemon: pull access denied for team/image, repository does not "
            "exist or may require 'docker login'",
            "image",
        ),
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
    [cause] = known_causes(["ModuleNotFoundError: No module named 'a.b'"], 1, None)
    assert cause.message == "a Python module is missing: a.b"


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
        (1, "SIGTERM", []),
    ],
)
def test_without_a_message_the_way_it_ended_tells(
    exit_code: int, signal: str | None, codes: list[str]
) -> None:
    assert [cause.code for cause in known_causes([], exit_code, signal)] == codes


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
    lines = [text * 13_000 for text in ("DataLoader worker (", "ended the run ")] * 15
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


def test_an_error_before_a_clear_exception_is_not_its_cause() -> None:
    lines = ["HTTP Error 429: Too Many Requests", *CHAINED[8:]]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["empty-data"]


def test_a_traceback_that_was_cut_off_gives_way_to_the_one_before() -> None:
    cut = ["Traceback (most recent call last):", '  File "/app/train.py", line 9, in <module>']
    assert failure_lines([*CHAINED[8:], *cut])[: len(CHAINED) - 8] == CHAINED[8:]


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
        (["step 1", "error: the shard is empty"], 2, ["error"]),
    ],
)
def test_of_several_causes_the_one_that_explains_the_others(
    lines: list[str], exit_code: int, codes: list[str]
) -> None:
    assert [cause.code for cause in known_causes(lines, exit_code, None, earlier=lines)] == codes


def test_the_first_warning_of_nccl_says_why_it_failed() -> None:
    lines = [
        "n1:7:7 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "n1:7:7 [0] init.cc:52 NCCL WARN Cuda failure 'out of order'",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.message == (
        "a call of CUDA, or of GDRCopy, failed inside NCCL: Cuda failure 'out of order'"
    )


@pytest.mark.parametrize(
    ("warning", "code"),
    [
        ("net_ib/p2p.cc:9 NCCL WARN NET/IB: Unknown completion", "nccl-ib"),
        ("net_ib/common.cc:9 NCCL WARN NET/IB : mlx5_0:1 async fatal event on QP", "nccl-ib"),
        (
            "os/linux.cc:9 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 8 bytes",
            "shared-memory",
        ),
        ("misc/argcheck.cc:9 NCCL WARN Broadcast : invalid root 9 (0..3)", "nccl-usage"),
        (
            "init.cc:9 NCCL WARN Attempt to use it before the previous operation returned",
            "nccl-usage",
        ),
        ("group.cc:9 NCCL WARN ncclGroupEnd: not in a group call.", "nccl-usage"),
        ("dev.cc:9 NCCL WARN This application was compiled with NCCL 2.29", "gpu-libraries"),
        ("nvls.cc:9 NCCL WARN Failed to bind NVLink SHARP Multicast memory", "gpu-state"),
        ("misc/nvmlwrap.cc:9 NCCL WARN nvmlInit() failed: Unknown", "nccl-topology"),
        ("init.cc:9 NCCL WARN Detected mixed local Net device counts", "nccl-topology"),
        ("include/alloc.h:9 NCCL WARN Failed to CUDA host alloc 8 bytes", "gpu-fault"),
        ("misc/utils.cc:9 NCCL WARN malloc(size=8) returned null.", "memory"),
        ("bootstrap.cc:9 NCCL WARN NET/Socket : No usable listening interface", "interface"),
        ("bootstrap.cc:9 NCCL WARN Message truncated : received 8 instead of 4", "nccl-network"),
        ("proxy.cc:9 NCCL WARN [Proxy Service] Poll failed: x", "nccl-network"),
        ("init:9 NCCL WARN NET/OFI Provider does not support 4 bytes of data", "ofi"),
        ("init.cc:9 NCCL WARN P2p schedule creation has bugs.", "nccl"),
    ],
)
def test_a_warning_of_nccl_says_which_part_of_it_failed(warning: str, code: str) -> None:
    lines = [
        f"n1:7:7 [0] {warning}",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:7, unhandled system error",
    ]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert cause.code == code
    assert cause.message.endswith(warning.partition("WARN ")[2])


@pytest.mark.parametrize(
    "warning",
    [
        "transport/shm.cc:9 NCCL WARN Ignoring SHM locality, must be 1 or 2",
        "net_ib.cc:9 NCCL WARN NET/IB : mlx5_0:1 Got async event : port active",
        "net_ib/common.cc:9 NCCL WARN NET/IB : mlx5_0:1 GID table changed",
        "net_socket.cc:9 NCCL WARN NET/Socket : NCCL_SOCKET_NTHREADS is too large, setting to 3",
        "transport.cc:9 NCCL WARN Cannot initialize CollNet, using point-to-point instead",
        "param:9 NCCL WARN NET/OFI WARNING: Use of OFI_NCCL_X is deprecated.",
    ],
)
def test_a_warning_of_nccl_that_a_training_outlives_is_no_cause(warning: str) -> None:
    lines = [f"n1:7:7 [0] {warning}", "step 1"]
    assert known_causes(failure_lines(lines), 1, None, earlier=lines) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("RuntimeError: CUDA error: operation not permitted when stream is capturing", "gpu-graph"),
        ("RuntimeError: CUDA error: invalid resource handle", "gpu-arguments"),
        ("RuntimeError: CUDA error: CUDA driver is a stub library", "driver"),
        ("RuntimeError: CUDA error: invalid program counter", "gpu-access"),
        ("RuntimeError: CUDA error: peer mapping resources exhausted", "gpu-memory"),
        ("RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED", "gpu-memory"),
        ("RuntimeError: cuFFT error: CUFFT_INVALID_SIZE", "gpu-arguments"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM", "gpu-arguments"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ARCH_MISMATCH", "gpu-binary"),
        ("NVRM: Xid (PCI:0000:4e:00): 136, Link training failed", "gpu-hardware"),
        ("NVRM: Xid (PCI:0000:4e:00): 13, Graphics SM Exception", "gpu-fault"),
        ("botocore.exceptions.PartialCredentialsError: Partial credentials", "credentials-invalid"),
        ("botocore.exceptions.ProxyConnectionError: Failed to connect to proxy URL: x", "network"),
        ("botocore.exceptions.ParamValidationError: Parameter validation failed", "cloud-call"),
        ("An error occurred (KMS.DisabledException) when calling the GetObject", "storage-key"),
        ("An error occurred (PermanentRedirect) when calling the GetObject op", "bucket-region"),
        ("An error occurred (LimitExceededException) when calling the Create", "quota"),
        (
            "google.api_core.exceptions.Unauthorized: 401 GET https://x: thing",
            "credentials-invalid",
        ),
        ("srun: error: --json must be alone, invalid", "slurm-request"),
        ("srun: error: io error on node 3", "slurm-launch"),
        ("srun: error: x: jwt_decode failure: expired", "slurm-credential"),
        ("slurmstepd: error: execve(): /x: Permission denied", "slurm-launch"),
        ("slurmstepd: error: unable to create step 7.0 procs cgroup", "slurm-node"),
        ("slurmstepd: error: mpi/pmi2: failed to create tree socket", "mpi-pmi"),
        ("sbatch: error: Batch job submission failed: Message send failure", "slurm-launch"),
        ("srun: error: Unable to allocate resources: Requested nodes are busy", "slurm-later"),
        ("sbatch: error: Batch job submission failed: Invalid --nice value", "slurm-request"),
        ("OCI runtime create failed: x: error enabling no_new_privs bit", "container-security"),
        ("OCI runtime create failed: x: rootless needs a GID mapping: unknown", "user-namespaces"),
        ("OCI runtime create failed: x: pivot_root .: invalid argument", "container-mount"),
        ("OCI runtime create failed: x: setting Intel RDT config: y", "container-option"),
        ("OCI runtime create failed: x: read init-p: EOF: unknown", "container-start"),
        ("OCI runtime create failed: x: error during container init: other: unknown", "start"),
        ("E: Unable to locate package libfoo", "package-system"),
        ("error: Failed to fetch: `https://x/simple/foo/`", "network"),
        ("RuntimeError: [gloo/rendezvous/context.cc:9] pair missing (index 8)", "distributed"),
        ("RuntimeError: [gloo/nccl/nccl.cc:9] source must be on one device", "distributed-call"),
    ],
)
def test_a_kind_of_report_has_its_own_cause_and_remedy(text: str, code: str) -> None:
    [cause] = known_causes([text], 1, None)
    assert cause.code == code
    assert cause.remedy


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("NET/IB : Got completion from peer 10.0.0.1<5> with error 4, vendor err 81", "nccl-ib"),
        ("Last error:\nncclSocketInit: connecting to address  with family 5 is neither AF_INET(2)",
         "interface"),
        ("socket.h:344 WARN Socket creation failed : Address family not supported", "interface"),
        ("NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- (size 8), "
         "error: No such file or directory (2)", "shared-memory"),
        ("ConnectionError: Tried to launch distributed communication on port `29401`, but another "
         "process is utilizing it.", "port"),
        ("pytorch_lightning.exceptions.MisconfigurationException: ModelCheckpoint(monitor='a') not "
         "found in the returned metrics", "lightning"),
        ("[ClientError('Object s3://b/k not found! Either check the bucket path or the bucket "
         "permission. If the bucket is a requester pays bucket, set it')]", "storage-missing"),
        ("[1,mpirank:7,algo-1]<stderr>:KeyError: 'a'", "key-missing"),
        ("ValueError: ('s3://b/k.tar: no gopen handler defined', 's3://b/k.tar')", "data-pipe"),
        ("ImportError: Using `device_map` requires Accelerate: `pip install accelerate`", "module"),
        ("error: argument --model-type: invalid choice: transformer-O2", "arguments"),
        ("Could not override 'task'.\nDid you mean to override task@_global_?", "arguments"),
        ("ValueError raised while resolving interpolation: HydraConfig was not set",
         "configuration"),
        ("Failed compilation with ['neuronx-cc', 'compile']: \nRuntimeError: module compiled "
         "against API version 0xf but this version of numpy is 0xe", "numpy"),
        ("torch._dynamo.exc.BackendCompilerFailed: debug_wrapper raised Exception: x", "compile"),
    ],
)  # fmt: skip
def test_texts_whose_kind_another_text_hid(text: str, code: str) -> None:
    lines = text.splitlines()
    assert known_causes(failure_lines(lines), 1, None, earlier=lines)[0].code == code


def test_training_from_the_start_is_no_missing_checkpoint() -> None:
    lines = [
        "WARNING: could not find the metadata file /ck/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
        "done",
    ]
    assert known_causes(failure_lines(lines), 1, "SIGTERM", earlier=lines) == []
