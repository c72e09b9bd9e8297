"""Causes of failed jobs in frameworks: DeepSpeed, FSDP, Lightning, Hugging Face, JAX, data loaders.

Sources: texts of tests/fixtures/real, and the messages in the code of these frameworks.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

FRAMEWORK_CAUSES = (
    cause(
        "batch-size",
        r"train_batch_size is not equal to|Either train_batch_size or train_micro_batch_size"
        r"|((?i:world[ _]size|number of (?:gpus|processes|ranks)|batch[ _]size)[^\n]{0,60}"
        r"(?:not|must be) (?:evenly |exactly )?(?:divisible by|a multiple of)[^\n]{0,80})"
        r"|((?i:num_layers|number of layers|num_attention_heads|hidden_size|micro.?batch\w{0,9}"
        r"|data parallel size)[^\n]{0,60}divisible by[^\n]{0,80})",
        "the batch size, or the number of ranks, does not fit the other sizes of the training: "
        "{names}",
        "make the total batch size the batch size of a rank x accumulation steps x ranks, and the "
        "number of ranks a multiple of tensor x pipeline parallelism; a product with 1 rank means "
        "that the script did not initialise its process group before",
    ),
    cause(
        "extension",
        r"unable to compile cuda/cpp extensions|mismatches the version that was used to compile"
        r"|CUDA_HOME (?:environment variable is not set|does not exist)"
        r"|Error building extension '(\w{1,60})'|Ninja is required to load"
        r"|Command '\['ninja'[^\n]{0,40}returned non-zero|Failed to find C compiler"
        r"|Command '\[?'?(?:[\w./-]{0,100}/)?((?:g|c|clang)\+\+|gcc|clang|nvcc)['\s]"
        r"|ninja: build stopped|nvlink error|collect2: error"
        r"|fatal error: ([\w./]{1,80}\.(?:h|cuh|hpp)): No such file|(nvcc fatal[^\n]{1,120})",
        "code of a package could not be compiled in the job: {names}",
        "use an image.base that has compilers, ninja and the CUDA toolkit (a `devel` image) of "
        "torch's own version, or install a build of the package while the image is built",
    ),
    cause(
        "checkpoint-mismatch",
        r"Error\(s\) in loading state_dict for (\w{1,80})|loaded state dict (?:contains a parameter"
        r" group that doesn't match|has a different number of parameter groups)"
        r"|Missing key in checkpoint state_dict|Key \S{1,200} not found in checkpoint"
        r"|checkpoint being loaded used a DP world size|DP world size [^\n]{0,80}checkpoint"
        r"|KeyError: \W?MetadataIndex\(fqn=(\S{1,160}?),|[Ss]hape mismatch[^\n]{0,40} for loaded"
        r"|size mismatch for (\S{1,120}): copying a param",
        "a checkpoint does not fit the model, the optimizer or the number of ranks: {names}",
        "load it into the same model with the same wrappers (DDP, FSDP, compile) and parallel "
        "sizes; convert it for other sizes with the framework's tool",
    ),
    cause(
        "checkpoint-write",
        r"PytorchStreamWriter failed|inline_container\.cc[^\n]{0,60}unexpected pos"
        r"|Error while serializing: I/?o ?[Ee]rror",
        "a checkpoint could not be written, usually because the disk is full",
        "free disk space or raise workers.disk; keep fewer checkpoints; see the error beside it",
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
        "sharded-tensor",
        r"parameter fetch queue|still have inflight params|got mixed torch\.Tensor and DTensor"
        r"|param\.ds_status == ZeroParamStatus|pop from an empty deque|ds_status[^\n]{0,20}INFLIGHT"
        r"|'?weight'? (?:must be 2-D|should have at least \w{1,6} dim)"
        r"|[Cc]annot copy out of meta tensor|DTensor does not support|data is not allocated yet"
        r"|does not have a sharding strategy registered|Sharding propagation failed"
        r"|current state is TrainingState\.|`_is_root` should not have been set"
        r"|NotImplementedError: [^\n]{0,80}meta tensor",
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
        r"|async_io (?:requires|op is not)|ZeRO[^\n]{0,60}is (?:incompatible|not supported) with",
        "DeepSpeed's configuration does not fit the training or this version of DeepSpeed",
        "correct the key that the message names in DeepSpeed's configuration; with transformers, "
        'write "auto" for the values that its arguments set',
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
        "devices",
        r"Expected all tensors to be on the same device|Input tensor is not an XLA tensor"
        r"|must have its parameters and buffers on device",
        "an operation got tensors of different devices",
        "move the model and each batch to the rank's device",
    ),
    cause(
        "loss-scale",
        r"loss scale already at minimum|Attempting to unscale FP16 gradients",
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
        "collate",
        r"stack expects each tensor to be equal size|batch must contain tensors, numpy arrays"
        r"|each element in list of batch should be of equal size"
        r"|Trying to resize storage that is not resizable"
        r"|activate truncation and/or padding",
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
        "start-method",
        r"Cannot re-initialize CUDA in forked subprocess|processes if CUDA is already initialized"
        r"|before the\s{1,40}current process has finished its bootstrapping phase"
        r"|[Cc]an't (?:pickle|get) (?:local object|<|\w{1,40} objects)|cannot be pickled"
        r"|[Cc]annot pickle '([^'\n]{1,80})' object"
        r"|(?:popen_(?:spawn|forkserver)|multiprocessing/spawn)[\s\S]{0,600}?EOFError",
        "a process of Python could not be started with the state that it needs: {names}",
        "use no CUDA in data sets, or the start method spawn; give processes only objects that "
        "pickle can copy; start them below `if __name__ == '__main__':`",
    ),
    cause(
        "hub-offline",
        r"[Ww]e couldn't connect to '?https?://|[Cc]ouldn't reach [^\n]{1,120} on the Hub"
        r"|OfflineModeIsEnabled|outgoing traffic has been disabled|LocalEntryNotFoundError"
        r"|cannot find the (?:requested files|appropriate snapshot folder)",
        "a model or data set is not in the cache, and its hub cannot be reached",
        "give the job internet access, or copy the files to a bucket and read them from inputs; "
        "unset HF_HUB_OFFLINE where there is a network",
    ),
    cause(
        "hub-missing",
        r"404 Client Error: Not Found for url: (https://huggingface\.co/\S{1,160})"
        r"|RepositoryNotFoundError|DatasetNotFoundError|RevisionNotFoundError"
        r"|(?<!Local)EntryNotFoundError|HFValidationError"
        r"|(\S{1,120}) is not a local folder and is not a valid model identifier"
        r"|does not appear to have a file named ([\w./-]{1,80})"
        r"|Couldn't find (?:a dataset script|file|any data file) at (\S{1,200})"
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
        r"|did not match any variant of untagged enum|Couldn't instantiate the backend tokenizer"
        r"|Unrecognized model in|Unrecognized configuration class",
        "this version of a library does not support the model or data set: {names}",
        "install the version that its page names in image.python; trust_remote_code=True lets it "
        "run code of its own",
    ),
    cause(
        "package-versions",
        r"cannot import name ('\w{1,80}'(?: from '[\w.]{1,120}')?)",
        "the versions of packages do not fit each other: {names}",
        "install versions that belong together in image.python; a file of the source with the name "
        "of a package hides it",
    ),
    cause(
        "grpc-peer",
        r"Additional GRPC error information from remote target|grpc[\w.]{0,40}[^\n]{0,80}"
        r"(?:DEADLINE_EXCEEDED|UNAVAILABLE)|UnavailableError: |rendezvous\.cc:\d{1,5}\] This "
        r"thread "
        r"has been waiting|Failed to meet rendezvous '|Failed to connect to remote server at "
        r"address"
        r"|[Ee]xpected \d{1,5} threads to join the rendezvous",
        "TensorFlow or JAX waited in vain for another task of the job",
        "see the logs of the other replicas for the first failure; all tasks must start, reach "
        "each "
        "other's addresses (TF_CONFIG, the coordinator) and run the same operations",
    ),
    cause(
        "jax-peer",
        r"[Cc]oordination service[^\n]{0,200}(?:error|heartbeat|shut|unavailable|unhealthy|polled)"
        r"|(?:tasks are unhealthy|tasks have crashed|stopped sending heartbeats)"
        r"|DEADLINE_EXCEEDED: Barrier timed out|JAX distributed service detected fatal",
        "JAX's coordination service lost a process, or waited for one in vain",
        "see the logs of the other replicas for the first failure; all processes must call "
        "jax.distributed.initialize",
    ),
)
"""In the order in which they are shown."""

GENERAL_FRAMEWORK_CAUSES = (
    cause(
        "dataset",
        r"DatasetGenerationError",
        "a data set could not be made from its files",
        "see the exception before it in the log: a file that cannot be read, columns that differ, "
        "or a full disk",
    ),
    cause(
        "data-worker",
        r"Caught (\w{1,80}) in DataLoader worker process",
        "the data set raised an exception in a worker process of a data loader: {names}",
        "see its `Original Traceback` in the log; num_workers=0 raises it in the script itself",
    ),
    cause(
        "rendezvous-lost",
        r"Rendezvous(?:Closed|Connection|State|Graceful\w{1,9})Error|Error waiting on exit barrier"
        r"|Stop_waiting response is expected|recvValue failed on"
        r"|possible application crash on rank \d{1,6} or a network|waitForInput, poolFD failed"
        r"|\[c10d\] (?:send|recv)\w{1,9} failed on",
        "torchrun's rendezvous was closed, or cannot be reached, because another node ended or "
        "never listened",
        "see the logs of the other nodes for the first failure, above all that of worker-0",
    ),
    cause(
        "lightning",
        r"MisconfigurationException: ([^\n]{1,200})|(DeadLock detected from rank: \d{1,6})",
        "Lightning stopped the training: {names}",
        "for a setting, correct the Trainer's arguments: devices and num_nodes are the ranks of a "
        "node and the nodes; for a deadlock, see the rank's exception that is printed with it",
    ),
    cause(
        "signal",
        r"SignalException: Process \d{1,9} got signal: (\d{1,2})",
        "torchrun was ended by a signal and did not fail itself: signal {names}",
        "find out who sent it: signal 15 comes from a user, a time limit or a preemption, signal 1 "
        "from a terminal that was closed",
    ),
    cause(
        "crash",
        r"Current thread 0x\w{1,20}[^\n]{0,60}:\n(?: *<no Python frame>\n)? *File "
        r"(\"[^\"\n]{1,200}\", line \d{1,7} in [^\n]{1,80})"
        r"|[Ss]egmentation fault|Caught signal 11|exitcode: -11\b|Signals\.SIGSEGV|exited on "
        r"signal 11\b"
        r"|return code = -11\b",
        "native code crashed: {names}",
        "set PYTHONFAULTHANDLER=1 in run.env: the log then contains the position of the crash",
    ),
    cause(
        "shared-memory",
        r"exitcode: -7\b|<Signals\.SIGBUS|return code = -7\b",
        "a rank could not reach its memory (SIGBUS), as when the shared memory is full",
        "use fewer data loader workers or raise the container's memory",
    ),
    cause(
        "killed",
        r"exitcode: -9\b|<Signals\.SIGKILL|return code = -9\b|exited on signal 9\b|exit code 137\b",
        "a rank was killed by SIGKILL, most often because the node's memory was exhausted",
        "compare the node's memory in `rsctl metrics`; use a smaller batch or fewer data loader "
        "workers, and load the model on one rank of a node at a time, or raise the memory limit",
    ),
    cause(
        "group-twice",
        r"initialize the default process group twice"
        r"|parallel group is already initialized",
        "the script, or a framework in it, sets up the process group a second time",
        "call init_process_group only where torch.distributed.is_initialized() is false",
    ),
    cause(
        "file-missing",
        r"FileNotFoundError: [^\n]{0,60}?No such file or directory: '([^'\n]{1,200})'",
        "a file, or a program, does not exist in the job: {names}",
        "use the paths of inputs and outputs, or one relative to image.source, and check that "
        ".dockerignore does not exclude it; add a program to the image (image.apt)",
    ),
    cause(
        "variable-unset",
        r"in __getitem__\n[^\n]{0,80}raise KeyError\(key\) from None\nKeyError: '(\w{1,80})'",
        "a variable of the environment is not set: {names}",
        "set it in run.env; RANK and LOCAL_RANK come from run.launcher: torchrun",
    ),
    cause(
        "gpu-fault",
        r"CUDA error: ([^\n]{1,100})|Cuda failure (\d{0,4} ?'[^'\n]{1,80}')|(CUDA_ERROR_\w{1,40})"
        r"|Error ([a-z ]{6,80}) at line \d{1,6} in file \S{1,200}\.cu|(CU(?:BLAS|DNN|SOLVER|SPARSE"
        r"|FFT)_STATUS_(?!SUCCESS)\w{1,40})",
        "CUDA, or one of its libraries, reported an error: {names}",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; use an image whose torch and CUDA "
        "support the GPU and its driver",
    ),
    cause(
        "xla",
        r"XlaRuntimeError: ([A-Z_]{3,40}: [^\n]{0,200})"
        r"|JaxRuntimeError: ([A-Z_]{3,40}: [^\n]{0,200})",
        "XLA reported an error: {names}",
        "see the first such error in the logs of all replicas; a lost process ends the others",
    ),
    cause(
        "distributed",
        r"(Dist(?:Network|Backend|Store)?Error: [^\n]{1,200})|(gloo/transport/[^\n]{1,200})",
        "torch.distributed could not communicate: {names}",
        "see the logs of the other replicas for an earlier failure, and check that the nodes reach "
        "each other on all ports",
    ),
    cause(
        "package-build",
        r"Building wheel for ([\w.-]{1,60}) \([^\n]{1,40}\) \.{3} ?error"
        r"|Failed to build ([\w.-]{1,60})|Failed building wheel for ([\w.-]{1,60})"
        r"|error: subprocess-exited-with-error()",
        "pip could not build a package from its source: {names}",
        "install a wheel of it that fits the image's Python, torch and CUDA; to build it, the "
        "image needs what pip's output names: torch (--no-build-isolation), nvcc, a C compiler",
    ),
    cause(
        "slurm-step",
        r"(?:(?:srun|slurmstepd): error|srun: fatal): (?!\S{1,100}: tasks? [\d,-]{1,60}: Exited"
        r"|\*\*\*|xcpuinfo|pyxis: (?:printing|import)|TMPDIR|Setting TMPDIR)([^\n]{1,160})",
        "Slurm reported an error: {names}",
        "see `sacct -j` of the job, and the logs of the nodes",
    ),
    cause(
        "system-call",
        r"OSError: \[Errno \d{1,4}\] ([^\n]{1,160})|(?:I/O"
        r"|Io) ?[Ee]rror: ([^\n]{1,100}\(os error \d{1,4}\))",
        "the operating system refused an operation: {names}",
        "check the file, folder or address that the message names, and free space on its disk",
    ),
)
"""For texts without any other cause."""
