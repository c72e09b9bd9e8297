"""Kinds of failures by the package that raised the exception, for texts without a known cause.

A package has thousands of checks, whose texts name what is wrong; the package says which part of a
training it is, and where to correct it. Sources: the code of torch, DeepSpeed, Megatron-LM,
accelerate, Lightning, transformers and SageMaker's training toolkit.
"""

from __future__ import annotations

import re
from typing import Optional

from rsctl.known_errors import KnownError

OF_PYTHON = (
    r"operand type|between instances|x not in list|unhashable|math domain|substring not found"
    r"|embedded null|closed file|time data|format code|truth value of an array|codec can't"
    r"|has no len|not (?:iterable|callable|subscriptable)|sequence (?:item|element) [#\d]"
    r"|format: a |ord\(\) expected|context manager protocol|unsupported format string|map\(\) must"
)
"""Messages of Python itself about a mistake in code, which refuse no setting."""

BY_CODE = (
    rf"^(?!(?:Key|Index|Attribute|Name|UnboundLocal|ZeroDivision|Unicode\w{{6}}|OS|IO|Recursion"
    rf"|(?:subprocess\.)?CalledProcess)Error|Keyboard|System|StopIteration|its text is missing"
    rf"|AssertionError: (?:assert |[(\[{{\d])|\w{{4,9}}Error: [^\n]{{0,60}}(?:{OF_PYTHON}))"
)
"""The text of an exception that a package raises itself, unless Python raised it there."""


def cause(
    code: str, paths: str, summary: str, remedy: str, texts: Optional[str] = BY_CODE
) -> KnownError:
    """A row of the table: the paths of the files that raise, the meaning, and the remedy."""
    source = re.compile(rf"(?!.*/examples/(?!.*-packages/)).*/(?:{paths})")
    return KnownError(code, remedy, pattern=texts, source=source, summary=summary)


COMPILER_KIND = cause(
    "compile",
    r"torch/(?:_dynamo|_inductor|_functorch|_higher_order_ops|_subclasses|fx/experimental)/"
    r"|torchinductor_|triton/(?:compiler|runtime|language|backends)/",
    "torch.compile or Triton failed on a part of the model, in its own code",
    "run without torch.compile (TORCHDYNAMO_DISABLE=1 in run.env) to see whether the rest works; "
    "exclude the function at the end of the traceback (torch.compiler.disable), or use another "
    "version of torch with the Triton that belongs to it",
    texts=None,
)
"""A failure inside a compiler, whose own message is about the compiler and not the script."""

RAISER_KINDS = (
    cause(
        "checkpoint-mismatch",
        r"torch/distributed/(?:fsdp/_(?:optim|state_dict)_utils|checkpoint/state_dict\.py)",
        "the state dict of the model or the optimizer does not fit a checkpoint or the sharding",
        "use the kind of state dict that fits both (sharded only for sharded parameters, full on "
        "one rank or with NO_SHARD); resume from a whole checkpoint, with the optimizer and the "
        "kind that wrote it; otherwise load the weights alone",
        texts=None,
    ),
    cause(
        "hub-version",
        r"transformers/models/auto/",
        "the installed transformers does not know this kind of model",
        "install the version of transformers that the model's page names, or a newer one, in "
        "image.python; config.json of the model must have its model_type",
        texts=r"^KeyError: ",
    ),
    cause(
        "extension",
        r"(?:transformer_engine|apex|flash_attn|xformers|bitsandbytes|fused_\w{1,30})/",
        "a library of GPU kernels refuses a call, or failed inside it",
        "use the version of the library that belongs to torch, CUDA and the framework that calls "
        "it; compare shapes, types and options with those that it supports, or turn it off",
        texts=None,
    ),
    cause(
        "hub-access",
        r"huggingface_hub/(?:file_download|_snapshot_download|hf_api|utils/_http)",
        "a download from the Hugging Face hub failed",
        "try again; give the job the model or the data as an input, or put it into the image, and "
        "set HF_HUB_OFFLINE=1; a private or gated repository needs HF_TOKEN (env from a secret)",
        texts=None,
    ),
    cause(
        "checkpoint",
        r"torch/distributed/(?:checkpoint|_shard/checkpoint|_state_dict_utils)|deepspeed/checkpoint/"
        r"|deepspeed/runtime/(?:checkpoint_engine|state_dict_factory)|megatron/core/dist_checkpointing"
        r"|megatron/training/\w{0,20}checkpoint|lightning/(?:fabric|pytorch)/plugins/io/"
        r"|deepspeed/utils/zero_to_fp32",
        "a checkpoint could not be written or read",
        "read a complete checkpoint, with the model, the parallel sizes and the versions of the "
        "packages that wrote it, or convert it with the framework's tool; see the logs of the "
        "other ranks and the free space for an earlier failure",
    ),
    cause(
        "launcher",
        r"torch/distributed/(?:elastic/|launcher/|run\.py|launch\.py|rendezvous\.py)"
        r"|deepspeed/(?:launcher|elasticity)/|accelerate/(?:commands/|launchers\.py|utils/launch)",
        "the launcher of the ranks refuses its options, hosts or configuration, or lost the other "
        "nodes",
        "let rsctl start the ranks (run.launcher: torchrun) rather than a launcher in run.command; "
        "otherwise correct the option, file or variable that the message names, the same on all "
        "nodes; if it names none, see the logs of the other nodes for an earlier failure",
    ),
    cause(
        "pipeline",
        r"torch/distributed/pipelining/|deepspeed/runtime/pipe/|megatron/core/pipeline_parallel/",
        "pipeline parallelism does not fit the model, the batch or the number of ranks",
        "make the number of ranks a multiple of the stages, and the batch a multiple of the "
        "micro-batches; each stage must get the shapes, types and arguments that it was set up "
        "with",
    ),
    cause(
        "sharded-tensor",
        r"torch/distributed/(?:fsdp|_composable|_?tensor|_shard|device_mesh|_mesh_layout"
        r"|_symmetric_memory|_functional_collectives|algorithms)\b|deepspeed/runtime/zero/"
        r"|deepspeed/module_inject/|megatron/core/distributed/|megatron/core/tensor_parallel/",
        "sharded or parallel parameters (FSDP, DTensor, ZeRO, tensor parallelism) do not fit the "
        "model, the ranks or the way in which the script uses them",
        "compare the mesh, the placements and the sizes with the number of ranks, and what the "
        "message names with the framework's configuration; wrap the model before its first step, "
        "and run the same modules in the same order on all ranks",
    ),
    cause(
        "distributed",
        r"torch/distributed/",
        "a rank, or the store of torch.distributed, did not answer or ended the connection",
        "see the logs of the other replicas for an earlier failure, and look for a rank that is "
        "slow or waits elsewhere; the nodes must reach each other on all ports",
        r"^(?!(?:Key|Index|Attribute|OS)Error)[^\n]{0,300}(?:[Tt]imed? ?-?out|was aborted"
        r"|[Cc]onnect|while waiting|[Ff]ailed to (?:bind|send|recv|receive|accept)"
        r"|error running collective)",
    ),
    cause(
        "distributed-call",
        r"torch/(?:distributed/|nn/parallel/)",
        "a call of torch.distributed does not fit the process group, the rank or the tensors",
        "call init_process_group before; only ranks of the group take part, lists have an entry "
        "for each of its ranks, and source ranks are global; correct the argument that the message "
        "names",
    ),
    cause(
        "data-loader",
        r"torch/utils/data/|torch/multiprocessing/|deepspeed/runtime/data_pipeline/"
        r"|megatron/(?:core/datasets|data|training/datasets)/",
        "the data loader, its sampler or the data set refuses its arguments, or a worker of it "
        "failed",
        "correct what the message names: options that exclude each other, a data set without "
        "__len__ or __getitem__, too few or damaged samples, an index that another version or data "
        "set made; num_workers=0 shows an error of a worker in the script itself",
    ),
    cause(
        "optimizer",
        r"torch/(?:optim|amp)/|torch/cuda/amp/|deepspeed/runtime/(?:fp16|bf16|lr_schedules)"
        r"|megatron/core/optimizer",
        "the optimizer, its schedule or the gradient scaler refuses its arguments or this order of "
        "calls",
        "correct the argument that the message names; in each step call backward(), unscale_() at "
        "most once, step() and update(), and give the optimizer all parameters of this rank",
    ),
    cause(
        "gradient",
        r"torch/(?:autograd/(?!graph)|utils/checkpoint|func/)",
        "autograd refuses a call, or cannot compute the gradients",
        "correct the call in the script's line in the traceback: tensors that require gradients, "
        "one backward for each forward, the same operations when a checkpointed part runs again",
    ),
    cause(
        "layer",
        r"torch/nn/(?!modules/module\.py)",
        "a layer refuses its arguments or the tensors that it gets",
        "print the shapes and types before the script's line in the traceback, and compare them "
        "with the arguments of the layer",
    ),
    cause(
        "gpu-fault",
        r"nvidia/dali/",
        "DALI could not use the GPU",
        "leave DALI free memory (a smaller batch, prefetch_queue_depth or hw_decoder_load), give "
        "each pipeline the device_id of its LOCAL_RANK, and install the DALI for the image's CUDA; "
        "on one machine only it is its GPU or driver",
        texts=r"nvml error|CUDA (?:runtime|driver) API error|CUDA allocation failed"
        r"|NVJPEG_STATUS_ALLOC",
    ),
    cause(
        "data-file",
        r"(?:webdataset|wids|nvidia/dali|ray/data|streaming/base|litdata|torchdata|petastorm"
        r"|tensorflow_datasets)/",
        "a library that reads the data refuses a file, a sample or its arguments",
        "look at the file, shard, sample or operator that the message names: its path, its fields "
        "and names, one that is empty, double or damaged, and fewer shards than ranks x workers; "
        "write a wrong shard again with the library's own writer",
    ),
    cause(
        "toolkit",
        r"sagemaker_(?:training|containers|pytorch_container|inference)/",
        "the toolkit of SageMaker's image refuses the program, its options or its data",
        "correct what the message names: the program (run.script must be a Python script for "
        "torchrun and PT-XLA), the launcher, the format of the data or the index of packages",
    ),
)
"""The first whose path fits is shown; all come after the kinds of mistakes of Python itself."""


PLACES = (
    cause(
        "trainer",
        r"transformers/(?:trainer|training_args)|trl/",
        "",
        "the trainer's arguments (TrainingArguments), the model or the data set's columns",
    ),
    cause(
        "trainer",
        r"peft/",
        "",
        "the adapter's configuration (target_modules, modules_to_save, task_type), which must "
        "fit the layers of this base model",
    ),
    cause(
        "lightning",
        r"(?:pytorch_)?lightning(?:_fabric)?/",
        "",
        "the arguments of the Trainer or Fabric, the strategy or the LightningModule's method",
    ),
    cause("deepspeed", r"deepspeed/", "", "DeepSpeed's configuration"),
    cause("megatron", r"megatron/", "", "Megatron's arguments in run.args"),
    cause(
        "accelerate",
        r"accelerate/",
        "",
        "accelerate's configuration file (`accelerate config`) or ACCELERATE_ variables",
    ),
    cause(
        "setting",
        r"(?:sklearn/(?:metrics|utils/validation)|torchmetrics/|evaluate/|seqeval/)",
        "",
        "the metric's arguments (average=), predictions (classes by argmax, or scores) and "
        "labels (without -100; of both classes for AUC)",
    ),
    cause(
        "setting",
        r"(?:timm|torchvision|albumentations|kornia|imgaug|monai)/",
        "",
        "the transforms, the number of classes or the sizes, channels and batches of images "
        "(mixup needs drop_last=True)",
    ),
    cause(
        "setting",
        r"(?:site|dist)-packages/datasets/",
        "",
        "the split, configuration, features or columns, by the data set's page and files",
    ),
    cause("setting", r"pandas/", "", "the columns and dtypes of the table, by its file"),
    cause(
        "setting",
        r"(?:transformers|diffusers|sentence_transformers)/",
        "",
        "the inputs (lengths, ids, masks, labels) or the model's config.json",
    ),
)
"""Where the settings and the inputs of packages are corrected."""
