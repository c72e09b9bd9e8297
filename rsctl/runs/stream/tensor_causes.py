"""Causes of failed jobs in computations: tensors of wrong kinds and shapes, gradients, attention.

Sources: texts of tests/fixtures/real; the messages in the code of torch, flash-attn and xformers.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

_KERNEL_CHECK = (
    r"/(?:flash_attn\w{0,12}|xformers/ops|sageattention)/[^\n]{1,200}\n[^\n]{1,200}\n"
    r"(?:[^\n\w]{1,200}\n)?[^\n]{0,12}\b(?:Runtime|Value|Assertion)Error: "
    r"((?!No such operator)[^\n]{1,160})"
)
"""A check of an attention kernel's package: the exception right below a frame of it."""

_TRAINED = (
    r"(?:[Ll]oss(?:es)?|[Gg]rad(?:ient)?s?|[Oo]utputs?|[Ll]ogits|[Aa]ctivations?|[Pp]redictions?"
    r"|[Ww]eights?|[Pp]arameters?|[Mm]odel|[Nn]etwork)"
)
_NAN = r"[Nn][Aa][Nn]s?"
"""With a word of `_TRAINED` in the text of an exception: the check of a script, in its words."""

TENSOR_CAUSES = (
    cause(
        "attention",
        rf"Error: ((?:FlashAttention|flash_attn)[^\n]{{1,120}})|{_KERNEL_CHECK}"
        r"|((?:must|should) have contiguous last dim\w{0,6})"
        r"|([Hh]ead[_ ](?:dim\w{0,6}|size)[^\n]{0,40}(?:must|should) be[^\n]{0,60})"
        r"|([Oo]nly supports? head (?:dim|size)[^\n]{1,60})"
        r"|(No available kernel\. Aborting)"
        r"|/fused_attn[^\n]{1,160}cuDNN [Ee]rror: ([^\n]{1,80}?)(?:\. F|$|\n)"
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
        r"|(?:Distributed package|PyTorch)[^\n]{0,30}doesn't have (?!NCCL)(\w{1,20})"
        r" (?:built|support)"
        r"|Tensors must be (contiguous)",
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
        r"only Tensors of floating point (?:and complex )?dtype can require gradients"
        r"|Cannot flatten integer dtype tensors",
        "the script requires gradients of integers, such as the weights of a quantized model",
        "train adapters on a quantized model (peft: prepare_model_for_kbit_training, LoRA), and "
        "set requires_grad only on floating-point tensors; under FSDP, quantize with "
        "bnb_4bit_quant_storage of the model's dtype; use versions of transformers, peft and "
        "bitsandbytes that belong together",
    ),
    cause(
        "gradient",
        r"backward through the graph a second time",
        "backward ran before through a part of this graph, which frees it",
        "compute the loss again in each step, with all layers that train inside the loop; detach() "
        "what a step keeps for the next, such as hidden states or sums of losses; add losses that "
        "share a forward before one backward, or pass retain_graph=True to all but the last",
    ),
    cause(
        "gradient",
        r"doesn't have any parameters? that requires? a gradient"
        r"|optimizer got an empty parameter list"
        r"|in initialize_optimizer_states\n[^\n]{0,200}\nValueError: max\(\) arg is an empty",
        "DistributedDataParallel, DeepSpeed or the optimizer got no parameter to train",
        "set requires_grad on what you train, or add the adapter, before the model is wrapped and "
        "the optimizer is made; give the optimizer all parameters (a generator is empty after its "
        "first use, a list of layers must be an nn.ModuleList); do not wrap a model that is only "
        "used, such as a teacher",
    ),
    cause(
        "gradient",
        r"does not require grad and does not have a grad_fn|[Nn]one of output has requires_grad",
        "no parameter of the model gets a gradient from the loss",
        "set requires_grad on what you train, and avoid no_grad(), detach() and item() before the "
        "loss; with gradient checkpointing and frozen weights call "
        "model.enable_input_require_grads() or use use_reentrant=False",
    ),
    cause(
        "gradient",
        r"modified by an inplace operation|returned an invalid gradient at index"
        r"|leaf [Vv]ariable (?:that requires grad )?[^\n]{0,40}in-?place operation"
        r"|can't optimize a non-leaf Tensor|Error: Output \d{1,4} of \w{1,80} is a view and is"
        r" being modified inplace"
        r"|refers? to a single memory location",
        "autograd cannot compute the gradients: tensors were overwritten, or have other shapes",
        "see the operation in the traceback; torch.autograd.set_detect_anomaly(True) names the "
        "forward one; write x = x + y for x += y, and let optimizers have parameters only",
    ),
    cause(
        "gradient",
        r"(different number of tensors was saved during the original forward and recomputation)"
        r"|([Rr]ecomputed values for the following tensors have different metadata)",
        "gradient checkpointing did not compute in the backward what it had computed before: "
        "{names}",
        "the forward must repeat itself: leave routers of experts, random choices and code that "
        "depends on the mode or on counters out of the checkpointed modules, or use "
        "use_reentrant=True",
    ),
    cause(
        "gradient",
        r"Can't call numpy\(\) on (?:Tensor|Variable) that requires grad()"
        r"|(support the deepcopy protocol) at the moment",
        "a tensor that belongs to autograd's graph cannot be converted or copied",
        "call detach() before: x.detach().cpu().numpy(); keep copies of state_dict(), not of "
        "results of the forward",
    ),
    cause(
        "optimizer",
        r"(unscale_\(\) has already been called|unscale_\(\) is being called after step"
        r"|step\(\) has already been called since the last update)",
        "the gradient scaler is not called once for each step of the optimizer: {names}",
        "call unscale_(optimizer) at most once before scaler.step(optimizer), then "
        "scaler.update(), also where the script skips a step; with accumulated gradients call "
        "them only in the last of the steps",
    ),
    cause(
        "gradient",
        r"No inf checks were recorded",
        "no parameter of the optimizer has a gradient in this step",
        "give the optimizer the parameters that the loss uses, also after a resume; set "
        "requires_grad on them, call backward() on the scaled loss before step(), and skip steps "
        "without it",
    ),
    cause(
        "gradient",
        r"(can only change requires_grad flags of leaf variables)"
        r"|(Inference tensors cannot be saved for backward)"
        r"|(Cannot set version_counter for inference tensor)"
        r"|(derivative for [\w:]{1,100} is not implemented)"
        r"|(cudnn RNN backward can only be called in training mode)",
        "autograd cannot train through this operation or tensor: {names}",
        "set requires_grad on parameters, not on results; use no_grad() in place of "
        "inference_mode() for what later trains; call model.train() before a backward through an "
        "RNN; for second derivatives use operations that have them, such as attention with "
        "attn_implementation='eager' or SDPBackend.MATH",
    ),
    cause(
        "gradient",
        r"grad can be implicitly created only for scalar outputs",
        "the loss is not one number",
        "average it before backward(): loss.mean(), as with DataParallel, which returns one loss "
        "for each GPU",
    ),
    cause(
        "gradient",
        r"some parameters appear in more than one parameter group()"
        r"|param '(initial_lr)' is not specified in param_groups"
        r"|(params argument given to the optimizer should be[^\n]{1,100})"
        r"|(optimizer can only optimize Tensors, but one of the params is [\w.]{1,60})",
        "the parameter groups do not fit the optimizer or the schedule: {names}",
        "give the optimizer model.parameters() or groups of it, each parameter in one group only; "
        "to resume with last_epoch, load the optimizer's "
        "state before the schedule is made",
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
        r"_amp_\w{0,60}unscale\w{0,20}[\"'] not implemented for 'BFloat16",
        "the gradient scaler, which is for fp16, got gradients in bfloat16",
        "train in bf16 without a GradScaler (bf16=True, fp16=False), or on a GPU without bf16 load "
        "the model in float32 or float16 and train in fp16",
    ),
    cause(
        "tensor-type",
        r"expected (?:scalar type|m1 and m2 to have the same dtype)[^\n]{0,80}|[Ee]xpected "
        r"[^\n]{0,40}dtype[^\n]{0,60}but got|must have the same dtype|Input type \([\w.]{1,40}\) "
        r"and "
        r"(?:weight|bias) type|not implemented for '(Half|BFloat16|Float8\w{0,10}|Long|Int|Bool)'"
        r"|cannot be converted to type at::\w{1,10} without overflow"
        r"|(Promotion for Float8 Types is not supported)"
        r"|([Ee]xpected object of (?:scalar )?type [\w.]{1,30} but (?:got|found)[^\n]{0,60})"
        r"|(result type \w{1,20} can't be cast to[^\n]{0,60})"
        r"|(Found dtype \w{1,20} but expected \w{1,20})"
        r"|(tensors used as indices must be [^\n]{1,60})"
        r"|(can't convert np\.ndarray of type numpy\.\w{1,20})"
        r"|(\w{1,60}\(\) received an invalid combination of arguments - got [^\n]{1,100}?), but"
        r"|(only supports boolean masks, but got [^\n]{1,40})"
        r"|(input dtype \([\w.]{1,20}\) does not match weight dtype \([\w.]{1,20}\))"
        r"|(Input dtype must be either a floating point or complex dtype[^\n]{0,20})"
        r"|(only support floating point and complex dtypes)"
        r"|(Expected a floating point or complex tensor as input[^\n]{0,20})"
        r"|((?:on a|with two) bool tensors? is not supported)"
        r"|((?:scatter|gather)\w{0,12}\(\): Expected (?:self\.)?dtype [^\n]{1,60})"
        r"|(Expected tensor for argument #\d{1,2} [^\n]{1,100}? got [\w.]{1,40})"
        r"|(input types can't be cast to the desired output type \w{1,20})"
        r"|(Unexpected floating ScalarType in at::autocast[\w:]{0,40})"
        r"|(input must have the type torch\.\w{1,12}, got type torch\.\w{1,12})"
        r"|('lengths' argument should be a 1D CPU int64 tensor, but got [^\n]{1,40})",
        "an operation got tensors of a type that it does not take: {names}",
        "use one type for the model and its inputs, or torch.autocast; some operations exist only "
        "on GPUs, or only in float32",
    ),
    cause(
        "tensor-type",
        r"Error: (\w{1,60}\(\): argument '(?!padding_value)\w{1,40}' (?:\(position \d{1,2}\) )?"
        r"must be [^\n]{1,60}, not [\w.]{1,60})"
        r"|(expected Tensor as element \d{1,9} in argument \d{1,3}, but got [\w.]{1,60})",
        "a function of torch got an object of another kind than it takes: {names}",
        "see the script's line in the traceback: a field of the batch that is not converted to a "
        "tensor (leave text out of the collate_fn), a layer that returns several values, or a mask "
        "of another attention; where a package makes the call, install the versions that belong "
        "together",
    ),
    cause(
        "tensor-shape",
        r"([Gg]ather got an input of invalid size: [^\n]{1,80})"
        r"|(Input tensor at index \d{1,3} has invalid shape [^\n]{1,100})",
        "DataParallel cannot join the results of the GPUs, which have different shapes: {names}",
        "pad the results to one length on each GPU (pad_packed_sequence: total_length), use "
        "drop_last=True or a batch size that is a multiple of the GPUs, or use "
        "DistributedDataParallel with one process for each GPU",
    ),
    cause(
        "tensor-shape",
        r"(shapes cannot be multiplied \(\S{1,40} and \S{1,40}\))"
        r"|(shape '\[[^\n]{1,60}\]' is invalid for input of size \d{1,15})"
        r"|(size of (?:tensor a|the tensor) \(\d{1,12}\) must match the (?:size of tensor b"
        r"|existing size) \(\d{1,12}\))"
        r"|(Sizes of tensors must match except in dimension \d{1,3})"
        r"|(Mismatch in shape: grad_output\[\d[^\n]{1,160})"
        r"|(Given groups=\d{1,6}, weight of size [^\n]{1,100})"
        r"|(Expected input batch_size \(\d{1,9}\) to match target batch_size \(\d{1,9}\))"
        r"|([Ee]xpected \d{1,3}(?:D|-dimensional)[^\n]{1,100}\bgot[^\n]{0,60})"
        r"|(size mismatch, m1: [^\n]{1,60})|(Dimension out of range \(expected[^\n]{1,60})"
        r"|(Calculated (?:padded input|output) size[^\n]{1,120})"
        r"|(operands could not be broadcast[^\n]{1,80}|cannot reshape array of size[^\n]{1,60})"
        r"|(could not broadcast input array from shape[^\n]{1,60})"
        r"|(running_\w{3,4} should contain \d{1,9} elements not \d{1,9})"
        r"|(input\.size\(-1\) must be equal to input_size[^\n]{0,40})"
        r"|([Ee]xpected (?:hidden|target|input)\W?\w{0,8}\]? size \([^\n]{1,80})"
        r"|(Target size \((?!\{)[^\n]{1,40}\) must be the same as input size \([^\n]{1,40}\))"
        r"|(only batches of spatial targets supported[^\n]{0,80}|multi-target not supported)"
        r"|(Index tensor must have the same number of dimensions[^\n]{0,60})"
        r"|(the number of sizes provided \(\d{1,3}\) must be greater or equal[^\n]{0,80})"
        r"|(all the input array dimensions[^\n]{0,40} must match exactly[^\n]{0,80})"
        r"|(requested array has an inhomogeneous shape|setting an array element with a sequence)"
        r"|([Ss]hape mismatch: (?:value|objects|indexing)[^\n]{1,80})"
        r"|(size shape must match input shape[^\n]{0,60})"
        r"|(Input and output must have the same number of spatial dimensions[^\n]{0,80})"
        r"|(The shape of the mask \[[^\n]{1,40}\] at index \d{1,3})"
        r"|(too many indices for (?:tensor|array)[^\n]{0,80})|(invalid index of a 0-dim tensor)"
        r"|(slice\(\) cannot be applied to a 0-dim tensor|iteration over a 0-d tensor)"
        r"|(Tensors must have same number of dimensions: got \d{1,3} and \d{1,3})"
        r"|(number of dim(?:s|ensions in the tensor input) do(?:es)?(?: not|n't) match[^\n]{1,60})"
        r"|(index_select\(\): Index is supposed to be a vector)"
        r"|([Ee]xpected index \[[\d, ]{1,40}\] to be (?:smaller|no larger) than self \[)"
        r"|(einsum\(\): [^\n]{1,120})|(Given normalized_shape=[^\n]{1,120})"
        r"|(inconsistent tensor size, expected [^\n]{1,80})|(required rank \d tensor[^\n]{0,40})"
        r"|(output with shape \[[^\n]{0,40}\] doesn't match the broadcast shape \[[^\n]{0,40}\])"
        r"|Error: (Using a target size \([^\n]{1,40}\) that is different to the input size)"
        r"|(weight tensor should be defined either for all \d{1,9} classes)"
        r"|(Padding size should be less than[^\n]{1,100})"
        r"|(key shape [^\n]{1,60} does not match value shape)"
        r"|(was expecting embedding dimension of \d{1,9}, but got \d{1,9})"
        r"|(\b\w{1,40} (?:\(\d{1,9}\) )?must be divisible by (?:num_\w{1,20}|groups)"
        r"(?: \(\d{1,9}\))?|expects its input's 'channel' dimension to be divisible by[^\n]{1,100})"
        r"|(Expected size for first two dimensions of batch2 tensor to be: [^\n]{1,60})"
        r"|(grid_sampler\(\): [^\n]{1,120})|(input tensor must have at least \d dimensions)"
        r"|(size mismatch, got [^\n]{1,80})|(repeat dims can not be smaller than[^\n]{1,40})"
        r"|(Provided sizes \[[^\n]{1,40}\] don't multiply up to[^\n]{1,40})"
        r"|Error: ((?:mat[12]|self) must be a matrix[^\n]{0,20})",
        "tensors have shapes that an operation does not accept: {names}",
        "print the shapes before the script's line in the traceback, and compare them with the "
        "configuration: image size, channels (grey or RGBA images), classes; a last batch that is "
        "smaller needs drop_last=True",
    ),
    cause(
        "tensor-shape",
        r"Expected more than 1 (?:value|spatial element)s? per channel when training",
        "batch normalisation got a batch with a single sample, of which it has no statistics",
        "use drop_last=True in the DataLoader and at least 2 samples for each rank, or another "
        "normalisation: SyncBatchNorm, GroupNorm",
    ),
    cause(
        "tensor-shape",
        r"Error: expected sequence of length (\d{1,9} at dim \d{1,3} \(got \d{1,9}\))",
        "lists of different lengths cannot become one tensor: {names}",
        "pad or cut the samples of a batch to one length (padding=True, truncation=True, "
        "pad_sequence in the collate_fn), or correct the sample that has another length",
    ),
    cause(
        "tensor-shape",
        r"([Ff]ound input variables with inconsistent numbers of samples: [^\n]{1,60})"
        r"|(All arrays must be of the same length)"
        r"|(Length of values \(\d{1,12}\) does not match length of index \(\d{1,12}\))"
        r"|(Length mismatch: Expected axis has [^\n]{1,80})|(Size mismatch between tensors)"
        r"|(expected length \d{1,12} but got length \d{1,12})"
        r"|(len\([\w.]{1,40}\)=\d{1,12}, len\([\w.]{1,40}\)=\d{1,12})",
        "lists or columns that belong together have different lengths: {names}",
        "print both lengths: one was filtered, cut or extended without the other, a function gives "
        "one value for a whole batch, or a file is of another version; make them from the same "
        "rows",
    ),
    cause(
        "tensor-shape",
        r"(upper bound and (?:larger|lower) bound inconsistent with step sign)"
        r"|(Trying to create tensor with negative dimension -\d{1,12})"
        r"|(negative dimensions are not allowed)|(selected index k out of range)"
        r"|(start \(-?\d{1,12}\) \+ length \(\d{1,12}\) exceeds dimension size \(\d{1,12}\))"
        r"|(cannot sample n_sample > prob_dist)|([Ss]ample larger than population)"
        r"|(Cannot take a larger sample than population)|(low >= high)"
        r"|(random_ expects 'from' to be less than 'to')"
        r"|(split_with_sizes expects split_sizes to sum exactly to \d{1,12})"
        r"|(Sum of input lengths does not equal the length of the input dataset)"
        r"|(Expected reduction dim [^\n]{0,20}(?:non-zero size|input\.numel\(\) == 0))"
        r"|(cannot reshape tensor of 0 elements)|(Length of all samples has to be greater than 0)"
        r"|(Expected positive integer total_steps, but got -?\d{1,12})"
        r"|(Expected (?:input|target)_lengths to have value at most [^\n]{1,40}?)(?: \(|$)",
        "a size, length or count is negative or larger than its data: {names}",
        "print it in the script's line in the traceback, with where it comes from: a sample that "
        "is empty or too short, a crop, k or split of the configuration that is larger than the "
        "data, or a length that is NaN or has overflowed",
    ),
    cause(
        "tensor-type",
        r"Error: (pic should be [^\n]{1,80}|(?:img|image) should be [^\n]{1,80}"
        r"|[Tt]ensor is not a torch image|Cannot handle this data type: [^\n]{1,40})",
        "a transform of images got another kind of image than it takes: {names}",
        "order the transforms: those for PIL images before ToTensor, Normalize after it; give "
        "Image.fromarray an array of uint8 with the channels last",
    ),
    cause(
        "tensor-type",
        r"Object of type (\w{1,40}) is not JSON serializable",
        "the script writes a value as JSON that has no form there: {names}",
        "convert it before: int(), float() or item() for numbers of NumPy and torch, tolist() for "
        "arrays, str() for paths and objects",
    ),
    cause(
        "index",
        r"Error: [^\n]{0,20}[Ii]ndex (-?\d{1,12} is out of bounds for (?:dimension|axis|dim) "
        r"(?:\d{1,3} )?with size (?!0\b)\d{1,12})",
        "an index is larger than an array: {names}",
        "compare them: labels that begin with 1, ids of another vocabulary or data set, lists of "
        "different length",
    ),
    cause(
        "index",
        r"Please ensure that all indices in 'edge_index' (point to [^\n]{1,100})",
        "an edge of a graph names a node that the graph does not have: {names}",
        "number the nodes of each graph from 0 without gaps, also after a filter (subgraph, or a "
        "table from the old numbers to the new ones), and set num_nodes where nodes have no "
        "features",
    ),
    cause(
        "tensor-type",
        r"(`\w{1,40}\.propagate` only supports [^\n]{1,140})",
        "a layer for graphs got edges in another form than it takes: {names}",
        "make edge_index one LongTensor of shape [2, edges]: torch.stack of the two lists, long(), "
        "t(); where it worked before, install the torch_geometric that the script was written for",
    ),
    cause(
        "index",
        r"index out of range (?:in self|at /)|Assertion `(?:cur_target|t|target) >= 0 &&"
        r"|Token id out of range|Target (-?\d{1,12}) is out of bounds"
        r"|Class values must be smaller than num_classes()"
        r"|Assertion `srcIndex <",
        "an index is out of range: a token beyond the vocabulary, or a label beyond the classes",
        "compare the tokenizer's size with the model's embeddings (resize_token_embeddings), and "
        "the labels with the number of classes",
    ),
    cause(
        "nan-loss",
        rf"(?:Error|Exception): ?[^\n]{{0,80}}\b(?:{_TRAINED}\b[^\n]{{0,60}}\b(?:{_NAN}|[Ii]nf)"
        rf"|{_NAN}\b[^\n]{{0,60}}\b{_TRAINED})\b"
        r"|[Ll]oss is ([Nn]a[Nn]|[Ii]nf)[^\n]{0,20}(?:[Ss]top|[Ee]xit|[Aa]bort)"
        r"|[Ff]ound (?:NaN|Inf|nan|inf)[^\n]{0,30}"
        r"(?:loss|grad)[^\n]{0,60}|(?:non-finite|not finite)[^\n]{0,40}(?:loss|grad)[^\n]{0,40}"
        r"|detected (?:inf or nan|nan or inf|NaN)[^\n]{0,60}|[Nn]an in summary histogram"
        r"|Function '\w{1,100}' returned (nan) values in its"
        r"|inconsistent between workers[\s\S]{0,400}?= {1,4}(nan)\b",
        "the loss, a gradient or an output is not a finite number, and the script stopped",
        "use a smaller learning rate, more warm-up, clipped gradients or bf16; look at the batch "
        "of that step",
    ),
    cause(
        "nan-loss",
        r"Error: (Input (?:\w{1,10} )?contains (?:NaN|infinity)|probability tensor contains either"
        r"|matrix contains invalid numeric entries|cost matrix is infeasible"
        r"|normal expects all elements of std >= 0"
        r"|all elements of (?:input|target) should be between 0 and 1)"
        r"|Assertion `(input_val >= zero && input_val <= one)`"
        r"|(satisfy the constraint [\w(), .=]{1,60}), but found invalid values:[^\n]{0,40}\n?"
        r"[^\n]{0,200}(?:nan|inf)\b",
        "a computation got values that are not finite numbers: {names}",
        "see in which step the first NaN appears (torch.autograd.set_detect_anomaly); use a "
        "smaller learning rate, clipped gradients or bf16, and look at the data; a loss of "
        "probabilities (BCELoss) needs a sigmoid before it, or BCEWithLogitsLoss",
    ),
    cause(
        "matrix",
        r"LinAlgError: ([^\n]{1,160})"
        r"|((?:svd|cholesky|symeig|lu|qr|inverse|geqrf|syevd?)_(?:cuda|cpu): [^\n]{1,120})"
        r"|Error: ([^\n]{0,60}(?:(?:did not|failed to) converge|singular matrix|not positive"
        r"[ -]definite|matrix is singular|factorization could not be completed)[^\n]{0,60})",
        "a matrix cannot be decomposed or inverted: {names}",
        "look for NaN in it; add a small value to its diagonal, or compute in float64",
    ),
    cause(
        "tensor-shape",
        r"TorchRuntimeError: (?:Failed running|Dynamo failed to run FX node)[^\n]{0,4000}"
        r"(?:\n|: got )([^\n]{1,200})",
        "torch.compile traced an operation that does not take its tensors: {names}",
        "compare their shapes, types and devices at the script's line below `from user code`; "
        "TORCHDYNAMO_DISABLE=1 in run.env shows the same error without the compiler",
    ),
)
"""In the order in which they are shown."""
