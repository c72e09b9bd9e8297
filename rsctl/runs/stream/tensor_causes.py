"""Causes of failed jobs in computations: tensors of wrong kinds and shapes, gradients, attention.

Sources: texts of tests/fixtures/real; the messages in the code of torch, flash-attn and xformers.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

_KERNEL_CHECK = (
    r"/(?:flash_attn\w{0,12}|xformers/ops|sageattention)/[^\n]{1,200}\n[^\n]{1,200}\n"
    r"(?:[^\n\w]{1,200}\n)?[^\n]{0,12}\b(?:Runtime|Value|Assertion)Error: ([^\n]{1,160})"
)
"""A check of an attention kernel's package: the exception right below a frame of it."""

TENSOR_CAUSES = (
    cause(
        "attention",
        rf"Error: ((?:FlashAttention|flash_attn)[^\n]{{1,120}})|{_KERNEL_CHECK}"
        r"|((?:must|should) have contiguous last dim\w{0,6})"
        r"|([Hh]ead[_ ](?:dim\w{0,6}|size)[^\n]{0,40}(?:must|should) be[^\n]{0,60})"
        r"|(No available kernel\. Aborting)"
        r"|cuDNN [Ee]rror: (\[cudnn_frontend\][^\n]{1,80}|No (?:valid|execution)[^\n]{1,60})"
        r"|(No dot product attention backend[^\n]{0,60})"
        r"|(No operator found for `memory_efficient_attention\w{0,20})",
        "the attention kernel does not support these tensors on this GPU: {names}",
        "give it contiguous tensors in fp16 or bf16 (torch.autocast, dtype=) and a supported "
        "head size, update cuDNN and "
        "the kernel's package, or choose another kernel: attn_implementation, and for Transformer "
        "Engine NVTE_FUSED_ATTN=0 or NVTE_FLASH_ATTN=0 in run.env",
    ),
    cause(
        "backend-device",
        r"No backend type associated with device type (\w{1,20})|Tensors must be (CUDA and dense)"
        r"|(?:Distributed package|PyTorch)[^\n]{0,30}doesn't have (\w{1,20}) (?:built|support)"
        r"|Tensors must be (contiguous)|only Tensors of floating point dtype can require()",
        "a collective operation got a tensor that its backend does not take: {names}",
        "move tensors to the rank's GPU for NCCL, or make a process group with backend "
        "'cpu:gloo,cuda:nccl'; call contiguous() on slices",
    ),
    cause(
        "backend-device",
        r"((?:ProcessGroup\w{1,12}|[Bb]ackend \w{1,12}|\bMPI|\bUCC) does(?: not"
        r"|n't) support [^\n]{1,60})",
        "the backend of torch.distributed does not have this operation: {names}",
        "use a backend that has it (NCCL for tensors on GPUs, gloo for the CPU), or a newer torch",
    ),
    cause(
        "gradient",
        r"modified by an inplace operation|does not require grad and does not have a grad_fn"
        r"|backward through the graph a second time|doesn't have any parameters that require a "
        r"gradient|optimizer got an empty parameter list|None of the inputs have requires_grad"
        r"|[Nn]one of output has requires_grad|returned an invalid gradient at index",
        "autograd cannot compute the gradients: tensors are missing, used twice or overwritten",
        "see the operation in the traceback; torch.autograd.set_detect_anomaly(True) names the "
        "forward one; with gradient checkpointing and frozen weights call "
        "model.enable_input_require_grads()",
    ),
    cause(
        "gradient",
        r"function (\w{1,100}) returned an incorrect number of gradients",
        "the backward of an autograd function does not fit its forward: {names}",
        "install another version of its package, one that fits the others (flash-attn, ring "
        "attention, torch); in your own function, return a gradient or None for each argument of "
        "forward",
    ),
    cause(
        "tensor-type",
        r"expected (?:scalar type|m1 and m2 to have the same dtype)[^\n]{0,80}|[Ee]xpected "
        r"[^\n]{0,40}dtype[^\n]{0,60}but got|must have the same dtype|Input type \([\w.]{1,40}\) "
        r"and "
        r"(?:weight|bias) type|not implemented for '(Half|BFloat16|Float8\w{0,10}|Long|Int|Bool)'"
        r"|cannot be converted to type at::\w{1,10} without overflow"
        r"|(Promotion for Float8 Types is not supported)",
        "an operation got tensors of a type that it does not take: {names}",
        "use one type for the model and its inputs, or torch.autocast; some operations exist only "
        "on GPUs, or only in float32",
    ),
    cause(
        "tensor-shape",
        r"(shapes cannot be multiplied \(\S{1,40} and \S{1,40}\))"
        r"|(shape '\[[^\n]{1,60}\]' is invalid for input of size \d{1,15})"
        r"|(size of (?:tensor a|the tensor) \(\d{1,12}\) must match the (?:size of tensor b"
        r"|existing size) \(\d{1,12}\))"
        r"|(Sizes of tensors must match except in dimension \d{1,3})"
        r"|(Given groups=\d{1,6}, weight of size [^\n]{1,100})"
        r"|(Expected input batch_size \(\d{1,9}\) to match target batch_size \(\d{1,9}\))"
        r"|(Expected \d{1,3}D[^\n]{1,80}but got[^\n]{0,60})",
        "tensors have shapes that an operation does not accept: {names}",
        "print the shapes before the script's line in the traceback; a last batch that is smaller "
        "needs drop_last=True",
    ),
    cause(
        "index",
        r"index out of range in self|Token id out of range|Target (-?\d{1,12}) is out of bounds"
        r"|Assertion `srcIndex <",
        "an index is out of range: a token beyond the vocabulary, or a label beyond the classes",
        "compare the tokenizer's size with the model's embeddings (resize_token_embeddings), and "
        "the labels with the number of classes",
    ),
    cause(
        "nan-loss",
        r"[Ll]oss is (nan|inf)[^\n]{0,20}[Ss]top|[Ff]ound (?:NaN|Inf|nan|inf)[^\n]{0,30}"
        r"(?:loss|grad)[^\n]{0,60}|(?:non-finite|not finite)[^\n]{0,40}(?:loss|grad)[^\n]{0,40}"
        r"|Error: [^\n]{0,60}[Gg]radients? (?:are|is|norm is) (?:[Nn]a[Nn]"
        r"|[Ii]nf)\w{0,8}(?:/[Ii]nf)?"
        r"|detected (?:inf or nan|nan or inf|NaN)[^\n]{0,60}|[Nn]an in summary histogram"
        r"|Function '\w{1,100}' returned (nan) values in its",
        "the loss or a gradient is not a finite number, and the script stopped",
        "use a smaller learning rate, more warm-up, clipped gradients or bf16; look at the batch "
        "of "
        "that step",
    ),
)
"""In the order in which they are shown."""
