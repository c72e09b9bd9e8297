"""Causes of failed jobs in frameworks: DeepSpeed, FSDP, Lightning, Hugging Face, JAX, data loaders.

Sources: texts of tests/fixtures/real, and the messages in the code of these frameworks.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

FRAMEWORK_CAUSES = (
    cause(
        "batch-size",
        r"train_batch_size is not equal to|Either train_batch_size or train_micro_batch_size"
        r"|((?:Train batch size|Micro batch size per gpu|Gradient accumulation steps): \S{1,12} "
        r"has to be greater than 0)"
        r"|((?i:world[ _]size|number of (?:gpus|processes|ranks)|batch[ _]size)[^\n]{0,60}"
        r"(?:not|must be) (?:evenly |exactly )?(?:divisible by|a multiple of)[^\n]{0,80})"
        r"|((?i:num_layers|number of layers|num_attention_heads|hidden_size|micro.?batch\w{0,9}"
        r"|data parallel size)[^\n]{0,60}divisible by[^\n]{0,80})"
        r"|AssertionError: (\d{1,9} is not divisible by \d{1,9})"
        r"|Error: ([^\n]{1,100} (?:should|must) be divisible by (?:the )?tensor parallel size"
        r"[^\n]{0,20})",
        "the batch size, or the number of ranks, does not fit the other sizes of the training: "
        "{names}",
        "make the total batch size the batch size of a rank x accumulation steps x ranks, the "
        "number of ranks a multiple of tensor x pipeline parallelism, and the attention heads, "
        "sizes of layers and, for sequence parallelism, the padded lengths multiples of the tensor "
        "parallelism; a product with 1 rank means that the script did not "
        "initialise its process group before",
    ),
    cause(
        "gpu-memory",
        r"No executable batch size found, reached zero",
        "not even a batch of one sample fits into the GPU's memory",
        "use shorter samples, gradient checkpointing, bf16, adapters (LoRA) or sharding (FSDP, "
        "ZeRO), or a larger accelerator",
    ),
    cause(
        "gpu-memory",
        r"(No available memory for the cache blocks)",
        "vLLM has no room for its cache after it has loaded the model: {names}",
        "raise gpu_memory_utilization if nothing else uses the GPU; otherwise shorten "
        "max_model_len, quantize the model, or use more GPUs (tensor_parallel_size) or a "
        "larger one",
    ),
    cause(
        "gpu-memory",
        r"(Free memory on device [^\n]{0,60}less than desired GPU memory utilization"
        r"(?: \([^)\n]{1,40}\))?)",
        "vLLM starts with less free memory of the GPU than it is set to take: {names}",
        "end other processes on the GPU (nvidia-smi names them), also those of an earlier job, or "
        "lower gpu_memory_utilization; beside a training on the same GPU, count its memory, too",
    ),
    cause(
        "extension",
        r"fatal error: (Python\.h): No such file",
        "a package, such as Triton, compiles code in the job, and Python's headers are missing: "
        "{names}",
        "install the headers of the image's Python (image.apt: [python3-dev]), or use an "
        "image.base whose Python has them",
    ),
    cause(
        "extension",
        r"nvcc fatal {1,4}: (Unsupported gpu architecture '[^'\n]{1,30}')",
        "the CUDA toolkit of the image does not know the GPU for which code is compiled: {names}",
        "use an image.base with a newer toolkit of torch's CUDA (compute_80 needs CUDA 11, 89 and "
        "90 need 11.8, 100 and 120 need 12.8); an architecture that CUDA has dropped must be left "
        "out of TORCH_CUDA_ARCH_LIST or of the package's setup.py",
    ),
    cause(
        "extension",
        r"unable to compile cuda/cpp extensions|mismatches the version that was used to compile"
        r"|CUDA_HOME (?:environment variable is not set|does not exist)"
        r"|Error building extension '(\w{1,60})'|Ninja is required to load"
        r"|Command '\['ninja'[^\n]{0,40}returned non-zero|Failed to find C compiler"
        r"|Command '\['(?:which|where)', '(?:cl|(?:c|g|clang)\+\+|gcc|nvcc)'"
        r"|Command '\[?'?(?:[\w./-]{0,100}/)?((?:g|c|clang)\+\+|gcc|clang|nvcc)['\s]"
        r"|error: command '(?:[\w./-]{0,100}/)?((?:\w{1,30}-)*(?:gcc|[cg]\+\+|clang|nvcc"
        r"|cc))' failed"
        r"|ninja: build stopped|nvlink error|collect2: error"
        r"|fatal error: ((?!Python\.h)[\w./]{1,80}\.(?:h|cuh|hpp)): No such file"
        r"|(nvcc fatal[^\n]{1,120})",
        "code of a package could not be compiled in the job: {names}",
        "use an image.base that has compilers, ninja and the CUDA toolkit (a `devel` image) of "
        "torch's own version, or install a build of the package while the image is built",
    ),
    cause(
        "checkpoint-mismatch",
        r"torch\.Size\(\[0\]\) from checkpoint"
        r"|loaded_weight[\s\S]{0,600}?exceeds dimension size \(0\)",
        "the checkpoint has empty weights: its ranks saved sharded parameters without gathering "
        "them",
        "save whole weights: for DeepSpeed ZeRO-3 stage3_gather_16bit_weights_on_model_save, or "
        "convert its checkpoint with zero_to_fp32.py; for FSDP a full state dict",
    ),
    cause(
        "checkpoint-mismatch",
        r"Error\(s\) in loading state_dict for (\w{1,80})|loaded state dict (?:contains a parameter"
        r" group that doesn't match|has a different number of parameter groups)"
        r"|Loading a checkpoint for (MP=\d{1,4} but world size is \d{1,6})"
        r"|KeyError: '(?:unexpected|missing) key \"([^\"\n]{1,120})\" in state_dict"
        r"|Missing key in checkpoint state_dict|Key \S{1,200} not found in checkpoint"
        r"|RuntimeError: Keys '[^'\n]{1,2000}' are missing"
        r"|checkpoint being loaded used a DP world size|DP world size [^\n]{0,80}checkpoint"
        r"|KeyError: \W?MetadataIndex\(fqn=(\S{1,160}?),|[Ss]hape mismatch[^\n]{0,40} for loaded"
        r"|, in \w{0,30}load_(?:\w{1,20}_)?(?:state_dict|params?|weights|checkpoint|ckpt)\w{0,12}\n"
        r"[^\n]{0,120}?\b\w{1,30}\[\w{1,30}\][^\n]{0,80}\n(?:[^\n\w]{1,200}\n)?[^\n]{0,12}\b"
        r"KeyError: '([\w.]{1,120})'"
        r"|size mismatch for (\S{1,120}): copying a param|[Mm]issing (?:keys?|optimizer state"
        r"|parameters?|weights?)\b[^\n]{0,120}(?:in|from) (?:the )?(?:checkpoint|state[ _]dict)\b",
        "a checkpoint does not fit the model, the optimizer or the number of ranks: {names}",
        "load it into the same model with the same wrappers (DDP, FSDP, compile) and parallel "
        "sizes; convert it for other sizes with the framework's tool",
    ),
    cause(
        "checkpoint-mismatch",
        r"The state of _OptimStateKey\([^\n]{1,3000}is empty",
        "parameters have no optimizer state to save or load: they were never trained",
        "freeze them (requires_grad=False) before FSDP wraps them and omit them from the "
        "optimizer, or use them in each step; otherwise save and load the weights alone",
    ),
    cause(
        "checkpoint-mismatch",
        r"(?:(?:checkpoint|ckpt|state_dict|snapshot|loaded)\w{0,12}|, in \w{0,30}(?:load|resume"
        r"|restore)_(?:\w{1,20}_)?(?:checkpoint|ckpt|states?|state_dict|weights|snapshot)\w{0,12}\n"
        r"[^\n]{0,120}?\b\w{1,30})\[[\"']\w{1,60}[\"']\][^\n]{0,80}\n"
        r"(?:[^\n\w]{1,200}\n)?[^\n]{0,12}\bKeyError: ('\w{1,60}')",
        "the checkpoint does not have an entry that the script loads: {names}",
        "load only the entries that exist: published weights often have no optimizer, scheduler or "
        "epoch; "
        "begin a new training from the weights, or resume from a checkpoint of the same script",
    ),
    cause(
        "checkpoint-mismatch",
        r"/(?:torch/optim|apex/optimizers|deepspeed/ops/adam)/\w{1,40}\.py\", line \d[^\n]{0,80}"
        r"\n[^\n]{0,200}\n(?:[^\n\w]{1,200}\n)?[^\n]{0,20}RuntimeError: [^\n]{0,80}"
        r"(?:size of tensor a|output with shape|must be the same size)",
        "the state of the optimizer does not fit the parameters, as after a resume with another "
        "number of ranks, another sharding or another model",
        "resume with the ranks and the sharding with which it was saved, save it in a form for any "
        "number of ranks (torch.distributed.checkpoint, DeepSpeed's universal checkpoint), or load "
        "the weights without the optimizer",
    ),
    cause(
        "checkpoint-mismatch",
        r"(Unable to load \w{1,20} from checkpoint [^\n,]{1,120}), exiting",
        "the checkpoint does not have what a training resumes from: {names}",
        "load the weights only, with Megatron's --no-load-optim, --no-load-rng or --finetune",
    ),
    cause(
        "checkpoint-write",
        r"PytorchStreamWriter failed|inline_container\.cc[^\n]{0,60}unexpected pos"
        r"|Error while serializing: I/?o ?[Ee]rror(?![^\n]{0,200}(?:code: "
        r"|\(os error )(?:1|2|13|17|2[01]|30)\b)"
        r"|write\(\): fd \d{1,6} failed with",
        "a checkpoint could not be written, usually because the disk is full",
        "free disk space or raise workers.disk; keep fewer checkpoints; see the error beside it",
    ),
    cause(
        "checkpoint-write",
        r"Some tensors share memory,[^\n]{0,100}?:\s{1,9}(\[\{[^\n]{1,160}?\}\])",
        "safetensors does not write tensors that share their memory, such as tied weights: {names}",
        "save with save_safetensors=False (TrainingArguments), safe_serialization=False or "
        "safetensors.torch.save_model; in your own model class name tied weights in "
        "_tied_weights_keys, and clone() other copies",
    ),
    cause(
        "checkpoint-write",
        r"RuntimeError: File (\S{1,300}) cannot be opened"
        r"|Parent directory (\S{1,300}) does not exist",
        "a checkpoint could not be written: {names}",
        "create its folder before (os.makedirs with exist_ok=True), in the outputs or where the "
        "job's user may write; a full disk gives this, too",
    ),
    cause(
        "fsdp",
        r"[Mm]ust flatten tensors (?:with|on)|_convert_all_state_info[\s\S]{0,200}?AssertionError"
        r"|Cannot flatten integer dtype|FSDP expects uniform"
        r"|FlatParameter[^\n]{0,100}(?:same|uniform)"
        r"|[Ii]nconsistent (?:compute device|dtype|`?requires_grad)",
        "FSDP found parameters or optimizer states of different types in one unit",
        "give all parameters of a wrapped module the same dtype, device and requires_grad before "
        "FSDP wraps them, with use_orig_params=True; optimizers with 8-bit states need FSDP2",
    ),
    cause(
        "fsdp",
        r"Could not find the transformer layer class (?!to wrap)`?(\w{1,80})"
        r"|Could not find the transformer layer class to wrap",
        "the model has no layer of the class that FSDP shall wrap: {names}",
        "name the class of this model's own layers, as print(model) shows it, in "
        "fsdp_transformer_layer_cls_to_wrap: of fsdp_config, or of accelerate's configuration file",
    ),
    cause(
        "fsdp",
        r"Cannot writeback when the (?:parameter|gradient) shape changes",
        "FSDP found a parameter with another shape than it keeps for it, as after an operation on "
        "the whole parameter outside of its module's forward()",
        "use use_orig_params=False or FSDP2 (fully_shard), not NO_SHARD on one GPU; with "
        "use_orig_params=True let no code replace .data or .grad, tie or resize weights after FSDP "
        "has wrapped them",
    ),
    cause(
        "device-map",
        r"[Cc]annot copy out of meta tensor|NotImplementedError: [^\n]{0,80}meta tensor",
        "code moves or reads parameters without data, on the device meta",
        "omit .to() and .cuda() for a model loaded with device_map or low_cpu_mem_usage, and free "
        "memory so that none is offloaded; give a model built on meta its room with "
        "to_empty(device=...) and then its weights; under ZeRO-3 use "
        "deepspeed.zero.GatheredParameters; where code of a package does this, update torch, "
        "accelerate and transformers together",
    ),
    cause(
        "sharded-tensor",
        r"parameter fetch queue|still have inflight params|got mixed torch\.Tensor and DTensor"
        r"|param\.ds_status == ZeroParamStatus|pop from an empty deque|ds_status[^\n]{0,20}INFLIGHT"
        r"|assert len\(set\(t\.dtype for t in tensors\)\) == 1"
        r"|'status': '(?:INFLIGHT|NOT_AVAILABLE)'[^\n]{0,200}'ds_numel'"
        r"|'?weight'? (?:must be 2-D|should have at least \w{1,6} dim)"
        r"|linear\([^\n]{0,200}\n(?:[ ~^]{0,200}\n)?RuntimeError: mat2 must be a matrix, got 1-D"
        r"|DTensor does not support|data is not allocated yet"
        r"|does not have a sharding strategy registered"
        r"|size of tensor [ab] \(0\) must match the size of tensor [ab] \(\d{3,12}\)"
        r"|(?:current model is|which has shape) torch\.Size\(\[0\]\)"
        r"|current state is TrainingState\.|`_is_root` should not have been set",
        "the script uses parameters that are sharded, or not loaded yet, as if they were whole, "
        "or in another order than before",
        "run the same modules in the same order on all ranks; work on whole parameters in the "
        "framework's own context (deepspeed.zero.GatheredParameters, "
        "summon_full_params, full_tensor()); update torch, accelerate and transformers together",
    ),
    cause(
        "deepspeed-config",
        r"DeepSpeed config values that mismatch|DeepSpeed(?:Zero)?\w{0,20}Config\n[^\n]{1,100}\n"
        r"|fp16 and bf16 modes? cannot be simultaneously|[Bb]oth `?(?:fp16|bf16)`? and"
        r"|DeepSpeed[^\n]{0,80}(?:config|json)[^\n]{0,60}(?:invalid|not (?:found|exist|valid))"
        r"|DeepSpeedConfigError: |deepspeed\.elasticity\.config\.Elasticity\w{1,40}: "
        r"|async_io (?:requires|op is not)|ZeRO[^\n]{0,60}is (?:incompatible|not supported) with",
        "DeepSpeed's configuration does not fit the training or this version of DeepSpeed",
        "correct the key that the message names in DeepSpeed's configuration; with transformers, "
        'write "auto" for the values that its arguments set',
    ),
    cause(
        "deepspeed",
        r"no_sync context manager is incompatible with gradient partitioning logic of ZeRO",
        "code accumulates gradients without an exchange between ranks (no_sync), which ZeRO-2 and "
        "ZeRO-3 do not allow",
        "install newer versions of transformers, accelerate and DeepSpeed together in "
        "image.python, omit no_sync(), let DeepSpeed accumulate (gradient_accumulation_steps), or "
        "use ZeRO-1",
    ),
    cause(
        "deepspeed-config",
        r"timer has (?:already been started|not been started|not started)|timer is not started",
        "a timer of DeepSpeed or Megatron was started or stopped twice, as two threads or steps "
        "used it",
        "set wall_clock_breakdown to false in DeepSpeed's configuration, and start one rank for "
        "each GPU: DataParallel uses one engine in several threads",
    ),
    cause(
        "device-map",
        r"device_map[^\n]{0,60}in any distributed mode"
        r"|(?:ZeRO|Zero)-3[^\n]{0,40}not compatible[^\n]{0,80}(?:device_map|low_cpu_mem_usage)",
        "a model was loaded with a device_map, which several ranks cannot train",
        "load it without device_map, or onto the rank's own GPU: device_map={{'': LOCAL_RANK}}; "
        "use FSDP or DeepSpeed if one GPU is too small",
    ),
    cause(
        "device-map",
        r"had weights offloaded to the disk|We need an `offload_dir` to dispatch"
        r"|Some modules are dispatched on the CPU or the disk",
        "the model does not fit into the GPUs' free memory, so device_map puts parts of it on the "
        "CPU or a disk",
        "free the GPUs' memory, or use more or larger GPUs or a smaller type (bf16, 4 bits): such "
        "parts are slow, and cannot be trained; to train a large model on several ranks use FSDP "
        "or DeepSpeed ZeRO-3 without device_map; offload_folder suffices for inference",
    ),
    cause(
        "devices",
        r"device_ids and output_device arguments only work with[^\n]{0,200}type='cpu'",
        "DistributedDataParallel got device_ids for a model on the CPU",
        "omit device_ids where the model is on the CPU, or move the model to the rank's GPU first",
    ),
    cause(
        "compile",
        r"torch/_dynamo/[^\n]{1,200}\n(?:[^\n]{0,300}\n){1,12}?[^\n]{0,200}/parallel/data_parallel\.py"
        r"[\s\S]{0,4000}?TorchRuntimeError",
        "torch.compile could not compile a model inside nn.DataParallel",
        "use DistributedDataParallel in its place, with one rank for each GPU (torchrun), which "
        "torch.compile supports, or leave torch.compile out",
    ),
    cause(
        "devices",
        r"Expected all tensors to be on the same device|Input tensor is not an XLA tensor"
        r"|must have its parameters and buffers on device|Expected (?:tensor|object)[^\n]{0,60}to "
        r"have the same (?:device|backend)|[Ee]xpected (?:object of )?(?:device|backend) (?:type )?"
        r"\w{1,8}(?::\d{1,3})? but got|(?:are|is) on CPU, but expected (?:them|it) to be on GPU"
        r"|not (?:at|on) the same device|on the same device as the indexed tensor"
        r"|arguments are located on different GPUs"
        r"|Input type \(torch\.cuda\.\w{1,20}\) and weight type \(torch\.(?!cuda)"
        r"|Input type \(torch\.(?!cuda)\w{1,20}\) and weight type \(torch\.cuda\."
        r"|Expected a '\w{1,8}' (?:generator )?device type for generator"
        r"|cannot be accessed from Triton"
        r"|can't convert [\w:]{1,12} (?:device type )?tensor to numpy"
        r"|[Ee]xpected an? (?:cuda|GPU|xpu|hip) (?:device|tensor)[^\n]{0,20} (?:got|found):? cpu"
        r"|[Ff]ound (?:at least )?two (?:different )?devices|Error: Not implemented on the CPU"
        r"|Error: (?:[^\n]{0,60}\b(?:must|should) be (?:a )?(?:on )?(?:the )?(?:CUDA|GPU)(?: tensor"
        r"|$)|(?:[Ee]xpected )?a? ?CUDA tensor (?:expected|but got))"
        r"|but (?:found|got) type torch\.cuda\.|type torch\.cuda\.\w{1,20} but (?:found|got)",
        "an operation got tensors of different devices, or of one that it cannot use",
        "move the model and each batch to the rank's device, and a tensor for NumPy to the CPU "
        "(.cpu()); torch.cuda.set_device(LOCAL_RANK) makes it the default device",
    ),
    cause(
        "devices",
        r"Attempting to deserialize object on (?:a )?CUDA device ?(\d{0,3})",
        "a checkpoint was written on a GPU that this process does not have: {names}",
        "load it with map_location='cpu' or the rank's own device; if the process has no GPU at "
        "all, request one with workers.accelerator",
    ),
    cause(
        "loss-scale",
        r"loss scale already at minimum|Minimum loss scale reached"
        r"|Attempting to unscale FP16 gradients"
        r"|reducing loss scale to 0\.0\b",
        "the gradients of a training in fp16 overflow, or its weights are in fp16 themselves",
        "use bf16, a smaller learning rate or clipped gradients, and keep the weights in fp32",
    ),
    cause(
        "reused-parameters",
        r"Expected to mark a variable ready only once",
        "a parameter's gradient was ready twice in one step, which DistributedDataParallel refuses",
        "use gradient checkpointing with use_reentrant=False, set find_unused_parameters=False, or "
        "DistributedDataParallel(..., static_graph=True)",
    ),
    cause(
        "checkpoint",
        r"in _rebuild_tensor\w{0,10}\n[^\n]{0,200}\n(?:[^\n\w]{1,200}\n)?[^\n]{0,30}"
        r"RuntimeError: ([^\n]{1,120})|(storage has wrong byte size: [^\n]{1,80})",
        "a checkpoint's file does not have all of its tensors' data: {names}",
        "load an earlier checkpoint, or download or write it again; let each rank write files of "
        "its own, and gather sharded weights before they are saved (FSDP: full state dict)",
    ),
    cause(
        "collate",
        r"activate truncation and/or padding",
        "the tokenized texts of a batch have different lengths, or a column has no numbers",
        "tokenize with truncation=True and a padding, also the labels "
        "(DataCollatorWithPadding, DataCollatorForSeq2Seq), and remove columns of text: "
        "map(..., remove_columns=...)",
    ),
    cause(
        "collate",
        r"stack expects each tensor to be equal size|batch must contain tensors, numpy arrays"
        r"|each element in list of batch should be of equal size"
        r"|Trying to resize storage that is not resizable",
        "the samples of a batch have different shapes, or are of a kind that cannot be joined",
        "pad, crop or resize them, or give the DataLoader a collate_fn",
    ),
    cause(
        "data-timeout",
        r"(?:DataLoader|Worker) timed out after (\d{1,9}) seconds",
        "a data loader did not deliver a batch in its time of {names} seconds",
        "read from a local disk (mode: copy), use more workers, or raise the DataLoader's timeout",
    ),
    cause(
        "pickle",
        r"/?(?:copy|torch/serialization|torch/jit/\w{1,30}|accelerate/utils/operations|dill/\w{1,30}"
        r"|dill/_\w{1,30}|cloudpickle/\w{1,30})\.py\", line \d{1,7}, in \w{1,40}\n[^\n]{0,200}\n"
        r"(?:[^\n\w]{1,200}\n)?[^\n]{0,40}Error: (?:[Cc](?:annot|an't) pickle "
        r"(?:local object )?'?([^'\n]{1,100})|(\w{1,60}) cannot be pickled)",
        "an object cannot be copied or saved, as pickle has no form for it: {names}",
        "copy or save state_dict() in place of the model, trainer or data set; leave out locks, "
        "generators, lambdas, process groups and results of torch.jit or torch.compile; make a "
        "copy (EMA) before the model is compiled, wrapped or prepared",
    ),
    cause(
        "start-method",
        r"Cannot re-initialize CUDA in forked subprocess|processes if CUDA is already initialized"
        r"|Runtime is already initialized\. Do not use the XLA",
        "a process was started after its parent process had used CUDA or XLA",
        "use CUDA neither in data sets nor before the processes start, or use the start method "
        "spawn (DataLoader: multiprocessing_context='spawn'); use XLA's device only in what each "
        "process runs",
    ),
    cause(
        "start-method",
        r"before the\s{1,40}current process has finished its bootstrapping phase",
        "a started process runs the script from its beginning, and so starts processes itself",
        "start them, and all else that only the first process does, below "
        "`if __name__ == '__main__':`",
    ),
    cause(
        "start-method",
        r"[Cc]an't (?:pickle|get) (?:local object '?([^'\n]{1,120})|<([^>\n]{1,120})"
        r"|(\w{1,40}) objects)|(?:^|[\s.])(\w{1,60}) cannot be pickled"
        r"|[Cc]annot pickle '([^'\n]{1,80})' object",
        "an object that a started process needs cannot be copied with pickle: {names}",
        "define functions and classes at the top of a module, not inside a function and without "
        "lambda; let each process make its own locks, files and connections; without processes: "
        "num_workers=0, Lightning's ddp in place of ddp_spawn; to copy or save a model, use its "
        "state_dict()",
    ),
    cause(
        "start-method",
        r"(?:popen_(?:spawn|forkserver)|multiprocessing/spawn)[\s\S]{0,600}?"
        r"(?:EOFError|pickle data was truncated)",
        "a process of Python ended, or could not copy the state, while it started another process",
        "see its own error, which stands before or in the log of the same rank; give processes "
        "only objects that pickle can copy, and start them below `if __name__ == '__main__':`",
    ),
    cause(
        "start-method",
        r"daemonic processes are not allowed to have children",
        "a daemon process of multiprocessing, such as a worker of a pool or data loader, starts "
        "processes of its own, which Python does not allow",
        "use num_workers=0 or no pool inside it, threads, or start it without daemon: "
        "torch.multiprocessing.spawn(daemon=False), concurrent.futures.ProcessPoolExecutor",
    ),
    cause(
        "hub-offline",
        r"[Ww]e couldn't connect to '?https?://|[Cc]ouldn't reach [^\n]{1,120} on the Hub"
        r"|OfflineModeIsEnabled|IncompleteSnapshotError|CachedRepoTreeNotFoundError"
        r"|outgoing traffic has been disabled|LocalEntryNotFoundError"
        r"|Distant resource does not seem to be on"
        r"|cannot find the (?:requested files|appropriate snapshot folder)",
        "a model or data set is not in the cache, and its hub cannot be reached",
        "give the job internet access, or copy the files to a bucket and read them from inputs; "
        "unset HF_HUB_OFFLINE where there is a network",
    ),
    cause(
        "hub-missing",
        r"Error no file named [^\n]{1,240}? found\s{1,3}in\s{1,3}directory\s{1,3}(\S{1,200})"
        r"|Error no file named()",
        "a model's folder has no weights under the names that the library looks for: {names}",
        "name the folder with the weights, such as the last checkpoint-NUMBER, or download it "
        "again; convert what ZeRO-3 or FSDP saved in parts (zero_to_fp32.py, accelerate "
        "merge-weights), and load an adapter with PEFT onto its base model",
    ),
    cause(
        "hub-missing",
        r"(?<!raise TypeError\(\)\n)(?m:^)TypeError: not a string$",
        "SentencePiece got None as the file of a tokenizer",
        "the model's repository or folder has no tokenizer.model or spiece.model: use the folder "
        "of the base model's tokenizer, or the fast tokenizer (use_fast=True)",
    ),
    cause(
        "hub-missing",
        r"404 Client Error: Not Found for url: (https://huggingface\.co/\S{1,160})"
        r"|RepositoryNotFoundError|DatasetNotFoundError|RevisionNotFoundError"
        r"|(?<!Local)EntryNotFoundError|errors\.BucketNotFoundError|HFValidationError"
        r"|errors\.(?:RevisionResolution|HfUri)Error"
        r"|(\S{1,120}) is not a local folder and is not a valid model identifier"
        r"|does not appear to have a file named ([\w./-]{1,80})"
        r"|Couldn't find (?:a dataset script|file|any data file) at (\S{1,200})"
        r"|No \(supported\) data files found in (\S{1,200})"
        r"|[Cc]an't load (?:the )?(?:tokenizer|model|config\w{0,9}|image processor) for "
        r"'([^'\n]{1,120})'",
        "the hub or the folder does not have this model, data set or file: {names}",
        "correct its name; for a private one set the secret HF_TOKEN in run.env; a local folder "
        "must be in image.source or in inputs",
    ),
    cause(
        "hub-version",
        r"[Dd]ataset scripts are no longer supported|Transformers does not recognize this arch"
        r"|pass the argument `?trust_remote_code=True|Tokenizer class (\w{1,60}) does not exist"
        r"|requires you to execute the \w{1,40} (?:file|script) in"
        r"|`rope_scaling` must be a dictionary"
        r"|did not match any variant of untagged enum|Couldn't instantiate the backend tokenizer"
        r"|Unrecognized model in|Unrecognized configuration class"
        r"|Error: ([^\n]{1,120}) is not supported (?:in|by) your (?:current )?[^\n]{0,30}version",
        "this version of a library does not support the model or data set: {names}",
        "install the version that its page names in image.python; trust_remote_code=True lets it "
        "run code of its own",
    ),
    cause(
        "package-versions",
        r"(?:module|cannot import name) '[^(\n]{1,160} \(consider renaming ('[^'\n]{1,200}')"
        r"|cannot import name ('\w{1,80}' from '[\w.]{1,120}') \(unknown location\)"
        r"|(module '[\w.]{1,60}' has no attribute '(?:__(?:version|file|path)__|ndarray|array"
        r"|[Tt]ensor)')"
        r"|(partially initialized module '[\w.]{1,60}' has no attribute '\w{1,60}')"
        r"|cannot import name ('\w{1,80}' from partially initialized module '[\w.]{1,120}')",
        "a package is not completely installed, or a file or folder of its name hides it: {names}",
        "look for a file or folder of that name beside the script, in image.source or on "
        "PYTHONPATH, and rename it; otherwise install the package again, or the version that the "
        "script was written for; modules that import each other need an import inside a function",
    ),
    cause(
        "package-versions",
        r"cannot import name (?!'(?:_C|_ext|csrc)')('\w{1,80}'(?: from '[\w.]{1,120}')?)",
        "the versions of packages do not fit each other: {names}",
        "install versions that belong together in image.python; a file of the source with the name "
        "of a package hides it",
    ),
    cause(
        "grpc-peer",
        r"Additional GRPC error information from remote target|grpc[\w.]{0,40}[^\n]{0,80}"
        r"(?:DEADLINE_EXCEEDED|UNAVAILABLE)|(?<!Credential)(?<!Actor)UnavailableError(?:: |'>, )"
        r"|rendezvous\.cc:\d{1,5}\] This "
        r"thread "
        r"has been waiting|Failed to meet rendezvous '|Failed to connect to remote server at "
        r"address"
        r"|[Ee]xpected \d{1,5} threads to join the rendezvous"
        r"|Collective ops is aborted by: (?!Error invoking NCCL)",
        "TensorFlow or JAX waited in vain for another task of the job",
        "see the logs of the other replicas for the first failure; all tasks must start, reach "
        "each "
        "other's addresses (TF_CONFIG, the coordinator) and run the same operations",
    ),
    cause(
        "launcher",
        r"(jax\.distributed\.initialize\(\) must be called before[^\n]{0,80})"
        r"|Error: (coordinator_address should be defined|Number of processes must be defined"
        r"|The process id of the current process must be defined)"
        r"|OCDBT database[^\n]{0,400}?(Configuration mismatch on \w{1,20})",
        "JAX's processes do not know of each other: {names}",
        "call jax.distributed.initialize with the chief's address, the number of processes and the "
        "number of this one, as the first call of JAX in each process; without it each counts as "
        "process 0, and all write the same checkpoint",
    ),
    cause(
        "jax-peer",
        r"[Cc]oordination service[^\n]{0,200}(?:error|heartbeat|shut|unavailable|unhealthy|polled)"
        r"|(?:tasks are unhealthy|tasks have crashed|stopped sending heartbeats)"
        r"|DEADLINE_EXCEEDED: Barrier timed out|JAX distributed service detected fatal"
        r"|WatchTasks\w{0,9}\b[^\n]{0,60}: UNAVAILABLE"
        r"|Task with incarnation id \d{1,20} is not connected",
        "JAX's coordination service lost a process, or waited for one in vain",
        "see the logs of the other replicas for the first failure; all processes must call "
        "jax.distributed.initialize",
    ),
)
"""In the order in which they are shown."""
