"""Kinds of failures, where many texts have one cause: NCCL's warnings, reports, exceptions."""

from __future__ import annotations

import pytest

from rsctl.runs.stream.diagnosis import known_causes
from rsctl.runs.stream.failure_lines import failure_lines


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
        # https://github.com/ROCm/rccl-tests/issues/120
        ("src/p2p.cc:9 NCCL WARN hipIpcGetMemHandle failed : invalid argument", "gpu-fault"),
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
    ("text", "message"),
    [
        # https://github.com/onpix/LCDPNet/issues/17
        (
            "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:46, "
            "unhandled cuda error, NCCL version 2.10.3\n"
            "ncclUnhandledCudaError: Call to CUDA function failed.",
            "a call of CUDA failed inside NCCL",
        ),
        (
            "RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:825, unhandled "
            "system error, NCCL version 2.7.8",
            "a call of the operating system failed inside NCCL",
        ),
        (
            "NCCL error in: ProcessGroupNCCL.cpp:1269, internal error, NCCL version 2.14.3",
            "NCCL failed",
        ),
    ],
)
def test_a_failure_of_nccl_without_its_warnings_has_the_remedy_of_its_kind(
    text: str, message: str
) -> None:
    [cause] = known_causes(text.splitlines(), 1, None)
    assert (cause.code, cause.message) == ("nccl", message)
    assert "NCCL_DEBUG=INFO" in (cause.remedy or "")


def test_a_fatal_error_of_a_script_is_not_one_of_the_container_engine() -> None:
    [cause] = known_causes(["FATAL: training failed, see the log of the trainer"], 1, None)
    assert cause.code == "error"
    [cause] = known_causes(["FATAL:   container creation failed: mount error"], 1, None)
    assert cause.code == "container-start"


@pytest.mark.parametrize("line", ["bash: srun: command not found", "train.sh: 1: srun: not found"])
def test_a_script_for_slurm_is_told_to_start_without_it(line: str) -> None:
    [cause] = known_causes([line], 127, None)
    assert cause.message.endswith(": srun")
    assert "run.launcher: torchrun" in (cause.remedy or "")


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


@pytest.mark.parametrize(
    ("file", "last", "code"),
    [
        ("torch/distributed/fsdp/_optim_utils.py", "KeyError: 'state'", "checkpoint-mismatch"),
        ("huggingface_hub/file_download.py", "    max_retries=max_retries,", "hub-access"),
        ("lightning/pytorch/trainer.py", "    self._run(model)", "exception"),
    ],
)
def test_the_file_that_raised_decides_where_the_text_says_little(
    file: str, last: str, code: str
) -> None:
    lines = [
        "Traceback (most recent call last):",
        f'  File "/opt/lib/python3.11/site-packages/{file}", line 9, in call',
        last,
    ]
    assert [cause.code for cause in known_causes(lines, 1, None, earlier=lines)] == [code]


@pytest.mark.parametrize(
    ("raised", "code", "advice"),
    [
        ("AttributeError: 'Namespace' object has no attribute 'lr'", "configuration", "run.args"),
        ("AttributeError: 'dict' object has no attribute 'to'", "wrong-type", "each of its"),
        ("AttributeError: 'Tensor' object has no attribute 'astype'", "wrong-type", ".numpy()"),
        ("AttributeError: 'Tensor' object has no attribute 'T'", "wrong-type", "version of torch"),
        ("IndexError: list index out of range", "empty-data", "fewer fields"),
        ("IndexError: pop from empty list", "empty-data", "filter"),
        ("TypeError: f() got multiple values for argument 'x'", "package-versions", "by name"),
        ("TypeError: f() missing 1 required positional argument: 'x'", "package-versions", "batch"),
        (
            "ValueError: The truth value of an array with more than one element is ambiguous.",
            "wrong-type",
            ".any()",
        ),
        ("RuntimeError: Boolean value of Tensor with more than one value", "wrong-type", ".item()"),
        ("RuntimeError: a Tensor with 4 elements cannot be converted to Scalar", "wrong-type", "."),
        ("TypeError: only size-1 arrays can be converted to Python scalars", "wrong-type", ".mean"),
        (
            "TypeError: unsupported operand type(s) for *: 'float' and 'str'",
            "wrong-type",
            "1e-5 in YAML",
        ),
        ("TypeError: list indices must be integers or slices, not str", "wrong-type", "JSON"),
        ("TypeError: 'method' object is not subscriptable", "wrong-type", "print its type"),
        ("TypeError: object of type 'int' has no len()", "wrong-type", "print its type"),
        ("TypeError: float() argument must be a string or a real number, not 'list'",
         "wrong-type", "print its type"),
        ("ValueError: math domain error", "nan-loss", "logarithm"),
        ("OverflowError: cannot convert float infinity to integer", "nan-loss", "diverged"),
        ("OverflowError: Python integer 300 out of bounds for uint8", "wrong-type", "int64"),
        ("RecursionError: maximum recursion depth exceeded", "recursion", "__getattr__"),
        ("EOFError: EOF when reading a line", "terminal", "WANDB_API_KEY"),
        ("jinja2.exceptions.UndefinedError: 'None' has no attribute 'strip'", "setting", "role"),
        ("IndexError: too many indices for tensor of dimension 1", "tensor-shape", "shapes"),
        ("RuntimeError: No executable batch size found, reached zero.", "gpu-memory", "LoRA"),
        ("OSError: Unable to load weights from pytorch checkpoint file for '/m/a' at '/m/a'.",
         "checkpoint", "download"),
        ("TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'", "none-value", ""),
        ("KeyError: -1", "key-missing", ".iloc"),
        ("KeyError: '7'", "key-missing", "labels"),
        ("KeyError: 'text'", "key-missing", "columns"),
        ("AssertionError: assert os.path.exists(path)", "file-missing", "inputs"),
        ("ValueError: dataset root /mnt/data not found", "file-missing", "inputs"),
        ("RuntimeError: environment variable DATA_DIR is required but not set", "variable-unset",
         "run.env"),
        ("OSError: environment variable DATA_DIR has not been set", "variable-unset", "run.env"),
        ("AssertionError: assert args.seq_length is not None", "setting", "run.args"),
        ('AssertionError: assert isinstance(config["a"], list)', "setting", "run.args"),
        ("AssertionError: assert targets is not None", "none-value", "caller"),
        ("AssertionError: assert isinstance(x, Tensor)", "wrong-type", "print its type"),
        ("AssertionError: assert a == b", "exception", "print the values"),
    ],
)  # fmt: skip
def test_a_mistake_that_python_names_has_a_remedy_for_its_kind(
    raised: str, code: str, advice: str
) -> None:
    lines = ["Traceback (most recent call last):", '  File "/app/train.py", line 8, in step']
    [cause] = known_causes([*lines, raised], 1, None)
    assert cause.code == code
    assert advice in (cause.remedy or "")


@pytest.mark.parametrize(
    "raised",
    [
        "KeyError: 0",
        "ValueError: Invalid label 10 for path /data/tungro/107860.jpg",
        "RuntimeError: odd sample",
    ],
)
def test_an_exception_below_a_data_loader_is_about_a_sample(raised: str) -> None:
    fetch = "/opt/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py"
    lines = [
        "Traceback (most recent call last):",
        f'  File "{fetch}", line 52, in fetch',
        "    data = [self.dataset[idx] for idx in possibly_batched_index]",
        '  File "/app/sets.py", line 22, in __getitem__',
        raised,
    ]
    [cause] = known_causes(lines, 1, None)
    assert cause.code == "data-sample"
    assert cause.message.endswith(f": {raised}, at /app/sets.py:22 in __getitem__")


@pytest.mark.parametrize(
    ("file", "raised", "advice"),
    [
        ("peft/utils/save_and_load.py", "ValueError: Unexpected keys in the adapter", "base model"),
        (
            "sklearn/metrics/_classification.py",
            "ValueError: Classification metrics can't handle a mix of multiclass and "
            "continuous-multioutput targets",
            "argmax",
        ),
        (
            "timm/data/mixup.py",
            "AssertionError: Batch size should be even when using this",
            "drop_last=True",
        ),
        ("datasets/load.py", "ValueError: BuilderConfig 'b' not found.", "data set's page"),
        ("pandas/core/frame.py", "ValueError: Invalid columns", "dtypes"),
        (
            "transformers/models/bert/modeling_bert.py",
            "ValueError: The length 520 exceeds the position embeddings",
            "config.json",
        ),
    ],
)
def test_the_package_that_refuses_an_input_decides_on_the_remedy(
    file: str, raised: str, advice: str
) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 8, in main',
        f'  File "/opt/lib/python3.11/site-packages/{file}", line 9, in call',
        raised,
    ]
    [cause] = known_causes(lines, 1, None)
    assert f": {raised}, at /app/train.py:8 in main" in cause.message
    assert advice in (cause.remedy or "")


def test_a_warning_of_a_metric_that_nothing_logs_is_no_cause() -> None:
    line = "UserWarning: ModelCheckpoint(monitor='val_loss') could not find the monitored key in "
    assert known_causes([f"{line}the returned metrics: ['epoch', 'step']"], 1, None) == []


@pytest.mark.parametrize("level", ["[W]", "W0110 12:27:06.332000 158 a.py:1]", "WARNING:root:"])
def test_what_a_program_logs_as_a_warning_is_no_cause(level: str) -> None:
    error = "libcudart.so.11.0: cannot open shared object file: No such file or directory"
    assert known_causes([error], 1, None) != []
    level = level.replace("[W]", "2021-12-07 10:42:09.952059: W tensorflow/dso_loader.cc:60]")
    assert known_causes([f"{level} {error}"], 1, None) == []


def test_a_start_without_a_checkpoint_is_no_cause() -> None:
    lines = [
        "WARNING: could not find the metadata file /ck/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
        "done",
    ]
    found = known_causes(failure_lines(lines), 1, "SIGTERM", earlier=lines)
    assert [cause.code for cause in found] == ["signal"]


def _remedy_of(*raised: str) -> str:
    """The remedy for a program that ended with this exception."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in <module>',
        "    main()",
        *raised,
    ]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    return cause.remedy or ""


@pytest.mark.parametrize(
    ("raised", "advice"),
    [
        (
            "ValueError: the queue is short. Please make sure that it holds at least 1 batch",
            "Please make sure that it holds at least 1 batch",
        ),
        ("RuntimeError: bad state; try foo(bar=True) instead.", "try foo(bar=True) instead."),
        ("ValueError: no. You need torch>=1.10, with cuda>=11.0", "You need torch>=1.10, with"),
        (f"ValueError: {'x ' * 200}. Set `a=True` in the call.", "Set `a=True` in the call."),
        ("RuntimeError: no. To fix this, pass --no-lock.", "To fix this, pass --no-lock."),
        ("RuntimeError: upload failed:Please open the port.", "Please open the port."),
        ("ValueError: a is not set, please set it to the path", "please set it to the path"),
        ("ValueError: foo() is gone, use bar() instead", "use bar() instead"),
        ("RuntimeError: no. If it is yours, you can delete it.", "If it is yours, you can delete"),
    ],
)
def test_the_advice_in_the_message_of_an_unknown_error_is_its_remedy(
    raised: str, advice: str
) -> None:
    assert _remedy_of(raised).startswith(f"follow the advice in its message: {advice}")


@pytest.mark.parametrize(
    "raised",
    [
        "RuntimeError: bad state. Please report this issue to the developers",
        "RuntimeError: bad state. Please see https://example.org/help",
        "RuntimeError: Call to step failed",
        "RuntimeError: bad. Set of options differs",
        "RuntimeError: bad: raise OSError(x)",
        "RuntimeError: failed: load model from a.pt",
        "RuntimeError: bad. For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "AttributeError: property 'config' of 'Run' object has no setter. Did you mean: '_c'?",
    ],
)
def test_a_message_that_advises_nothing_about_the_error_is_not_advice(raised: str) -> None:
    assert "advice" not in _remedy_of(raised)


@pytest.mark.parametrize(
    "raised",
    [
        "ValueError: could not convert string to float: ''",
        "ValueError: invalid literal for int() with base 10: 'cat,20,train'",
        "TypeError: '<=' not supported between instances of 'float' and 'str'",
    ],
)
def test_a_text_in_place_of_a_number_has_a_remedy(raised: str) -> None:
    assert "1.0e-5" in _remedy_of(raised)
    assert "headings" in _remedy_of(raised)


def test_the_advice_of_an_error_that_a_general_cause_repeats_is_its_remedy() -> None:
    raised = "lightning.MisconfigurationException: The schedule is odd. You should override f()"
    assert _remedy_of(raised).startswith("follow the advice in its message: You should override")


def test_the_advice_of_an_error_line_is_its_remedy() -> None:
    lines = ["step 1", "error: the shard is odd. Please pass --pad to the program."]
    [cause] = known_causes(lines, 1, None, earlier=lines)
    assert (cause.remedy or "").startswith(
        "follow the advice in its message: Please pass --pad to the program.; if that"
    )


def test_a_cause_of_earlier_lines_is_shown_once() -> None:
    lines = [
        "E tensorflow/cuda_dnn.cc:9] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",
        *(["step"] * 40),
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 9, in <module>',
        "tensorflow.errors_impl.UnimplementedError: Graph execution error:",
    ]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [cause.code for cause in causes] == ["gpu-start"]


def _import_of(raiser: str, second: str) -> str:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 2, in <module>',
        "    import options",
        f'  File "/app/options.py", line 3, in {second}',
        f'  File "{raiser}", line 9, in check',
        "ValueError: the table is odd",
    ]
    [cause] = known_causes(lines, 1, None)
    return cause.code


def test_a_package_that_fails_while_it_is_imported_has_another_version() -> None:
    assert _import_of("/usr/lib/python3.9/site-packages/a/b.py", "<module>") == "package-versions"


def test_a_check_of_the_script_at_an_import_is_its_own() -> None:
    assert _import_of("/app/options.py", "<module>") == "setting"


def test_a_call_of_a_package_is_no_import() -> None:
    assert _import_of("/usr/lib/python3.9/site-packages/a/b.py", "main") == "setting"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("AttributeError: LLAMA3. Did you mean: 'LLAMA2'?", "package-versions"),
        ("AttributeError: BF16_MIXED", "package-versions"),
        ("AttributeError: The thing is odd", "exception"),
        ("a.b.DataError: the field has ndim 2, expected ndim 1", "tensor-shape"),
        ("ValueError: unexpected shape (3, 4) of the mask", "tensor-shape"),
        ("ValueError: the image is odd", "setting"),
        ("AssertionError: assert len(a) == len(b)", "tensor-shape"),
        ("AssertionError: assert len(a) > 3", "exception"),
        (
            "AttributeError: cannot assign module before Module.__init__() call",
            "wrong-type",
        ),
    ],
)
def test_texts_of_a_kind_have_its_code(raised: str, code: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "/app/t.py", line 2, in f', raised]
    [cause] = known_causes(lines, 1, None)
    assert cause.code == code


@pytest.mark.parametrize(
    ("text", "code", "remedy"),
    [
        # By git: a login, an owner, the network, an operation.
        ("fatal: could not read Username for 'https://h': No such device", "git", "token"),
        ("git@h.org: Permission denied (publickey).", "git", "token"),
        ("fatal: detected dubious ownership in repository at '/x'", "git", "safe.directory"),
        ("fatal: unable to access 'https://h/x/': Could not resolve host: h", "git", "NAT device"),
        ("fatal: unable to access 'https://h/x/': server certificate", "git", "GIT_SSL_CAINFO"),
        ("fatal: Remote branch v9 not found in upstream origin", "git", "the branch"),
        ("batch response: This repository is over its data quota.", "git", "quota"),
        # By curl, wget, conda, pip, sudo.
        ("curl: (28) Operation timed out after 30001 milliseconds", "download", "NAT device"),
        ("curl: (56) Recv failure: Connection reset by peer", "download", "--retry"),
        ("CondaSSLError: OpenSSL appears to be unavailable", "requirements", "HTTPS_PROXY"),
        ("sudo: a terminal is required to read the password; x", "sudo", "image.apt"),
        # By glibc's loader, of libraries that no package of the system brings.
        ("libcuda.so.1: cannot open shared object file", "gpu-container", "--gpus all"),
        ("libibverbs.so.1: cannot open shared object file", "library", "ibverbs-providers"),
        ("libtorch_cuda.so: cannot open shared object file", "binary", "CPU build"),
        ("libgomp.so.1: cannot allocate memory in static TLS block", "library", "LD_PRELOAD"),
        ("libGL.so.1: failed to map segment from shared object", "library", "noexec"),
        # By the kernel's names of errors, in Python and in programs.
        ("OSError: [Errno 121] Remote I/O error: '/d'", "file-system", "another node"),
        ("cat: /data/list.txt: Input/output error", "file-system", "another node"),
        ("OSError: [Errno 30] Read-only file system", "file-permission", "read-only"),
        ("touch: cannot touch '/d/x': Read-only file system", "file-permission", "read-only"),
        ("cp: cannot stat '/gcs/b/x': No such file or directory", "file-missing", "inputs"),
        ("tar: data.tar: Cannot open: No such file or directory", "file-missing", "inputs"),
        ("mount.nfs: access denied by server while mounting fs:/x", "mount", "exports"),
        ("fusermount3: mount failed: Operation not permitted", "mount", "SYS_ADMIN"),
        # By Kubernetes.
        ("0/8 nodes are available: 8 Insufficient nvidia.com/gpu.", "pod-pending", "GPUs"),
        ("Pod ephemeral local storage usage exceeds the total limit", "evicted", "volume"),
        ("MountVolume.SetUp failed for volume \"p\" : x", "mount", "kubectl describe"),
        ("Job was active longer than specified deadline", "deadline", "activeDeadlineSeconds"),
        # By Azure's libraries.
        ("azure.core.exceptions.X: a\nErrorCode:AuthorizationFailure", "storage-denied", "Azure"),
        ("azure.core.exceptions.X: a\nErrorCode:BlobNotFound", "storage-missing", "its name"),
        ("azure.core.exceptions.X: a\nErrorCode:ServerBusy", "throttled", "fewer ranks"),
        ("CredentialUnavailableError: no managed identity", "credentials", "secrets"),
        # By schedulers other than Slurm.
        ("=>> PBS: job killed: cput 90 exceeded limit 60", "deadline", "checkpoints"),
        ("job 5 exceeds job hard limit \"h_rt\" of queue", "deadline", "checkpoints"),
        ("=>> PBS: job killed: vmem 9kb exceeded limit 5kb", "memory", "vmem"),
        ("Job has gone over cgroup memory limit of 6144 megabytes.", "memory", "request_memory"),
        ("TERM_THREADLIMIT: job killed after reaching LSF thread limit.", "threads", "OMP_"),
        ("TERM_OWNER: job killed by owner.\nExited with exit code 130.", "signal", "its owner"),
        ("Job deleted at request of a@b", "signal", "its owner"),
        # Of devices other than NVIDIA's.
        ("RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB", "gpu-memory", "batch"),
        ("RuntimeError: x.ts:89 HCCL function error: HcclGetRootInfo(&id), error code is 7\n"
         "EJ0003: Failed to bind the IP port. Reason: The IP address and port have been bound "
         "already.", "hccl", "npu-smi"),
        ("EI0006: Getting socket times out. Reason: Remote Rank did not send", "hccl", "TIMEOUT"),
        ("RuntimeError: a.cpp:281 OPS function error: HcclAllreduce, error code", "hccl", "EJ"),
        # Of sockets, locks and mounts.
        ("OSError: AF_UNIX path too long", "temporary-folder", "TMPDIR"),
        ("lmdb.Error: data/a.lmdb: Function not implemented", "file-lock", "lock=False"),
        ("sqlite3.OperationalError: locking protocol", "file-lock", "local disk"),
        ("mount helper error: fusermount: fuse device not found, try x", "mount", "/dev/fuse"),
        ("OpenBucket: Bad credentials for bucket \"b\". Check it", "mount", "access to the bucket"),
        # By the operating system, and of archives and locales.
        ("OSError: [Errno 39] Directory not empty: '/o/c-50'", "system-call", "one rank"),
        ("OSError: [Errno 18] Invalid cross-device link: '/a' -> '/b'", "system-call", "TMPDIR"),
        ("OSError: [Errno 36] File name too long: '/x.lock'", "system-call", "HF_DATASETS_CACHE"),
        ("OSError: [Errno 95] Operation not supported", "system-call", "local disk"),
        ("Error while serializing: I/O error: Operation not supported (os error 95)",
         "system-call", "local disk"),
        ("OSError: [Errno 99] Cannot assign requested address", "network", "own node"),
        ("OSError: [Errno 113] No route to host", "network", "firewalls"),
        ("OSError: [Errno 7] Argument list too long: '/bin/sh'", "system-call", "in a file"),
        ("rsctl: cannot run python: Argument list too long", "system-call", "in a file"),
        ("train.sh: line 9: /bin/tar: Argument list too long", "system-call", "in a file"),
        ("sh: 1: /bin/tar: Argument list too long", "system-call", "in a file"),  # dash
        # https://github.com/microsoft/physical-ai-toolchain/issues/1036
        ("exec /osmo/bin/osmo_exec: argument list too long", "system-call", "run.env"),
        ("PermissionError: [Errno 1] Operation not permitted: 'a.so'", "file-permission",
         "shutil.copyfile"),
        ("OSError: [Errno 26] Text file busy: '/tmp/x'", "system-call", "renames"),
        ("OSError: [Errno 40] Too many levels of symbolic links: '/d'", "system-call", "ln -s"),
        ("OSError: [Errno 27] File too large", "system-call", "sharded"),
        ("OSError: [Errno 126] Required key not available: '/home/x'", "system-call", "kinit"),
        ("UnicodeDecodeError: 'ascii' codec can't decode byte 0xe2 in position 0: ordinal not in "
         "range(128)", "locale", "PYTHONUTF8"),
        ("gzip: stdin: not in gzip format", "data-file", "checksum"),
        # Of lost nodes, limits and proxies; of compilers and NCCL.
        ("The node with node id: 8f205b1264 and ip: 10.128.0.103 has been marked dead because the "
         "detector has missed too many heartbeats from it.", "node-lost", "that node's log"),
        ("{'Error': {'Code': 'SlowDown', 'Message': 'x'}", "throttled", "fewer ranks"),
        ("OSError('Tunnel connection failed: 407 Proxy Authentication Required')", "proxy", "USER"),
        ("OSError('Tunnel connection failed: 403 Forbidden')", "proxy", "mirror"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_75'", "extension", "newer toolkit"),
        ("RuntimeError: NCCL error in: /p/NCCLUtils.hpp:82, invalid argument, NCCL version 2.4.8",
         "nccl", "world size"),
        # Of programs that copy or bind, of capacity, of Google's network.
        ("CommandException: One or more URLs matched no objects.", "storage-missing", "listing"),
        ("failed to perform copy command due to error: x\nERROR CODE: AuthenticationFailed",
         "credentials", "azcopy"),
        ("libnuma: Warning: node argument 1 is out of range", "cpu-binding", "numactl --show"),
        ("The zone 'z' does not have enough resources available to fulfill the request.",
         "no-capacity", "zones"),
        ("n:1:2 [0] NCCL WARN NET/FasTrak plugin connect() error: 111: Connection refused", "tcpx",
         "daemon"),
        # Of Hadoop, and of devices other than NVIDIA's.
        ("JAVA_HOME is not set", "library", "CLASSPATH"),
        ("SIMPLE authentication is not enabled. Available:[TOKEN, KERBEROS]", "credentials",
         "kinit"),
        ("RuntimeError: synStatus=26 [Generic failure] Device acquire failed.", "gaudi", "hl-smi"),
        ("RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].", "gaudi",
         "HABANA_LOGS"),
        ("RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed", "oneccl", "CCL_"),
        ("HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to", "gpu-state", "rocminfo"),
        # Of keys of packages, of engines, of the platform.
        ("E: The repository 'http://a InRelease' is not signed.", "package-system", "keyring"),
        ("Error: OCI runtime error: crun: error executing hook `/x` (exit code: 1)",
         "container-start", "node"),
        ("Error: crun: creating device nodes: Permission denied: OCI permission denied",
         "container-mount", "devices"),
        ("pynvml.NVMLError_NoPermission: Insufficient Permissions", "gpu-container", "group"),
        ("ClientError: Artifact upload failed:Insufficient disk space", "disk", "workers.disk"),
        ("InternalServerError: We encountered an internal error.", "service-unavailable", "again"),
        # Of a GPU, of ports, of Slurm.
        ("nvidia-container-cli: device error: 3: unknown device", "gpu-container", "nvidia-smi -L"),
        ("[E socket.cpp] [c10d] x has failed to bind (errno: 13 - Permission)", "port", "1023"),
        ("[c10d] The network addresses of (n1, 5) could not be retrieved (gai error: -2 - Name or "
         "service not known).", "name-resolution", "MASTER_ADDR"),
        ("*** JOB 1 ON n1 CANCELLED AT 2024 DUE TO TASK FAILURE ***", "slurm-step", "sacct"),
        ("[1]    12345 killed     python train.py", "killed", "memory"),
        ("exec ./train.sh: no such file or directory", "command", "line endings"),
        ("error: command 'gcc' failed: No such file or directory", "extension", "compilers"),
        # https://github.com/ultralytics/yolov3/issues/1074
        ("TypeError: Caught TypeError in replica 3 on device 3.\nOriginal Traceback (most recent "
         'call last):\n  File "/o/torch/nn/parallel/parallel_apply.py", line 60, in _worker\n'
         "    output = module(*input, **kwargs)\n"
         "TypeError: forward() missing 1 required positional argument: 'x'",
         "batch-size", "drop_last=True"),
        ("RuntimeError: [enforce fail at inline_container.cc:209] . file not found: archive/data/1",
         "checkpoint", "write it again"),
    ],
)  # fmt: skip
def test_a_failure_before_or_around_the_script_has_a_remedy_of_its_own(
    text: str, code: str, remedy: str
) -> None:
    lines = ["starting", *text.splitlines()]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert cause.code == code
    assert remedy in (cause.remedy or "")


def test_the_fatal_error_of_git_is_no_container_that_did_not_start() -> None:
    lines = ["Cloning into 'x'...", "fatal: destination path 'x' already exists"]
    [cause] = known_causes(failure_lines(lines), 128, None, earlier=lines)
    assert cause.code == "git"


def test_a_task_that_failed_is_the_cause_of_its_steps_end() -> None:
    lines = [
        "RuntimeError: CUDA out of memory.",
        "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK "
        "FAILURE ***",
    ]
    [cause] = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert cause.code == "gpu-memory"


def test_the_whole_message_between_two_rules_of_mpi_is_read() -> None:
    rule = "-" * 74
    lines = [rule, "mpirun was unable to find the specified executable file", *"abcdefghij"]
    lines += ["Executable: train.py", rule]
    assert failure_lines(["before", *lines]) == lines
    [cause] = known_causes(failure_lines(["before", *lines]), 1, None)
    assert cause.message.endswith(": train.py")


def test_an_error_before_a_lost_peer_is_the_cause() -> None:
    first = "n:1:1 [0] misc/socket.cc:9 NCCL WARN Connect to 10.0.0.2<45> failed : No route to host"
    lines = [first, *["n:1:1 [0] NCCL INFO x"] * 12, "Connection closed by remote peer n1<57557>"]
    causes = known_causes(failure_lines(lines), 1, None, earlier=lines)
    assert [each.code for each in causes] == ["nccl-network"]
