"""Causes of failed jobs that say little: the fallback if no other cause of a framework is found.

Sources: texts of tests/fixtures/real, and the messages in the code of frameworks and tools.
"""

from __future__ import annotations

from rsctl.runs.stream.cluster_causes import GENERAL_CLUSTER_CAUSES
from rsctl.runs.stream.memory_causes import NO_ACCESS, NO_ACCESS_REMEDY
from rsctl.runs.stream.service_causes import cause
from rsctl.runs.stream.system_causes import OTHER_REFUSAL

_CUDA_ERROR = r"(?:(?:CUDA|HIP|cuda runtime) error(?: \(\d{1,3}\) )?: |Cuda failure (?:\d{1,4} )?')"

GENERAL_FRAMEWORK_CAUSES = (
    cause(
        "dataset",
        r"Directory (\S{1,200}) is neither a `?Dataset`? directory nor a",
        "load_from_disk got a folder that save_to_disk has not written: {names}",
        "use load_dataset for data files and data sets of the hub; otherwise give the path of the "
        "folder that save_to_disk wrote, as an input or in image.source",
    ),
    cause(
        "dataset",
        r"([\w.]{1,80}(?:Error|Exception|Invalid): [^\n]{1,160})\n\nThe above exception was the "
        r"direct cause[\s\S]{0,2000}?DatasetGenerationError|DatasetGenerationError()",
        "a data set could not be made from its files: {names}",
        "see the exception before it in the log: a file that cannot be read, columns that differ, "
        "or a full disk",
    ),
    cause(
        "package-versions",
        r"Failed to import (?:transformers|diffusers|sentence_transformers)[\w.]{0,80} because of "
        r"the following error[^\n]{0,60}\n([^\n]{1,160})",
        "a package of Hugging Face cannot import one of its modules: {names}",
        "see the exception before this one in the log; install versions of the packages in its "
        "traceback that belong together; a script for torch needs no TensorFlow: uninstall it, or "
        "set USE_TF=0 in run.env",
    ),
    cause(
        "data-worker",
        r"Caught (\w{1,80}) in DataLoader worker process",
        "the data set raised an exception in a worker process of a data loader: {names}",
        "see its `Original Traceback` in the log; num_workers=0 raises it in the script itself",
    ),
    cause(
        "data-worker",
        r"Pin memory thread exited unexpectedly",
        "the thread of a data loader that pins memory has ended",
        "see its own traceback before this one (`Exception in thread`); pin_memory=False raises it "
        "in the script, and set_sharing_strategy('file_system') helps where files are too many",
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
        "timeout",
        r"\[missing ranks: ([\d, ]{1,60})\]|waiting for remainder of ranks for more than"
        r"|threads? to join the rendezvous, but not all of them arrived|(?:Stalled|Missing) ranks:",
        "a rank did not take part in an operation of all ranks, which waited for it: {names}",
        "see the log of that rank, which may be slow, stuck or lost; all ranks must run the same "
        "operations in the same order",
    ),
    cause(
        "lightning",
        r"Early stopping conditioned on metric `([^`\n]{1,80})` which is not available"
        r"|conditioned on metric (\S{1,80}) which is not available"
        r"|Exception: `?\w{1,40}\(monitor='([^'\n]{1,80})'\)`? (?:not found|could not find the "
        r"monitored key) in the returned metrics",
        "a callback or schedule of Lightning monitors a metric that nothing logs: {names}",
        "log it with self.log in validation_step, and let validation run before the first check; "
        "or monitor one of the metrics that the message lists",
    ),
    cause(
        "lightning",
        r"MisconfigurationException: (?![^\n]{0,200}(?:devices|num_nodes|strategy|accelerator|GPU"
        r"|gpu|TPU|world|DDP))([^\n]{1,200})",
        "Lightning refuses a setting, a call or what the LightningModule returns: {names}",
        "correct what the message names: an argument of the Trainer, what a callback monitors, or "
        "a method of the LightningModule; where it worked before, install the script's own "
        "versions of Lightning and torch",
    ),
    cause(
        "lightning",
        r"MisconfigurationException: ([^\n]{1,200})|(DeadLock detected from rank: \d{1,6})",
        "Lightning stopped the training: {names}",
        "for a setting, correct the Trainer's arguments: devices and num_nodes are the ranks of a "
        "node and the nodes; for a deadlock, see the rank's exception that is printed with it",
    ),
    cause(
        "configuration",
        r"Error in call to target '[\w.]{1,160}':\n([^\n]{1,200})"
        r"|(Error (?:instantiating|locating target|loading) '[\w.]{1,160}'[^\n]{0,160})",
        "hydra cannot make the object that a part of the configuration names: {names}",
        "compare the keys beside _target_ (full_key names the part) with the arguments of that "
        "class, and _target_ with its module; add missing keys, remove unknown ones, or install "
        "the version of the package or hydra that the configuration is for; HYDRA_FULL_ERROR=1 "
        "in run.env shows where the class failed",
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
        r"(?:Current t|Fatal Python error: Segmentation fault\n{1,2}T)hread 0x\w{1,20}"
        r"[^\n]{0,60}:\n(?: *<no Python frame>\n)? *File "
        r"(\"[^\"\n]{1,200}\", line \d{1,7} in [^\n]{1,80})",
        "native code crashed, called from: {names}",
        "install builds of the package that it calls, or of the libraries below it, that belong to "
        "the image's torch, CUDA and Python; in a collective operation see the lines of NCCL "
        "(NCCL_DEBUG=INFO in run.env); if it happens on one machine only, exclude that machine",
    ),
    cause(
        "crash",
        r"\*\*\* SIG(?:SEGV|BUS|FPE|ILL) received at [^\n]{0,60}"
        r"(?:\nPC: @ {1,16}0x\w{1,16} {1,4}\(unknown\) {1,4}(?! |\()([^\n]{2,160}))?"
        r"|==== backtrace[^\n]{0,40}\n"
        r"(?:[^\n]{0,160}(?:libucs|__sigaction|killpg)[^\n]{0,80}\n){1,4}"
        r" {0,4}\d{1,2} {1,4}(?:0x\w{1,16} )?([^\n\[]{2,160}?) *(?:\[|\n|$)"
        r"|[Ss]egmentation fault|Caught signal 11|exitcode: -11\b|Signals\.SIGSEGV|exited on "
        r"signal 11\b|return code = -11\b",
        "native code crashed: {names}",
        "set PYTHONFAULTHANDLER=1 in run.env: the log then contains the position of the crash",
    ),
    cause(
        "shared-memory",
        r"exitcode: -7\b|<Signals\.SIGBUS|return code = -7\b",
        NO_ACCESS,
        NO_ACCESS_REMEDY,
    ),
    cause(
        "killed",
        r"exitcode: -9\b|<Signals\.SIGKILL|return code = -9\b|exited on signal 9\b|exit code 137\b"
        r"|signal 9 \(SIGKILL\)",
        "a rank was killed by SIGKILL, most often because the node's memory was exhausted",
        "compare the node's memory in `rsctl metrics`; use a smaller batch or fewer data loader "
        "workers, and load the model on one rank of a node at a time, or raise the memory limit",
    ),
    cause(
        "distributed-call",
        r"RuntimeError: open\((/[^\n)]{1,200})\): (?:Permission denied|No such file)",
        "the file by which the ranks find each other (init_method) cannot be opened: {names}",
        "write its address with three slashes, file:///FOLDER/FILE, in a folder that exists and "
        "that all ranks share and may write; or use init_method='env://', which torchrun sets",
    ),
    cause(
        "file-lock",
        r"FileNotFoundError: [^\n]{0,60}No such file or directory: '([^'\n]{1,200}\.lock)'",
        "a file of a lock was deleted while processes used it: {names}",
        "let no other run or process delete files in that folder: give each run a cache of its own "
        "on a local disk (below /tmp), or let one rank of a node fill it before the others",
    ),
    cause(
        "file-missing",
        r"FileNotFoundError: [^\n]{0,60}No such file or directory: "
        r"('[^'\n]{1,200}' -> '[^'\n]{1,200}')",
        "a file could not be renamed, moved or linked, as a path does not exist: {names}",
        "create the folder of the second path before; where ranks or runs share the folder, let "
        "one rank write, rename and delete there, as another one may have done it first",
    ),
    cause(
        "input-missing",
        r"KeyError: 'SM_CHANNEL_(\w{1,80})'"
        r"|No such file or directory: '/opt/ml/input/data/([\w.-]{1,80})/?'",
        "the script reads an input that the job does not have: {names}",
        "name it so in inputs of the job (lower case after SM_CHANNEL_), or let the script read "
        "the folder of an input that the job has",
    ),
    cause(
        "package-versions",
        r"FileNotFoundError: [^\n]{0,60}?No such file or directory: "
        r"'([^'\n]{1,160}/(?:site|dist)-packages/[^'\n]{1,200})'",
        "a file of an installed package is missing: {names}",
        "install the package again in image.python, in a version that has the file, and not while "
        "the job runs, when other ranks import it",
    ),
    cause(
        "file-missing",
        r"FileNotFoundError: [^\n]{0,60}?No such file or directory: '(?!/psm_)([^'\n]{1,200})'"
        r"|open file \(unable to open file: name = '([^'\n]{1,200})', errno = 2,"
        r"|FileNotFoundError: (?!\[Errno)(?=[^\n]{0,200}(?:not (?:exist|found|find)|[Nn]o "
        r"|[Mm]issing))"
        r"([^\n]{1,200})"
        r"|(?m:^)(?:/\S{1,40}/)?(?:cp|mv|ls|cat|tar|rm|chmod|unzip|gzip"
        r"|rsync): (?:[^\n]{0,80}?['\u2018 ])??"
        r"([/.~\w][^'\u2019\n:]{1,200})['\u2019]?: (?:Cannot \w{1,8}: )?No such file or directory",
        "a file, or a program, does not exist in the job: {names}",
        "use the paths of inputs and outputs, or one relative to image.source, and check that "
        ".dockerignore does not exclude it; add a program to the image (image.apt)",
    ),
    cause(
        "variable-unset",
        r"in __getitem__\n[^\n]{0,80}raise KeyError\(key\) from None\nKeyError: '(\w{1,80})'"
        r"|\"<frozen os>\", line \d{1,5}, in __getitem__\nKeyError: '(\w{1,80})'"
        r"|KeyError: '((?:SLURM|OMPI|PMIX?|SM|AIP|CLOUD_ML|WANDB|NCCL|CUDA|AWS|GOOGLE|AZURE|HF"
        r"|MLFLOW)"
        r"_[A-Z0-9_]{1,60}|TF_CONFIG|HOME|USER|HOSTNAME|TMPDIR)'"
        r"|Error: [^\n]{0,100}environment variable [`'\"]?([A-Z][A-Z0-9_]{1,60})[`'\"]?"
        r"(?: (?:is|was|has|needed,?|required,?|and|but)){0,5} (?:not(?: been)?|could not be) "
        r"(?:set|defined|found)",
        "a variable of the environment is not set: {names}",
        "set it in run.env (SLURM_ and OMPI_ variables exist only below srun and mpirun); RANK "
        "and LOCAL_RANK come from run.launcher: torchrun",
    ),
    cause(
        "gpu-graph",
        rf"{_CUDA_ERROR}([^\n]{{0,60}}(?:captur|graph update|merge of separate)[^\n]{{0,80}})",
        "an operation is not allowed while a CUDA graph is captured: {names}",
        "leave it out of the captured part: item(), cpu(), new memory, printing, other streams; "
        "without a graph of your own, use torch.compile's mode default, not reduce-overhead",
    ),
    cause(
        "data-loader",
        r"AttributeError: '(\w{0,40}Sampler)' object has no attribute 'set_epoch'",
        "the data loader has no sampler that gives each rank its own part: {names}",
        "give the DataLoader sampler=DistributedSampler(dataset), or let the framework do it; call "
        "set_epoch only on that",
    ),
    cause(
        "driver",
        rf"{_CUDA_ERROR}((?:initialization error|CUDA driver is a stub|driver shutting down|[^\n]"
        r"{0,30}(?:not licensed|Grid license)|integrity checks|(?:a )?PTX JIT|shared object"
        r"|named symbol not found|OS call|startup failure|[^\n]{0,70}Dynamic Parallelism"
        r"|system has unsupported|incompatible driver|(?!the hardware)[^\n]{0,50}\bMPS)[^\n]{0,80})"
        r"|(CU\w{3,6}_(?:STATUS_)?(?:LICENSE_ERROR|INVALID_LICENSE))",
        "CUDA, its driver or its libraries are not complete, not ready or do not fit each other: "
        "{names}",
        "run nvidia-smi and a small script with torch.cuda in the container; keep stubs "
        "(/usr/local/cuda/lib64/stubs) and other CUDA libraries out of LD_LIBRARY_PATH, use an "
        "image.base for the machine's driver, and start MPS's daemon where the node uses it; call "
        "no CUDA before processes fork",
    ),
    cause(
        "gpu-arguments",
        rf"{_CUDA_ERROR}((?:invalid (?:argument|configuration|pitch|resource handle|host pointer"
        r"|device (?:pointer|symbol|context)|texture|channel|copy)|missing configuration|too many"
        r"|[^\n]{0,20}cooperative launch|device doesn't support|limit is not|context is destroyed"
        r"|operation not (?:supported(?! on global)|permitted)|API call|file not found"
        r"|resource not mapped"
        r"|resource already|peer access (?:is already|has not)|cannot set while|[^\n]{0,20}mapped"
        r"|device not ready|previous launch|profiler|launch (?:would|failed|uses)|feature not yet"
        r"|[^\n]{0,50}(?:texture|surface|global variable|not configured|__syncthreads|constant"
        r"|buffer object|registered memory|introspection|cluster misconf|not loaded|passed in"
        r"|non-applicable|grid depth|affinity|non-float|normalized float|too large to fit"
        r"|call to cudaDeviceS|execution mode|OpenGL|already mapped|not completely freed))"
        r"[^\n]{0,80})"
        r"|(CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_(?:BAD_PARAM|INVALID_VALUE|NOT_SUPPORTED"
        r"|MATRIX_TYPE"
        r"|DEPRECATED|NOT_IMPLEMENTED|ZERO_PIVOT|INVALID_WORKSPACE|IRS_)\w{0,40}"
        r"|CUFFT_(?:INVALID|NOT|UNALIGNED|INCOMPLETE|PARSE)_[A-Z_]{4,16})",
        "a call of CUDA or of its libraries got sizes, types or handles that it does not take: "
        "{names}",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line, and print the shapes, types and "
        "devices of its tensors: empty or too large ones, types that the GPU does not have; "
        "extensions must be built for the image's torch, CUDA and GPU; if a plain multiplication "
        "fails, too, keep CUDA libraries that are not torch's out of LD_LIBRARY_PATH",
    ),
    cause(
        "gpu-memory",
        rf"{_CUDA_ERROR}((?:peer mapping|the hardware) resources[^\n]{{0,80}})",
        "the GPU has no memory, or no other resource, left: {names}",
        "use a smaller batch, gradient checkpointing or bf16, fewer processes on a GPU, or a "
        "larger accelerator",
    ),
    cause(
        "gpu-access",
        rf"{_CUDA_ERROR}((?:hardware stack error|invalid program counter|operation not supported on"
        r" global|the launch timed out|wait operation timed)[^\n]{0,60})",
        "a kernel on the GPU failed: {names}",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; extensions such as flash-attn must "
        "match torch and the GPU; a GPU that drives a display ends long kernels",
    ),
    cause(
        "gpu-fault",
        r"(?:CUDA|HIP|cuda runtime) error(?: \(\d{1,3}\) )?: ([^\n]{1,100})"
        r"|Cuda failure (\d{0,4} ?'[^'\n]{1,80}')|(CUDA_ERROR_\w{1,40})"
        r"|Error ([a-z ]{6,80}) at line \d{1,6} in file \S{1,200}\.(?:cu|hip|c|cpp)"
        r"|(cuda[A-Z]\w{1,40}\(\) failed\. Status: [^\n]{1,100})"
        r"|(CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_(?!SUCCESS)\w{1,40}|CUFFT_(?!SUCCESS)[A-Z_]{5,30})",
        "CUDA, or one of its libraries, reported an error: {names}",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; use an image whose torch and CUDA "
        "support the GPU and its driver",
    ),
    cause(
        "gpu-fault",
        r"NVRM: Xid \(PCI[^\n)]{1,40}\): ((?!(?:45|10[67]|16[2-5])\b)\d{1,3}\b[^\n]{0,100})",
        "the GPU's driver reports an error, Xid {names}",
        "NVIDIA's list of Xid errors says whether the number is of the hardware, the driver or the "
        "program; submit again on another machine to see whether it stays",
    ),
    cause(
        "xla",
        r"(?:Xla|Jax)RuntimeError: ((?:INVALID_ARGUMENT|UNIMPLEMENTED): [^\n]{0,200})",
        "XLA, or a kernel that it calls, refuses a computation: {names}",
        "compare the shapes, types and sharding that the message names with what the accelerator "
        "supports: try float32, or a kernel of XLA in place of Pallas; install versions of jax, "
        "jaxlib and libtpu that belong together",
    ),
    cause(
        "xla",
        r"(?:Xla|Jax)RuntimeError: ((?:FAILED_PRECONDITION|ALREADY_EXISTS|UNKNOWN): [^\n]{0,200})",
        "the accelerator, or XLA's runtime, is not in the state that a call needs: {names}",
        "use the accelerator in one process only; call jax.distributed.initialize() and "
        "jax.devices() before other libraries such as TensorFlow load; install versions of jax, "
        "jaxlib and libtpu that belong together",
    ),
    cause(
        "xla",
        r"(?:Xla|Jax)RuntimeError: ([A-Z_]{3,40}: [^\n]{0,200})|Execution of replica \d{1,6} "
        r"failed: ([^\n]{1,200})",
        "XLA reported an error: {names}",
        "see the first such error in the logs of all replicas; a lost process ends the others",
    ),
    cause(
        "distributed-call",
        r"gloo/[\w/]{1,60}\.(?:cc|h):\d{1,5}\] (?!uv_)"
        r"((?=[^\n]{0,160}(?:must|may not|support|[Uu]nknown"
        r"|required|should|specified|specify|mode|[Ss]ize|match|[Ii]nvalid|initialized|not set"
        r"|only))"
        r"(?![^\n]{0,160}(?:timeout|timed out))[^\n]{1,200})",
        "gloo refuses a call of torch.distributed: {names}",
        "give all ranks tensors of the same sizes and types on the CPU, and make a group with the "
        "backend that the message asks for; where it names a file or a setting, correct that",
    ),
    cause(
        "distributed",
        r"(Dist(?:Network|Backend|Store)?Error: [^\n]{1,200})"
        r"|(gloo/[\w/]{1,60}\.(?:cc|h):\d{1,5}\][^\n]{0,200})",
        "torch.distributed could not communicate: {names}",
        "see the logs of the other replicas for an earlier failure, and check that the nodes reach "
        "each other on all ports",
    ),
    cause(
        "package-system",
        r"(?:NO_PUBKEY|(?:EXP|REV)KEYSIG|BADSIG|KEYEXPIRED) (\w{8,40})"
        r"|(invalid signature was encountered)|(?:Release file|The repository) ([^\n]{1,200}? "
        r"(?:is not (?:valid yet|signed)|expired|no longer has a Release file))",
        "apt does not accept the signature, or the age, of a repository: {names}",
        "install its key of today (for NVIDIA's repositories the package cuda-keyring), or remove "
        "the repository from the image; check the machine's clock; where all repositories have "
        "invalid signatures, its disk is full or its docker is older than the image's system",
    ),
    cause(
        "package-system",
        r"(?m:^)E: ((?:Unable to|Could not|The repository|Failed to|Package|Version|Sub-process"
        r"|Some index|dpkg was|Release file|Malformed|The (?:method|package|list)|You don't"
        r"|Invalid)"
        r"[^\n]{1,160})",
        "apt could not install a package: {names}",
        "correct its name for the image's system, and run apt-get update before; check the "
        "network and proxy of the build, free space, and that the system's version still has a "
        "mirror; image.apt does this as the user root",
    ),
    cause(
        "network",
        r"(?m:^)error: (Failed to (?:fetch|download)[^\n]{1,160})",
        "uv could not download a package or its index: {names}",
        "see the reason below it; check the job's network, UV_INDEX_URL and its login, and the "
        "proxy (HTTPS_PROXY)",
    ),
    cause(
        "package-build",
        r"Building wheel for ([\w.-]{1,60}) \([^\n]{1,40}\) \.{3} ?error"
        r"|Failed to build ([\w.-]{1,60})|Failed building wheel for ([\w.-]{1,60})"
        r"|error: subprocess-exited-with-error()|metadata-generation-failed()"
        r"|error while generating package metadata()|setup\.py egg_info\"? (?:did not run|failed)()"
        r"|Failed to build `([^`\n]{1,80})`|legacy-install-failure()"
        r"|setup\.py \w{3,12} did not run successfully()",
        "pip could not build a package from its source: {names}",
        "install a wheel of it that fits the image's Python, torch and CUDA; to build it, the "
        "image needs what pip's output names: torch (--no-build-isolation), nvcc, a C compiler",
    ),
    *GENERAL_CLUSTER_CAUSES,
    cause(
        "library",
        r"(MKL_THREADING_LAYER=\w{1,12} is incompatible with \S{1,60})"
        r"|OMP: Error #15: (Initializing [^\n]{1,100})",
        "two libraries of OpenMP are loaded in one process: {names}",
        "set MKL_THREADING_LAYER=GNU in run.env, or import numpy before torch; install numpy, MKL "
        "and torch from one source, pip or conda; KMP_DUPLICATE_LIB_OK=TRUE is a last resort",
    ),
    OTHER_REFUSAL,
)
"""For texts without any other cause."""
