"""The kinds of exceptions: what the text, the package and the place say about cause and remedy."""

from __future__ import annotations

import pytest

from rsctl.findings import Finding
from rsctl.runs.stream.diagnosis import known_causes
from rsctl.runs.stream.failure_lines import failure_lines

from .test_exceptions import SIMPLE


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
