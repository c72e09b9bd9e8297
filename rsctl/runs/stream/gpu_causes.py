"""Causes of failed jobs that concern GPUs: their memory, errors, drivers, and who uses which."""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

NCCL = "nccl"
"""The code of a cause whose reason stands in the warnings of NCCL before it."""


def _numbered(numbers: str) -> str:
    """An error of CUDA's or HIP's runtime as older versions of torch, and TensorFlow, write it."""
    return rf"|(?:cuda runtime error|(?:cuda|hip)Success) \((?:{numbers})(?:\)| vs\. 0)"


_CALL_OF_NCCL = r"(?:R|N)CCL (?:[Ee]rror(?:: | in:? | \d)|operation )[^\n]{0,300}?"


def _of_nccl(kind: str) -> str:
    """An error of this kind as torch and other frameworks write NCCL's."""
    unhandled = f"unhandled {kind} error"
    return (
        rf"(?:\bnccl[A-Z]\w{{1,40}} failed: |NCCL: |{_CALL_OF_NCCL}){unhandled}"
        rf"|{unhandled}\s{{1,40}}nccl[A-Z]\w{{1,30}}\("
    )


_HARDWARE = (
    r"(?:38|4[68]|5[4678]|6[0-4]|74|79|9[245]|1(?:10|19|2[0-5]|36|37|4[03-9]|5[0-24-8]|6[016-9]"
    r"|7[0-2]))"
)
"""Xid numbers of a GPU, its firmware, its memory or its links, by NVIDIA's list."""

GPU_CAUSES = (
    cause(
        "gpu-memory",
        r"(?:CUDA|HIP) error: out of memory|Cuda failure (?:\d{1,4} )?'out of memory'"
        r"(?![\s\S]{0,2000}(?:CUDA out of memory|OutOfMemoryError))",
        "the GPU had no free memory, beyond what the script's tensors take",
        "let no other process use it (`nvidia-smi`), and let each rank use its own GPU before its "
        "first call of CUDA (torch.cuda.set_device with LOCAL_RANK): ranks that share GPU 0 fill "
        "it; otherwise use a smaller batch, or a larger accelerator",
    ),
    cause(
        "gpu-memory",
        r"_(?:pre|post)_state_dict_hook\b(?<!load_state_dict_hook)[\s\S]{0,3000}?CUDA out of "
        r"memory",
        "the GPU ran out of memory while FSDP gathered the whole model to save it",
        "save sharded checkpoints (SHARDED_STATE_DICT, torch.distributed.checkpoint), or gather it "
        "on the CPU of one rank: FullStateDictConfig(offload_to_cpu=True, rank0_only=True)",
    ),
    cause(
        "gpu-memory",
        r"(?:CUDA|HIP|NPU|XPU|MUSA|MLU|MPS backend) out of memory|torch\.OutOfMemoryError"
        r"|(?:CU(?:BLAS|DNN|SOLVER|SPARSE)|HIPBLAS)_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED"
        r"|CUDNN_STATUS_\w{1,30}DEVICE_ALLOCATION_FAILED|CUFFT_NO_WORKSPACE"
        r"|CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"
        r"|(?:CUDA|HIP) error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
        r"|Cuda failure (?:\d{1,4} )?'out of memory'"
        r"|RESOURCE_EXHAUSTED: Failed to allocate request|hipErrorOutOfMemory"
        r"|Dst tensor is not initialized|Out of memory error on GPU \d|cudaErrorMemoryAllocation"
        r"|what\(\): {1,4}[^\n]{0,200}\bout of memory|std::bad_alloc: (?:out_of|RMM |CUDA )"
        rf"|OOM when allocating tensor[^\n]{{0,300}}(?i:device:gpu){_numbered('2')}",
        "the GPU ran out of memory",
        "use a smaller batch, gradient checkpointing or bf16, or a larger accelerator",
    ),
    cause(
        "gpu-memory",
        r"RESOURCE_EXHAUSTED: Out of memory",
        "JAX or XLA found no free memory on the GPU",
        "use a smaller batch or bf16, and one process for each GPU: JAX takes 75 % of its memory "
        "at the start, unless XLA_PYTHON_CLIENT_PREALLOCATE=false",
    ),
    cause(
        "gpu-start",
        r"(?:CU(?:BLAS|DNN|SOLVER|SPARSE)|HIPBLAS)_STATUS_NOT_INITIALIZED|CUFFT_SETUP_FAILED"
        r"|probably because cuDNN failed to initialize|DNN library initialization failed"
        r"|Blas GEMM launch failed"
        r"|cublas runtime error : (?:resource allocation failed|library not initialized)",
        "cuBLAS or cuDNN could not start, usually because the GPU's memory is full",
        "use a smaller batch; if that does not help, check that CUDA, cuDNN and torch in the "
        "image are compatible",
    ),
    cause(
        "gpu-start",
        r"((?:[Ff]ailed to|[Cc]ould not) create (?:cu|roc|gpu)\w{3,9} handle[^\n]{0,60})"
        r"|((?:gpu|cu)(?:solver|blas|sparse|fft)\w{2,30}\([^)\n]{0,80}\) failed[^\n]{0,60})"
        r"|Error: [^\n]{0,10}(cu(?:Solver|Blas|BLAS|Sparse|FFT) (?:internal"
        r"|initialization)[^\n]{1,30})",
        "a library of CUDA could not start under JAX or TensorFlow, usually as these had taken the "
        "GPU's memory before: {names}",
        "set XLA_PYTHON_CLIENT_MEM_FRACTION=0.7 in run.env (TF_FORCE_GPU_ALLOW_GROWTH=true for "
        "TensorFlow); if that does not help, let pip install the CUDA libraries that belong to "
        "jaxlib (jax[cuda12])",
    ),
    cause(
        "gpu-assert",
        r"device-side assert triggered|\.cuh?:\d{1,6}: [^\n]{1,200}Assertion `"
        rf"{_numbered('59|710')}",
        "a check on the GPU failed, usually of an index: a label or token out of range",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line, or run a step on the CPU",
    ),
    cause(
        "gpu-access",
        r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS"
        r"|(?:CUDA|HIP) error: misaligned address|hipErrorIllegalAddress"
        rf"|Memory access fault by GPU node{_numbered('7[4-7]|700|716')}",
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
        r"|(?:CU(?:BLAS|DNN|SOLVER|SPARSE)|HIPBLAS)_STATUS_(?:EXECUTION_FAILED|MAPPING_ERROR"
        r"|INTERNAL_ERROR(?!_(?:DEV|HOST)))|CUFFT_(?:INTERNAL_ERROR|EXEC_FAILED)"
        rf"{_numbered('4|30|719|999')}|cublas runtime error : the GPU program failed to execute"
        r"|(?:CUDA|HIP) error: unknown error|InternalError: [^\n]{0,40}GPU sync failed",
        "a computation on the GPU failed, and not for a full memory that is known",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; try a smaller batch, and an image "
        "whose torch, CUDA and cuDNN support the GPU; on one machine alone it is its GPU or driver",
    ),
    cause(
        "gpu-state",
        r"HSA_STATUS_ERROR_OUT_OF_RESOURCES",
        "ROCm's runtime got no memory, queue or event of an AMD GPU, or of its driver",
        "let fewer processes use the GPU, with a smaller batch; the user needs the groups render "
        "and video; exclude a node on which `rocminfo` alone fails so",
    ),
    cause(
        "gpu-fault",
        r"aborting with error : (HSA_STATUS_ERROR_(?!INVALID_(?:ISA|CODE)|OUT_OF_RES)\w{1,40})"
        r"|(HSA_STATUS_ERROR_(?:EXCEPTION|MEMORY\w{1,30}|ILLEGAL\w{1,30}|ABORTED))"
        r"|(HW Exception by GPU node[^\n]{0,80})",
        "a kernel on an AMD GPU failed: {names}",
        "set AMD_SERIALIZE_KERNEL=3 in run.env to see the line of the script that started it; use "
        "an image whose ROCm supports the GPU and its driver; on one machine alone it is its GPU",
    ),
    cause(
        "gpu-fault",
        r"Xid \(PCI[^\n)]{1,40}\): ((?:8|11|13|25|3[0-79]|4[0-4]|6[5-9]|7[0-3]|7[5-7]|8[0-689]"
        r"|9[6-9]|10[0-59]|12[6-9]|13[0-589]|14[12]|15[39])\b[^\n]{0,100})",
        "the driver reports a fault of code on the GPU, Xid {names}",
        "set CUDA_LAUNCH_BLOCKING=1 in run.env to see the line; extensions such as flash-attn must "
        "match torch and the GPU; if it happens on one machine only, it is its GPU or driver",
    ),
    cause(
        "gpu-libraries",
        r"cuDNN version incompatibility|CUDNN_STATUS_\w{0,30}(?:VERSION_MISMATCH"
        r"|INCOMPATIBLE_CUDART|SUBLIBRARY|PREREQUISITE)|CUFFT_(?:MISSING_DEPENDENCY|NV\w{3,9}_FAILURE)"
        r"|Loaded runtime CuDNN library: \S{1,20} but source was compiled with"
        r"|undefined symbol: ((?:nccl(?!\w*Plugin)|cudnn|cublas|cusparse|(?:__)?nvJitLink)\w{1,60})"
        r"|/(?:torch|tensorflow"
        r"|jaxlib)/[^\n]{1,80}\.so[^\n:]{0,20}: undefined symbol: (cu[a-z]{2,8}"
        r"[A-Z]\w{1,60})"
        r"|/lib(?:cudnn|cublas|cusparse|cusolver)[\w.]{1,40}: undefined symbol: (\w{1,60})"
        r"|symbol (\w{1,60} version \S{1,40} not defined in file lib(?:cu|nv|nccl)\S{1,40})"
        r"|(Invalid config \w{1,40} attribute value -2147483648)",
        "a loaded library of CUDA (cuDNN, cuBLAS, NCCL, nvJitLink) is of another version than "
        "torch, JAX "
        "or TensorFlow was built for: {names}",
        "let pip install these libraries with the framework (nvidia-cudnn-cu12, nvidia-nccl-cu12), "
        "and keep others out of LD_LIBRARY_PATH and LD_PRELOAD",
    ),
    cause(
        "gpu-state",
        r"CUDA-capable device\(s\) is/are busy or unavailable|devices are busy or unavailable"
        r"|system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|CUDA driver initialization failed"
        r"|exclusive-thread device already in use|CUDA unknown error"
        r"|couldn't communicate with the NVIDIA driver"
        r"|operation cannot be performed in the present state",
        "the machine's GPUs cannot be used: they are busy, or their driver is not ready",
        "run nvidia-smi there: look for other processes, and for GPUs with NVSwitch start "
        "nvidia-fabricmanager in the driver's version, for NVLink between nodes nvidia-imex, whose "
        "domain two jobs cannot share; in a cloud, submit again",
    ),
    cause(
        "gpu-hardware",
        r"uncorrectable (?:ECC|NVLink) error|fallen off the bus|CUDA_ERROR_(?:ECC|NVLINK)"
        r"|GPU is lost|NVRM: [^\n]{1,40}RmInitAdapter failed"
        r"|Unable to determine the device handle for [Gg][Pp][Uu]|cudaErrorECC"
        rf"|Xid \(PCI[^\n)]{{1,40}}\): {_HARDWARE}\b"
        rf"|caused by previous Xid {_HARDWARE}\b",
        "a GPU failed, not the script",
        "submit again; with limits.retries and checkpoints, a job resumes automatically",
    ),
    cause(
        "gpu-binary",
        r"FlashAttention only supports (\w{1,20}) GPUs or newer",
        "FlashAttention does not support the machine's GPU, which is older than {names}",
        "use another attention (attn_implementation: sdpa or eager), or a newer "
        "workers.accelerator; another image does not help",
    ),
    cause(
        "gpu-binary",
        r"no kernel image is available for execution on th(?:e|is) device"
        r"|device kernel image is invalid|CUDA_ERROR_INVALID_(?:IMAGE|PTX)|CUDA_ERROR_NO_BINARY"
        r"|(?:CUDA|HIP|runtime) error(?: \(\d{1,3}\) )?: invalid device function"
        r"|Error invalid device function at"
        r"|hipErrorNoBinaryForGpu|CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_\w{0,14}ARCH_MISMATCH"
        r"|TensileLibrary[^\n]{1,120}"
        rf"GPU arch|HSA_STATUS_ERROR_INVALID_(?:ISA|CODE_OBJECT){_numbered('98|209')}",
        "torch, or an extension of it, was not built for this GPU",
        "use an image.base whose torch and CUDA support the GPU, or another workers.accelerator",
    ),
    cause(
        "miopen",
        r"miopenStatus(?!Success)(\w{1,40})|MIOpen(?:\(HIP\))?:? Error:? ([^\n]{1,160})",
        "MIOpen, ROCm's library of layers, failed: {names}",
        "set MIOPEN_USER_DB_PATH and MIOPEN_CUSTOM_CACHE_DIR in run.env to a local folder that the "
        "user may write, as its caches do not work on network file systems; otherwise use a "
        "smaller batch, and an image whose ROCm supports the GPU",
    ),
    cause(
        "driver",
        r"[Dd]river/library version mismatch",
        "the machine's driver was updated, and its kernel module is still the old one",
        "reboot the machine, or load the module again (rmmod nvidia, modprobe nvidia); until then, "
        "use other nodes",
    ),
    cause(
        "driver",
        r"NVIDIA driver on your system is too old|_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER"
        r"|API call is not supported in the installed CUDA driver"
        r"|CUDA driver version is insufficient|forward compatibility was attempted on non supported"
        r"|system has unsupported display driver"
        r"|unsatisfied condition: (?:cuda|driver|brand|arch)"
        r"|PTX was compiled with an unsupported toolchain",
        "CUDA in the image and the driver of the machine are not compatible",
        "use an image.base with an older CUDA, or nodes with a newer driver",
    ),
)
"""Errors of a GPU, its driver and its libraries, in the order in which they are shown."""

GPU_USE_CAUSES = (
    cause(
        "processes",
        r"cannot be larger than the device count|error(?: \(\d{1,3}\) )?: invalid device ordinal"
        r"|Invalid device ordinal value|Duplicate GPU detected|But your machine only has: \["
        r"|on same CUDA device|AssertionError: Invalid device id|hipErrorInvalidDevice\b"
        r"|_streams\[device\.index\] is None:\n(?:[^\n]{0,80}\n)?[^\n]{0,20}IndexError: list index"
        r"|number of (?:tasks per node|nodes) configured in SLURM[^\n]{0,80}does not match",
        "a rank uses a GPU that its node does not have, or that another rank uses",
        "start one rank for each GPU, and let each use the GPU of its LOCAL_RANK",
    ),
    cause(
        "processes",
        r"device < num_gpus",
        "torch uses a GPU beyond the number that it counted, as where the script sets "
        "CUDA_VISIBLE_DEVICES after it has imported torch",
        "remove CUDA_VISIBLE_DEVICES from the script, the image and run.env, and let each rank use "
        "the GPU of its LOCAL_RANK",
    ),
    cause(
        "processes",
        r"Error: (?!CUDA )([^\n]{0,120}\b(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES\b[^\n]{0,120})",
        "the variable that chooses the visible GPUs does not fit the script: {names}",
        "remove CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES from run.env, "
        "the image and the script, and let each rank use the GPU of its LOCAL_RANK",
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
        "gpu-peer",
        r"(?:I|i)nvalid access of peer GPU memory over nvlink|CUDA_ERROR_CONTAINED"
        r"|cudaErrorContained",
        "a GPU lost its access to another GPU's memory over NVLink",
        "submit again, on another machine: the other GPU, its process or NVLink failed; see the "
        "earlier errors of the other ranks, and lines with Xid in `dmesg` on the machine",
    ),
    cause(
        NCCL,
        rf"ncclInvalidUsage|{_CALL_OF_NCCL}invalid (?:usage|argument)",
        "NCCL refuses a call, or how the ranks are set up",
        "start as many processes as the world size says, each with a rank and a GPU of its own "
        "(torch.cuda.set_device with LOCAL_RANK before the first collective); see the lines with "
        "NCCL WARN (NCCL_DEBUG=INFO in run.env shows more)",
    ),
    cause(
        NCCL,
        rf"ncclUnhandledCudaError|{_of_nccl('(?:cuda|hip)')}",
        "a call of CUDA failed inside NCCL",
        "let each rank use a GPU of its own, with free memory and without other processes "
        "(`nvidia-smi`); NCCL_DEBUG=INFO in run.env shows the call that failed, in the lines with "
        "NCCL WARN; torch's CUDA must support the GPU and its driver",
    ),
    cause(
        NCCL,
        rf"ncclSystemError|{_of_nccl('system')}",
        "a call of the operating system failed inside NCCL",
        "see the logs of all replicas for an earlier failure, as a rank that ends closes its "
        "connections; if there is none, set NCCL_SOCKET_IFNAME in run.env to the nodes' common "
        "interface, and raise the container's memory (/dev/shm); NCCL_DEBUG=INFO shows the call "
        "that failed, in the lines with NCCL WARN",
    ),
    cause(
        NCCL,
        rf"ncclInternalError|{_of_nccl('[a-z]{1,20}')}|{_CALL_OF_NCCL}internal error",
        "NCCL failed",
        "NCCL_DEBUG=INFO in run.env shows the reason, in the lines with NCCL WARN; see the logs of "
        "all replicas for an earlier failure; give each rank a GPU of its own, and let pip install "
        "NCCL with torch",
    ),
    cause(
        "cpu-torch",
        r"'torch\._C' has no attribute '_cuda_\w+'|Torch not compiled with CUDA"
        r"|torch\.cuda\.\w+ requires CUDA support|package doesn't have NCCL built in",
        "the installed torch is a CPU build, but the script uses a GPU",
        "use an image.base, or a torch in image.python, that is built for CUDA, and request a "
        "GPU with workers.accelerator; or use CUDA and NCCL only where torch.cuda.is_available(), "
        "and gloo elsewhere; a script that needs no ranks: run.launcher: once",
    ),
    cause(
        "no-gpu",
        r"Found no NVIDIA driver|No (?:CUDA|HIP|XPU) GPUs are available|no GPUs found!"
        r"|no CUDA-capable device is detected|No supported gpu backend found"
        r"|GPUAccelerator can ?not run on your system"
        r"|Multiprocess computations aren't implemented on the CPU"
        r"|[Mm]ixed precision[^\n]{0,160} can only be used on CUDA"
        r"|backend failed to initialize: (?!TPU)"
        r"|Unable to initialize backend '(?:cuda|rocm|gpu)'|no supported devices found for "
        r"platform",
        "the script requires a GPU and finds none",
        "request one with workers.accelerator, or let the script run without a GPU; on a node that "
        "has one, torch in the image may be a CPU build, or built for a newer driver",
    ),
    cause(
        "gpu-container",
        r"nvidia-container-cli: device error: ([^\n:]{1,80}: unknown device)",
        "the container asks for a GPU that the machine does not have: {names}",
        "ask for a number or UUID of `nvidia-smi -L` on the machine (NVIDIA_VISIBLE_DEVICES, "
        "docker --gpus); a number that worked before is a GPU that was lost: exclude the node",
    ),
    cause(
        "gpu-container",
        r"nvidia-container-cli: mount error: file creation failed: (\S{1,300}): file exists",
        "the image contains files of a GPU's driver, in whose place the engine mounts the "
        "machine's: {names}",
        "remove the driver (libcuda, libnvidia-*) from the image: an image that was committed "
        "from a container with GPUs has empty files of these names",
    ),
    cause(
        "gpu-container",
        r"Failed to initialize NVML: (Unknown Error)",
        "the container has lost its access to the GPUs: {names}",
        "start the container again; `systemctl daemon-reload` on the machine takes the devices "
        "away from running containers: name the devices (docker --device /dev/nvidia0 ...), let "
        "the engine use CDI, or set its cgroup driver to cgroupfs",
    ),
    cause(
        "gpu-container",
        r"(?:NVML: |NVMLError_?\w{0,40}: )(Insufficient Permissions|GPU access blocked[^\n]{0,60})",
        "the job's user, or its container, may not open the devices of the GPUs: {names}",
        "give the user the group that owns /dev/nvidia* (`ls -l /dev/nvidia*`; usually video or "
        "render), also in the container (docker --group-add); on Slurm ask for the GPU, as its "
        "cgroup forbids all others",
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
)
"""GPUs that a rank cannot use or does not have, in the order in which they are shown."""
