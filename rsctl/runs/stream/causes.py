"""Known causes of failed jobs: a table of texts in logs, what they mean, and the remedy."""

from __future__ import annotations

from rsctl.known_errors import (
    NO_IMAGE,
    NO_MEMORY,
    NO_SPACE,
    PULL_DENIED,
    WRONG_ARCHITECTURE,
)
from rsctl.node import stderr_tail
from rsctl.runs.stream.accelerator_causes import (
    ACCELERATOR_CAUSES,
    GENERAL_ACCELERATOR_CAUSES,
    SMDDP_LIBRARY,
)
from rsctl.runs.stream.cluster_causes import CLUSTER_CAUSES
from rsctl.runs.stream.framework_causes import FRAMEWORK_CAUSES, GENERAL_FRAMEWORK_CAUSES
from rsctl.runs.stream.service_causes import GENERAL_SERVICE_CAUSES, SERVICE_CAUSES, cause

LOST_PEER = "peer"
"""The code of a cause that is an effect of another replica's earlier failure."""

_CUDA_LIBRARY = (
    r"lib(?:cudart|cublas(?:Lt)?|cudnn|cufft|curand|cusolver|cusparse(?:Lt)?|cupti|nvrtc|nvJitLink"
    r"|nvToolsExt|nccl(?!-))(?:[_-]\w{1,40})?\.so[\w.]{0,20}"
)

NCCL = "nccl"
"""The code of a cause whose reason stands in the warnings of NCCL before it."""

DATA_WORKER = "data-worker"
"""The code of a cause that the kernel's count of killed processes says more about."""

LESS_MEMORY = "use a smaller batch or fewer data loader workers"
"""The remedy for a node without memory; the way to more memory depends on its target."""


CAUSES = (
    cause(
        "gpu-memory",
        r"(?:CUDA|HIP) out of memory|torch\.OutOfMemoryError|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED"
        r"|(?:CUDA|HIP) error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
        r"|RESOURCE_EXHAUSTED: Out of memory"
        r"|OOM when allocating tensor[^\n]{0,300}(?i:device:gpu)",
        "the GPU ran out of memory",
        "use a smaller batch, gradient checkpointing or bf16, or a larger accelerator",
    ),
    cause(
        "gpu-start",
        r"CU(?:BLAS|DNN)_STATUS_NOT_INITIALIZED",
        "cuBLAS or cuDNN could not start, usually because the GPU's memory is full",
        "use a smaller batch; if that does not help, check that CUDA, cuDNN and torch in the "
        "image are compatible",
    ),
    cause(
        "gpu-assert",
        r"device-side assert triggered|\.cuh?:\d{1,6}: [^\n]{1,200}Assertion `",
        "a check on the GPU failed, usually of an index: a label or token out of range",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line, or run a step on the CPU",
    ),
    cause(
        "gpu-access",
        r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS"
        r"|CUDA error: misaligned address",
        "code on the GPU accessed memory that does not belong to it",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; extensions such as flash-attn "
        "must match torch and the GPU",
    ),
    cause(
        "gpu-start",
        r"[Uu]nable to find (?:a valid cuDNN algorithm|an engine)"
        r"(?![\s\S]{0,2000}(?:illegal memory|out of memory))",
        "cuDNN found no way to compute a layer, usually because the GPU's memory is full",
        "use a smaller batch; otherwise an image whose torch, CUDA and cuDNN support the GPU, and "
        "tensors of a type that the layer supports",
    ),
    cause(
        "gpu-fault",
        r"unspecified launch failure|an illegal instruction was encountered"
        r"|CUDA_ERROR_(?:LAUNCH_FAILED|ILLEGAL_INSTRUCTION)"
        r"|CU(?:BLAS|DNN)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)",
        "a computation on the GPU failed, and not for a full memory that is known",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; try a smaller batch, and an image "
        "whose torch, CUDA and cuDNN support the GPU; on one machine alone it is its GPU or driver",
    ),
    cause(
        "gpu-libraries",
        r"cuDNN version incompatibility|CUDNN_STATUS_\w{0,20}VERSION_MISMATCH"
        r"|Loaded runtime CuDNN library: \S{1,20} but source was compiled with",
        "the loaded cuDNN is of another version than torch, JAX or TensorFlow was built for",
        "let pip install cuDNN with the framework, and keep others out of LD_LIBRARY_PATH",
    ),
    cause(
        "gpu-state",
        r"CUDA-capable device\(s\) is/are busy or unavailable|devices are busy or unavailable"
        r"|system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|CUDA driver initialization failed"
        r"|CUDA unknown error|couldn't communicate with the NVIDIA driver",
        "the machine's GPUs cannot be used: they are busy, or their driver is not ready",
        "run nvidia-smi there: look for other processes, and for GPUs with NVSwitch start "
        "nvidia-fabricmanager in the driver's version; in a cloud, submit again",
    ),
    cause(
        "gpu-hardware",
        r"uncorrectable (?:ECC|NVLink) error|fallen off the bus|CUDA_ERROR_(?:ECC|NVLINK)"
        r"|GPU is lost|NVRM: [^\n]{1,40}RmInitAdapter failed"
        r"|Unable to determine the device handle for [Gg][Pp][Uu]|cudaErrorECC"
        r"|Xid \(PCI[^\n)]{1,40}\): (?:48|62|63|64|74|79|9[245]|1(?:19|20|40|43|44|45|46|50))\b",
        "a GPU failed, not the script",
        "submit again; with limits.retries and checkpoints, a job resumes automatically",
    ),
    cause(
        "gpu-binary",
        r"no kernel image is available for execution on th(?:e|is) device"
        r"|FlashAttention only supports \w{1,20} GPUs or newer|CUDA error: invalid device function",
        "torch, or an extension of it, was not built for this GPU",
        "use an image.base whose torch and CUDA support the GPU, or another workers.accelerator",
    ),
    cause(
        "driver",
        r"NVIDIA driver on your system is too old|Driver/library version mismatch"
        r"|API call is not supported in the installed CUDA driver"
        r"|CUDA driver version is insufficient|forward compatibility was attempted on non supported"
        r"|unsatisfied condition: (?:cuda|driver|brand|arch)"
        r"|PTX was compiled with an unsupported toolchain",
        "CUDA in the image and the driver of the machine are not compatible",
        "use an image.base with an older CUDA",
    ),
    cause(
        "open-files",
        r"Too many open files|received 0 items of ancdata",
        "a process has reached its limit of open files",
        "call torch.multiprocessing.set_sharing_strategy('file_system'), use fewer data loader "
        "workers, or raise the limit in the script (resource.setrlimit)",
    ),
    cause(
        "checkpoint",
        r"PytorchStreamReader failed|Error while deserializing header|"
        r"invalid load key, '(?:v|<)'",
        "a checkpoint or model is incomplete, or its format differs from its name",
        "download it again; write checkpoints under another name and rename them; a file that "
        "starts with `version https://git-lfs` needs `git lfs pull`",
    ),
    cause(
        "shared-memory-denied",
        r"shm_open[^\n]{0,60}Permission denied|/dev/shm[^\n]{0,200}Permission denied"
        r"|Permission denied[^\n]{0,60}/dev/shm",
        "the job's user may not use the shared memory (/dev/shm)",
        "let the administrator of the node or the image permit it: its mode is 1777; another "
        "user's segments of an earlier run may have to go",
    ),
    cause(
        "shared-memory",
        r"insufficient shared memory|[Bb]us error|(?:creating|attaching to) shared memory segment"
        rf"|SemLock\([\s\S]{{0,400}}?(?:{NO_SPACE})|/dev/shm[^\n]{{0,200}}(?:{NO_SPACE})"
        rf"|(?:{NO_SPACE})[^\n]{{0,20}}/dev/shm",
        "the shared memory of the container is full",
        "use fewer data loader workers or raise the container's memory",
    ),
    cause(
        "memory",
        rf"(?m:^)(?![^\n]{{0,300}}NET/OFI)[^\n]*?(?:{NO_MEMORY})"
        r"|OOM when allocating tensor(?![^\n]{0,300}(?i:device:gpu))"
        r"|killed due to memory pressure|Task was killed due to the node running low on memory"
        r"|ran out[ -]of[ -]memory and exited|oom[_-]kill event|(?:OOM|out of memory) ?[Kk]illed"
        r"|(?:Out of memory|[Mm]emory cgroup out of memory): Killed? process"
        r"|srun: error: \S{1,100}: tasks? [\d,-]{1,60}: Out Of Memory",
        "the node ran out of memory",
        f"{LESS_MEMORY}, or raise the memory limit",
    ),
    cause(
        DATA_WORKER,
        r"DataLoader worker \([^\n]{1,200}?\) (?:is killed by signal: (?!Bus error)([\w ]{1,40})"
        r"|exited unexpectedly)",
        "a worker process of a data loader was killed or crashed: {names}",
        "set num_workers=0 to see its own error; after Killed, compare the node's memory in "
        "`rsctl metrics`, and use fewer workers",
    ),
    cause(
        "timeout",
        r"Watchdog caught collective operation timeout|NCCL timeout|Timed out waiting \d+ms for"
        r"|Some NCCL operations have failed or timed out|watchdog got stuck for \d+"
        r"|[Hh]eartbeat monitor timed out"
        r"|failed to (?:pass|respond)[^\n]{0,60}monitoredBarrier"
        r"|monitoredBarrier[^\n]{0,80}timed out",
        "a collective operation did not end in time",
        "look for a rank that is slow, stuck or lost; all ranks must run the same operations in "
        "the same order",
    ),
    cause(
        "rendezvous",
        r"DistStoreError|RuntimeError: connect\(\) timed out"
        r"|Timed out after \d+ seconds waiting for clients"
        r"|client socket has timed out after \d+"
        r"|Timed out initializing process group in store based barrier"
        r"|Gloo connectFullMesh failed|gloo/transport/tcp/[^\n]{1,40} Connect timeout"
        r"|gloo/transport/tcp/[^\n]{1,80}: Connection refused|RendezvousTimeoutError"
        r"|store->get\('?0'?\) got error|Socket Timeout|gloo/context\.cc:\d{1,4}\] rank < size",
        "not all ranks connected at the start",
        "see the logs of the replicas that are missing; if all have started, the nodes do not "
        "reach each other: set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in run.env to their "
        "common interface, and let all ports between them be open and their names resolvable",
    ),
    cause(
        "name-resolution",
        r"ValueError: host not found: (?:Name or service|Temporary|nodename)[^\n]{0,60}"
        r"|(?:TCPStore\(|_rendezvous_handler"
        r"|init_process_group)[^\n]{0,200}\n(?:[^\n]{0,200}\n){0,4}"
        r"[^\n]{0,60}gaierror: ",
        "a rank cannot resolve the name of the chief (MASTER_ADDR)",
        "let rsctl set MASTER_ADDR; a name in run.env must be resolvable on all nodes, otherwise "
        "use an address",
    ),
    cause(
        "launcher",
        r"env:// rendezvous: environment variable (\w{1,40}) expected, but not set"
        r"|Default process group has not been initialized()|parallel group is not initialized()",
        "the script requires a process group, and none has been set up: {names}",
        "set run.launcher: torchrun, which sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the "
        "script calls init_process_group",
    ),
    cause(
        "mismatch",
        r"Detected mismatch between collectives on ranks|op\.preamble\.length <= op\.nbytes"
        r"|message truncated : receiving \d{1,12} bytes instead of"
        r"|DDP expects same model across all ranks"
        r"|in this process with sizes [^\n]{1,100} appears not"
        r" to match",
        "ranks ran different collective operations, or one with tensors of different sizes",
        "give all ranks tensors of the same shape and type in the same order, and make all ranks "
        "follow the same path through the script; branches on the rank may only "
        "contain work that needs no other rank",
    ),
    cause(
        "unused-parameters",
        r"Since `find_unused_parameters=True` is enabled",
        "outputs of the model's forward were not part of the loss",
        "let all of them take part in it, if only as 0 * output.sum(), or return fewer",
    ),
    cause(
        "unused-parameters",
        r"Expected to have finished reduction in the prior iteration"
        r"(?![^\n]{0,400}find_unused_parameters=True` is enabled)"
        r"|parameters that were not used in producing the loss",
        "some parameters of the model were not part of the loss",
        "use all parameters, or DistributedDataParallel(..., find_unused_parameters=True)",
    ),
    cause(
        "nccl-network",
        r"[Cc]onnect(?:ing)? to ([\da-fA-F.:]{2,45})<\d{1,5}> failed"
        r"|NCCL WARN (?!Call to ibv)[^\n]{0,120}(No route to host|Connection (?:refused"
        r"|timed out))",
        "NCCL uses a network interface that cannot reach the other nodes: {names}",
        "set NCCL_SOCKET_IFNAME in run.env to the nodes' common interface, such as eth0, and "
        "exclude others such as docker0 and lo with ^docker0,lo",
    ),
    cause(
        "interface",
        r"gloo/transport/tcp/device\.cc[^\n]{0,80}Unable to find address for:? ?(\S{1,100})"
        r"|Unable to resolve hostname to a()|makeDeviceForInterface()|unable to find interface()"
        r"|[Nn]o socket interface found()",
        "gloo or NCCL finds no network address of this node: {names}",
        "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in run.env to an interface that exists on "
        "all nodes and has an address, such as eth0 (gloo takes no ^); or let each node's host "
        "name be resolvable",
    ),
    cause(
        "nccl-ib",
        r"Call to (ibv_\w{1,40}) failed|mlx5: \S{1,100}: (got completion with error)"
        r"|NET/IB ?: (?:Got completion)|IBV_WC_(?!SUCCESS)\w{1,40}ERR",
        "NCCL failed on InfiniBand or RoCE: {names}",
        "check with `ibv_devinfo` in the container that its devices exist and are active; "
        "NCCL_IB_HCA and, for RoCE, NCCL_IB_GID_INDEX must fit all nodes; where each port reaches "
        "only its own rail, set NCCL_CROSS_NIC=0; the limit of locked memory must be high; a lost "
        "node gives this, too; NCCL_IB_DISABLE=1 uses sockets instead",
    ),
    cause(
        "ucx",
        r"(Transport retry count exceeded on \S{1,60})|UCX {1,2}ERROR ([^\n]{1,160})",
        "UCX, the transport of MPI, failed on the network between the nodes: {names}",
        "see which node failed first: a lost peer gives this, too; name the devices that reach all "
        "nodes in UCX_NET_DEVICES, or set UCX_TLS=tcp,self,sm to see the rest work",
    ),
    cause(
        "nccl-version",
        r"Mismatched NCCL version detected",
        "ranks use different versions of NCCL",
        "use the same image on all nodes",
    ),
    *ACCELERATOR_CAUSES,
    cause(
        "processes",
        r"cannot be larger than the device count|CUDA error: invalid device ordinal"
        r"|Duplicate GPU detected|But your machine only has: \["
        r"|number of tasks per node configured in SLURM[^\n]{0,80}does not match",
        "a rank uses a GPU that its node does not have, or that another rank uses",
        "start one rank for each GPU, and let each use the GPU of its LOCAL_RANK",
    ),
    cause(
        "gpu-peer",
        r"peer access is not supported between these two|failed to open CUDA IPC handle"
        r"|[Pp]eer-to-peer [^\n]{0,40}not (?:supported|available)[^\n]{0,40}(?:device|GPU)",
        "two GPUs of a node cannot access each other's memory",
        "set NCCL_P2P_DISABLE=1 in run.env, and turn custom all-reduce kernels off; give each rank "
        "all GPUs of the node (CUDA_VISIBLE_DEVICES) and choose by LOCAL_RANK",
    ),
    cause(
        NCCL,
        r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclInvalidUsage"
        r"|NCCL [Ee]rror(?:: | in:? | \d)[^\n]{0,300}?(?:unhandled \w+ error|internal error"
        r"|invalid (?:usage"
        r"|argument))",
        "NCCL failed",
        "see the lines with NCCL WARN (NCCL_DEBUG=INFO in run.env shows more): a system error is "
        "the network between the nodes, shared memory or a lost rank; an unhandled CUDA error is "
        "the GPU or its driver; invalid usage is the script",
    ),
    cause(
        "cpu-torch",
        r"'torch\._C' has no attribute '_cuda_\w+'|Torch not compiled with CUDA"
        r"|torch\.cuda\.\w+ requires CUDA support",
        "the installed torch is a CPU build, but the script uses a GPU",
        "use an image.base, or a torch in image.python, that is built for CUDA, and request a "
        "GPU with workers.accelerator; or use CUDA only where torch.cuda.is_available()",
    ),
    cause(
        "no-gpu",
        r"Found no NVIDIA driver|No CUDA GPUs are available|no GPUs found!"
        r"|no CUDA-capable device is detected|No supported gpu backend found"
        r"|doesn't support bf16/gpu|backend failed to initialize: (?!TPU)"
        r"|Unable to initialize backend '(?:cuda|rocm|gpu)'|no supported devices found for "
        r"platform",
        "the script requires a GPU and finds none",
        "request one with workers.accelerator, or let the script run without a GPU",
    ),
    cause(
        "gpu-container",
        r"could not select device driver \S{1,40} with capabilities"
        r"|nvidia-container-cli: (?!requirement error)|unknown or invalid runtime name: nvidia"
        r"|Unknown runtime specified nvidia|nvidia-container-runtime\W{1,4}(?:no such file"
        r"|permission denied|executable file not found)"
        r"|Failed to initialize NVML: Unknown Error|NVML: Driver Not Loaded",
        "the container engine cannot give a container the machine's GPUs",
        "install NVIDIA's driver and the nvidia-container-toolkit on the machine, configure the "
        "engine (`nvidia-ctk runtime configure`) and restart it",
    ),
    cause(
        "plugin",
        r"Failed to initialize any NET plugin|(?i:failed to load) (?:net|network) plugin",
        "the NCCL network plugin was not loaded",
        "check image.transport, and NCCL_NET_PLUGIN and NCCL_NET in run.env",
    ),
    cause(
        "module",
        r"ModuleNotFoundError: No module named '(?!smdistributed)([\w.]+)'"
        r"|(?:^|[\s/])python[\d.]{0,5}: No module named '?(?!smdistributed)([\w.]+)"
        r"|ImportError: No module named ([\w.]{1,80})"
        r"|You need to have `?(\w{1,60})`? (?:or `?\w{1,60}`? )?installed",
        "a Python module is missing: {names}",
        "add it to image.python; on target process, install it in the environment of rsctl",
    ),
    cause(
        "requirements",
        r"InstallModuleError|InstallRequirementsError"
        r"|Could not find a version that satisfies the requirement ([\w.\[\]-]{1,80})",
        "pip could not install a requirement of the script: {names}",
        "correct its name and version for the image's Python, or install it in the image with "
        "image.python: without internet access pip finds nothing",
    ),
    cause(
        "cuda-library",
        rf"Could not load library ({_CUDA_LIBRARY})"
        rf"|({_CUDA_LIBRARY}): cannot open shared object file"
        r"|CUDA Setup failed despite GPU being available()|CUDA SETUP: Setup Failed()",
        "a package was built for a CUDA library that the image does not have: {names}",
        "install a build of the package for the CUDA of the image, or use an image.base with the "
        "required CUDA version",
    ),
    cause(
        "library",
        rf"Could not load library (?!{_CUDA_LIBRARY})(lib[\w.+-]{{1,80}})"
        rf"|(?<![\w.+-])(?!{_CUDA_LIBRARY}|{SMDDP_LIBRARY}|libnccl-)(lib[\w.+-]{{1,80}}): cannot "
        rf"open "
        r"shared object file",
        "a system library is missing: {names}",
        "add its package to image.apt",
    ),
    cause(
        "numpy",
        r"numpy\.\w{1,20} size changed, may indicate binary incompatibility\. Expected \d+ from C",
        "a package was built for another version of NumPy than the one in the image",
        "install a newer version of the package, or the older NumPy: numpy<2 in image.python",
    ),
    cause(
        "weights-only",
        r"Weights only load failed",
        "since version 2.6, torch.load does not load a checkpoint with objects other "
        "than tensors by default",
        "if you trust the checkpoint, load it with torch.load(..., weights_only=False), or allow "
        "its classes with torch.serialization.add_safe_globals",
    ),
    cause(
        "tpu-device",
        r"TPU initialization failed: open\(/dev/\w{1,40}\)|Couldn't open device: /dev/accel\d"
        r"|TPU is already in use",
        "a process could not open the TPU, perhaps because another process has opened it",
        "set run.launcher: once, and let JAX or PyTorch/XLA start the processes of a host's TPUs",
    ),
    cause(
        "script",
        r"can't open file '([^'\n]{1,200})': \[Errno 2\]",
        "the script does not exist: {names}",
        "give its path relative to image.source, and check that .dockerignore does not exclude it",
    ),
    cause(
        "script-lines",
        r": line \d{1,6}: (--?\w[^\s:]{0,100}): command not found",
        "a shell ran options as commands, as the lines before them are not continued: {names}",
        "end each line but the last of the command with a backslash, and nothing after it",
    ),
    cause(
        "arguments",
        r": error: ((?:unrecognized arguments|the following arguments are required|ambiguous option"
        r"|one of the arguments|argument [^\n:]{1,100}:)[^\n]{0,200})"
        r"|(?:^|\n)Error: ((?:No such option|Missing (?:option|argument)|Invalid value for|Got "
        r"unexpected extra argument)[^\n]{0,200})"
        r"|(?:IllegalFlagValueError|UnrecognizedFlagError|Flags parsing error|FATAL Flags): "
        r"?([^\n]{0,200})|arguments are not used by the HfArgumentParser: ([^\n]{0,200})"
        r"|ERROR: (Could not consume arg: [^\n]{0,100})|(Could not override '[^'\n]{1,100}')",
        "the script does not accept its arguments: {names}",
        "correct run.args: `NAME: VALUE` becomes --NAME VALUE and `NAME: true` only --NAME, so "
        'write "True" in quotes for an option that takes a value; torchrun passes the rank as the '
        "variable LOCAL_RANK, not as --local-rank",
    ),
    cause(
        "toolkit-program",
        r"Error while finding module specification for|Unsupported entry point type"
        r"|Invalid distribution name or version syntax"
        r"|sagemaker_training/_?entry_point_type\.py",
        "the toolkit of SageMaker's image cannot start the program that it was given",
        "set run.script to a Python script of run.package, in a folder without setup.py for "
        "torchrun; for a shell script, set run.launcher: none",
    ),
    cause(
        "group-not-destroyed",
        r"terminate called without an active exception",
        "a process ended while threads of its libraries were still running; PyTorch's process "
        "group under gloo does this to scripts that have completed their training",
        "call torch.distributed.destroy_process_group() as the last statement of the script; "
        "what it saved before is complete",
    ),
    cause(
        "binary",
        r"([\w.+-]{1,150}\.so[\w.]{0,20}): undefined symbol",
        "a compiled extension was built for a different torch, or other library, than "
        "the one in the image: {names}",
        "install its build for the versions of Python, torch and CUDA in the image, or build it "
        "there; a wheel that pip has cached may be for another torch",
    ),
    cause(
        "libc",
        r"version [`'\u2018]((?:GLIBC|GLIBCXX|CXXABI)_[\d.]{1,12})'? not found",
        "a library of the image is too old for a program or extension: it needs {names}",
        "use a newer image.base, or a build of it for the older one",
    ),
    cause(
        "architecture",
        rf"{WRONG_ARCHITECTURE}|no matching manifest for |no match for platform in manifest",
        "the image is for a different processor architecture than the machine's",
        "build it for the machine's: amd64, or arm64 for Grace and Graviton",
    ),
    *FRAMEWORK_CAUSES,
    *SERVICE_CAUSES,
    *CLUSTER_CAUSES,
    cause(
        "disk",
        NO_SPACE,
        "a disk is full",
        "free disk space, or raise workers.disk",
    ),
    cause(
        "port",
        r"EADDRINUSE|[Aa]ddress already in use",
        "a port is already in use",
        "let torchrun choose MASTER_PORT; do not set one in the script",
    ),
    cause(
        "entrypoint",
        r'exec: "rsctl-launch": executable file not found',
        "the image does not have rsctl-launch",
        "build it with image.base; on a cloud, image.source delivers it; or set run.launcher: "
        "none; if run.env sets PATH, it must contain /usr/local/bin",
    ),
    cause(
        "python",
        r'exec: "python3": executable file not found',
        "the image does not have python3, which unpacks image.source",
        "use an image with Python 3.10 or newer on its PATH, or build one on it with image.base",
    ),
    cause(
        "line-endings",
        r"env: [^\w\n]{0,2}([\w./-]{1,100})(?:\\r|\r|\^M)[^\w\n]{0,2}: No such file"
        r"|(\$'\\r'): command not found|([\w./-]{1,200}\^M): bad interpreter"
        r"|cannot run (\S{1,200}): its first line ends with a carriage return",
        "a script has Windows line endings, so its interpreter is not found",
        "save the script with Unix line endings: `sed -i 's/\\r$//' SCRIPT`; with git, "
        "core.autocrlf=false keeps them",
    ),
    cause(
        "interpreter",
        r"cannot run \S{1,200}: its interpreter (\S{1,200}) does not exist"
        r"|: (/[\w./-]{1,200}): bad interpreter: No such file",
        "the interpreter in the first line of a script does not exist: {names}",
        "correct that line, such as `#!/usr/bin/env bash`, or add the program to the image "
        "(image.apt)",
    ),
    cause(
        "interpreter",
        r"cannot run (\S{1,200}): its first line names no interpreter",
        "a script does not name its interpreter in its first line: {names}",
        "begin it with such as `#!/usr/bin/env bash`, or start it with its interpreter: "
        "command: [bash, SCRIPT]",
    ),
    cause(
        "shell",
        r"cannot run ([^\n]{1,200}): it is for a shell, and none runs it",
        "the command is one of a shell, and rsctl starts programs without a shell: {names}",
        'start a shell: command: [bash, -c, "cd x && python train.py"]',
    ),
    cause(
        "command",
        r"cannot run (python): there is no such program",
        "there is no program {names}",
        "use python3 in run.command, or add `python` to the image: image.run: [ln -s python3 "
        "/usr/local/bin/python]",
    ),
    cause(
        "command",
        r"cannot run (?!python:)(\S{1,200}): there is no such program"
        r'|exec: \\{0,4}"(?!rsctl-launch\\{0,4}"|python3\\{0,4}")([^"\\\n]{1,200})\\{0,4}": '
        r"(?:executable file not found|(?:stat|lstat) [^:\n]{1,200}: no such file)"
        r"|FATAL tini \(\d{1,7}\)\] exec (\S{1,200}) failed: No such file"
        r"|(?:^|[\s/])(?:ba|da|z|k)?sh: (?:line )?(?:\d{1,6}: )?([^\s:-][^\s:]{0,200}): "
        r"(?:command )?not found"
        r"|(?:^|[\s/])env: [^\w\n./-]{0,2}([\w./-]{1,200})[^\w\n]{0,2}: No such file or directory"
        r"|(?:^|\n)[\w./-]{1,200}: (?:line )?\d{1,6}: ([^\s:-][^\s:]{0,200}): "
        r"(?:command )?not found",
        "the image does not contain the command to run: {names}",
        "correct run.command, or add the program to the image (image.apt, image.python); on "
        "SageMaker an image without a command is started as `train`",
    ),
    cause(
        "executable",
        r"cannot run (\S{1,200}): (?:its file is not executable|it is a folder)"
        r'|exec: \\{0,4}"([^"\\\n]{1,200})\\{0,4}": permission denied'
        r"|FATAL tini \(\d{1,7}\)\] exec (\S{1,200}) failed: Permission denied"
        r"|(?:^|[\s/])(?:ba|da|z|k)?sh: (?:line )?(?:\d{1,6}: )?([^\s:]{1,200}): Permission denied",
        "the command to run is not executable: {names}",
        "make it executable (`chmod +x`) before the image is built, or start it with its "
        "interpreter, such as `bash SCRIPT`",
    ),
    cause(
        "package",
        r"rsctl cannot start the source: |package\.tar\.gz is not what was submitted",
        "could not download image.source from the staging bucket",
        "give the job's account permission to read the bucket; if the package there is damaged, "
        "delete it and submit again",
    ),
    cause(
        "pull-limit",
        r"toomanyrequests|reached your (?:unauthenticated )?pull rate limit",
        "a registry limits how often images are pulled",
        "log in to the registry, or copy the image to a registry of the job's cloud; try later",
    ),
    cause(
        "image-login",
        r"no basic auth credentials|authorization token has expired|unauthorized: "
        r"|(?:denied|Permission)[^\n]{0,40}artifactregistry\.repositories\.downloadArtifacts"
        r"|/manifests/[^\n]{1,100}: 40[13] ",
        "the registry does not let the job's account, or this machine, pull the image",
        "log in to the registry again; in a cloud, give the job's account permission to read the "
        "repository",
    ),
    cause(
        "image",
        rf"{PULL_DENIED}|{NO_IMAGE}|ErrImagePull|ImagePullBackOff",
        "the image was not found",
        "check image.uri, and that you are logged in to its registry",
    ),
    cause(
        LOST_PEER,
        rf"(?<!\(104, ')(?<!\(32, ')(?:{stderr_tail.LOST_PEER})"
        r"|Orted process exited|MPI communication peer process has unexpectedly disconnected"
        r"|Horovod has been shut down"
        r"|TransportError: reducer \d+ (?:\([^)]*\) )?(?:ended the run|was lost)",
        "a peer disconnected during a collective operation",
        "see its own log for the reason",
    ),
)
"""In the order in which they are shown, the most specific first."""

GENERAL_CAUSES = (
    cause(
        "start",
        r"OCI runtime create failed: ([^\n]{1,400})|could not be started: ([^\n]{1,200})"
        r"|Termination reason: StartError|failed to create (?:containerd|shim) task",
        "the container could not be started: {names}",
        "see the message: usually the command, its permissions or the image's architecture are "
        "wrong",
    ),
    cause(
        "json",
        r"[Ee]rror (?:when )?pars(?:ing|e) json|No JSON object could be decoded|JSONDecodeError",
        "a text that must be JSON cannot be parsed",
        "see the lines above for its file; hyperparameters of SageMaker are JSON values, too",
    ),
    cause(
        "mpi-abort",
        r"MPI_ABORT was invoked on rank (\d{1,6})",
        "a rank ended the MPI job: {names}",
        "see the lines that this rank wrote before; mpirun --tag-output marks its lines [1,RANK]",
    ),
    *GENERAL_FRAMEWORK_CAUSES,
    *GENERAL_SERVICE_CAUSES,
    *GENERAL_ACCELERATOR_CAUSES,
)
"""The fallback if no other cause is found."""
