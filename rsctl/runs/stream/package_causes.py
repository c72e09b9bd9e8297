"""Causes of failed jobs that concern packages and libraries: missing, or built for others."""

from __future__ import annotations

from rsctl.known_errors import WRONG_ARCHITECTURE
from rsctl.runs.stream.accelerator_causes import SMDDP_LIBRARY
from rsctl.runs.stream.service_causes import cause

_CUDA_LIBRARY = (
    r"lib(?:cudart|cublas(?:Lt)?|cudnn|cufft|curand|cusolver|cusparse(?:Lt)?|cupti|nvrtc|nvJitLink"
    r"|nvToolsExt|nccl(?!-)|bitsandbytes)(?:[_-]\w{1,40})?\.so[\w.]{0,20}"
)

_NOT_OPENED = r": cannot open shared object file"

COMPILED_PART = (
    r"(?:flash_attn_\w{1,20}|amp_C|apex_C|fused_\w{1,40}|syncbn|\w{1,40}_cuda"
    r"|\w{1,40}\._(?:C|ext)\w{0,20}|scaled_\w{1,40}|MultiScaleDeformableAttention)\b"
)
"""Modules that a package builds with a compiler, and that no package of their name brings."""

_NOT_A_PACKAGE = rf"smdistributed|torch\._six|{COMPILED_PART}|(?:pkg_resources|distutils|imp)\b"
"""Modules that no package of their name brings; other rows explain them."""

PACKAGE_CAUSES = (
    cause(
        "module",
        rf"No module named '((?!{_NOT_A_PACKAGE})\w+(?:\.\w+)+)'"
        r"(?!; '\w{1,60}' is not a package)",
        "a package or folder of this name is found, but does not have the module: {names}",
        "install the version of the package that the script was written for in image.python; if "
        "the published package has only a part, put its repository into image.source and its "
        "folder into PYTHONPATH; look for your own file or folder with the name of the package",
    ),
    cause(
        "module",
        rf"ModuleNotFoundError: No module named '(?!{_NOT_A_PACKAGE})([\w.]+)'"
        r"|(?:^|[\s/])python[\d.]{0,5}: No module named '?(?!smdistributed)([\w.]+)"
        r"|ImportError: No module named ([\w.]{1,80})"
        r"|ImportError: ([\w.-]{1,60})(?: \w{1,20}){0,2} (?:is|are) not installed"
        r"|ImportError: No ([\w.-]{1,60}) / "
        r"|ImportError: [^\n]{0,80}[Pp]lease (?:pip )?install (?:the )?[`'\"]?([\w.-]{1,60})\b"
        r"|ImportError: (?![^\n]{0,200}[<>=]=)[^\n]{0,200}\n{0,2}[^\n]{0,160}`?pip3? install "
        r"(?:-U |--upgrade )?[\"']?([\w.-]{1,60})"
        r"|You need to have `?(\w{1,60})`? (?:or `?\w{1,60}`? )?installed"
        r"|Error: [^\n]{0,80}\brequires `?([\w.-]{1,60})`? to be installed",
        "a Python module is missing: {names}",
        "add it to image.python; on target process, install it in the environment of rsctl; if its "
        "package is there, look for another version of it, and for your own file of its name",
    ),
    cause(
        "requirements",
        r"InstallModuleError|InstallRequirementsError"
        r"|Could not find a version that satisfies the requirement ([\w.\[\]-]{1,80})"
        r"|No matching distribution found for ([\w.\[\]=<>~!-]{1,80})"
        r"|((?:Package|[Pp]roject) \S{1,80} requires a different Python: [^\n]{1,60})"
        r"|Could not open requirements file: ([^\n]{1,160})|(\S{1,120} is not a supported wheel on "
        r"this platform)|(THESE PACKAGES DO NOT MATCH THE HASHES)"
        r"|Invalid requirement: ([^\n]{1,80})"
        r"|(externally-managed-environment)"
        r"|(?:PackagesNotFound|ResolvePackageNotFound)\w{0,6}: ?\n?([^\n]{0,160})"
        r"|(CondaHTTPError: [^\n]{1,120})",
        "pip or conda could not install a requirement of the script: {names}",
        "correct its name and version for the image's Python, or install it in the image with "
        "image.python: without internet access pip finds nothing",
    ),
    cause(
        "requirements",
        r"Cannot install ([^\n]{1,200}) because these package versions have conflicting"
        r"|The conflict is caused by:\n\s{0,9}([^\n]{1,120})|(ResolutionImpossible)"
        r"|(\w{0,10}UnsatisfiableError)|(No solution found when resolving [^\n]{0,60})"
        r"|(SolverProblemError)|(Could not solve for environment specs)",
        "no versions of the required packages fit each other: {names}",
        "see the list of the conflict below it; loosen or remove the pinned versions that exclude "
        "each other, one by one",
    ),
    cause(
        "cuda-library",
        r"CUDA Setup failed despite (?:GPU|CUDA) being available|CUDA SETUP: Setup Failed"
        r"|Configured CUDA binary not found at \S{0,200}bitsandbytes"
        r"|Attempted to use bitsandbytes native library functionality"
        r"|object has no attribute 'cget_\w{1,30}'"
        r"|libbitsandbytes_cpu\.so: undefined symbol: c[a-z]",
        "bitsandbytes has no library for the CUDA of the installed torch, or finds no CUDA",
        "install a newer bitsandbytes with image.python, whose package has a library for that "
        "CUDA, and remove BNB_CUDA_VERSION; on a node with a GPU `python -m bitsandbytes` shows "
        "what it looks for, and LD_LIBRARY_PATH must have the folder of libcudart",
    ),
    cause(
        "cuda-library",
        rf"Could not load library ({_CUDA_LIBRARY})"
        rf"|({_CUDA_LIBRARY}): cannot open shared object file",
        "a package was built for a CUDA library that is not installed: {names}",
        "install a build of the package for the installed CUDA, or use an image.base with the "
        "required CUDA version",
    ),
    cause(
        "gpu-container",
        rf"(?<![\w.+-])(lib(?:cuda|nvidia-[\w-]{{1,30}}|nvcuvid"
        rf"|nvoptix)\.so[\w.]{{0,20}}){_NOT_OPENED}"
        r"|Error: [^\n]{0,200}[Ff]ailed to load (libcuda\.so(?:\.\d{1,3})?)",
        "a library of the GPU's driver is not in the container: {names}",
        "it comes with the driver of the machine, and not from a package: request a GPU "
        "(workers.accelerator), or start the container with one (docker --gpus all); for video and "
        "graphics set NVIDIA_DRIVER_CAPABILITIES=all in run.env",
    ),
    cause(
        "library",
        rf"(?<![\w.+-])(lib(?:mpi|open-(?:rte|pal)|pmix|prrte|ucp|ucs|uct)[\w+-]{{0,30}}\.so"
        rf"[\w.]{{0,12}}){_NOT_OPENED}",
        "a library of MPI is missing: {names}",
        "install the MPI that the program or mpi4py was built for: libmpi.so.40 is Open MPI "
        "(image.apt: [libopenmpi3]), libmpi.so.12 MPICH or Intel MPI ([libmpich12]); one outside "
        "the system's folders needs LD_LIBRARY_PATH in run.env; or build mpi4py again for the "
        "installed MPI",
    ),
    cause(
        "library",
        rf"(?<![\w.+-])(lib(?:ibverbs|rdmacm|mlx\d|efa|fabric"
        rf"|psm2?)[\w+-]{{0,30}}\.so[\w.]{{0,12}})"
        rf"{_NOT_OPENED}",
        "a library for InfiniBand, RoCE or EFA is missing: {names}",
        "add it to the image (image.apt: [libibverbs1, librdmacm1, ibverbs-providers]); libfabric "
        "and libefa come with the EFA installer",
    ),
    cause(
        "library",
        r"(Unable to load libhdfs|Can not find the shared library: libhdfs\w{0,9})"
        r"|root cause for (java\.lang\.NoClassDefFoundError)|(JAVA_HOME is not set)"
        r"|([Uu]nable to locate a Java Runtime)|(JVM shared library [^\n]{0,60}not found)",
        "the classes of Hadoop, or Java, were not found: {names}",
        "install both in the image, and set JAVA_HOME and HADOOP_HOME, ARROW_LIBHDFS_DIR for "
        "libhdfs, and in all ranks CLASSPATH to the output of `hadoop classpath --glob`; data that "
        "is not on HDFS needs another path",
    ),
    cause(
        "library",
        rf"(?<![\w.+-])(libpython[\w.]{{1,20}}){_NOT_OPENED}",
        "the library of Python itself is missing, or the job's user may not read it: {names}",
        "install it (image.apt, such as [libpython3.11]), or put the lib folder of that Python in "
        "LD_LIBRARY_PATH in run.env; a Python below /root only works for root: install it "
        "elsewhere",
    ),
    cause(
        "binary",
        rf"(?<![\w.+-])(lib(?:torch|c10)(?:_\w{{1,30}}|audio"
        rf"|vision)?\.so[\w.]{{0,12}}){_NOT_OPENED}",
        "an extension needs a library that the installed torch does not have: {names}",
        "install the build of the extension for this torch; libtorch_cuda and libc10_cuda are "
        "missing in a CPU build of torch; import torch before the extension",
    ),
    cause(
        "library",
        r"(?<![\w.+/-])([\w.+/-]{1,4095}): cannot allocate memory in static TLS block",
        "a library was loaded too late, as its place in each thread's memory (TLS) is taken: "
        "{names}",
        "set LD_PRELOAD in run.env to its path, or import the package that brings it first",
    ),
    cause(
        "library",
        r"(?<![\w.+-])([\w.+-]{1,255}): failed to map segment from shared object",
        "a library cannot be loaded, as its folder forbids programs (noexec) or memory is short: "
        "{names}",
        "set TMPDIR in run.env to a folder that is mounted without noexec; otherwise raise the "
        "limit of memory (ulimit -v)",
    ),
    cause(
        "library",
        r"Could not load (libtorchcodec)|(TorchCodec is required for \w{1,40})"
        r"|(Couldn't find appropriate backend to handle uri)",
        "torchaudio or datasets cannot decode audio or video: {names}",
        "add ffmpeg to image.apt, and install the torchcodec that belongs to torch's version in "
        "image.python (its page has the table); for older packages soundfile, or datasets<4",
    ),
    cause(
        "library",
        rf"Could not load library (?!{_CUDA_LIBRARY})(lib[\w.+-]{{1,80}})"
        rf"|(?<![\w.+-])(?!{_CUDA_LIBRARY}|{SMDDP_LIBRARY}|libnccl-|libtorch[._]|libc10)"
        rf"(lib[\w.+-]{{1,80}}): cannot "
        rf"open "
        r"shared object file",
        "a system library is missing: {names}",
        "add its package to image.apt: libgl1 for libGL, libglib2.0-0 for libgthread and libglib, "
        "ffmpeg for libav*; opencv-python-headless needs no libGL; on target "
        "process, install it on this machine; `apt-file search` names the package of other "
        "libraries",
    ),
    cause(
        "numpy",
        r"numpy\.\w{1,20} size changed, may indicate binary incompatibility\. Expected \d+ from C",
        "a package was built for another version of NumPy than the installed one",
        "install a newer version of the package, or the older NumPy: numpy<2",
    ),
    cause(
        "protobuf",
        r"Descriptors (?:cannot (?:not )?be|should not be) created directly"
        r"|Couldn't build proto file"
        r"|'?MessageFactory'? object has no attribute|from 'google\.protobuf|\bgoogle\.protobuf"
        r"[\w.]{0,60}VersionError|incompatible Protobuf Gencode"
        r"|compiled against version \S{1,12} of "
        r"the Protocol Buffer|File already exists in database",
        "the installed protobuf does not fit a package whose generated code uses it",
        "install a newer version of the package (tensorboard, tensorboardX, wandb, onnx), or the "
        "protobuf that it was made for: protobuf<4 (3.20.3) in image.python for older ones",
    ),
    cause(
        "weights-only",
        r"Weights only load failed",
        "since version 2.6, torch.load does not load a checkpoint with objects other "
        "than tensors by default",
        "if you trust the checkpoint, load it with torch.load(..., weights_only=False), or allow "
        "its classes with torch.serialization.add_safe_globals",
    ),
)
"""Missing packages and libraries, in the order in which they are shown."""

BINARY_CAUSES = (
    cause(
        "binary",
        r"(?<![\w.+-])([\w.+-]{1,255}\.so[\w.]{0,20}): undefined symbol",
        "a compiled extension was built for a different torch, or other library, than "
        "the installed one: {names}",
        "install its build for the installed versions of Python, torch and CUDA, or build it "
        "there; a wheel that pip has cached may be for another torch",
    ),
    cause(
        "binary",
        r"symbol (\w{1,100},? version \S{1,40} not defined in file (?!lib(?:cu|nv|nccl))\S{1,60})"
        r"|(\S{1,120}: version `(?!GLIBC|CXXABI)\S{1,40}' not found \(required by [^\n]{1,120})",
        "a library is of another version than the one that a program was linked with: {names}",
        "keep one copy of it: remove others from LD_LIBRARY_PATH and LD_PRELOAD, and do not mix "
        "conda's libraries with the system's or pip's",
    ),
    cause(
        "libc",
        r"version [`'\u2018]((?:GLIBC|GLIBCXX|CXXABI)_[\d.]{1,12})'? not found",
        "a system library is too old for a program or extension: it needs {names}",
        "use a newer image.base, or a build of it for the older library",
    ),
    cause(
        "architecture",
        rf"{WRONG_ARCHITECTURE}|no matching manifest for |no match for platform in manifest",
        "the image, or a program, is for a different processor architecture than the machine's, or "
        "the program is a script without a first line such as #!/bin/bash",
        "build it for the machine's: amd64, or arm64 for Grace and Graviton; add a script's first "
        "line, or start it with its interpreter, such as `bash SCRIPT`",
    ),
)
"""Compiled code that does not fit, in the order in which they are shown."""
