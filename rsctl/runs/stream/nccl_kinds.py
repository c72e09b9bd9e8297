"""Kinds of failures of NCCL by its first warning, whose file and words name the part that failed.

Sources: the warnings in the code of NCCL and of aws-ofi-nccl.
"""

from __future__ import annotations

from rsctl.runs.stream.network_causes import FABRIC_REMEDY
from rsctl.runs.stream.service_causes import cause

NCCL_KINDS = (
    cause(
        "ofi",
        r"NET/OFI",
        "aws-ofi-nccl, NCCL's plugin for EFA, failed",
        "use matching versions of EFA's installer, aws-ofi-nccl and NCCL in the image "
        "(image.transport: efa), and remove its OFI_NCCL_ variables from run.env; let the security "
        "group allow all traffic within itself; see which node failed first: a lost peer gives "
        "this, too",
    ),
    cause(
        "shared-memory",
        r"\bshm\w{0,5}\.(?:cc|h):|[Ss]hared memory|/dev/shm|failed to extend",
        "NCCL could not use the shared memory of the node (/dev/shm)",
        "raise the container's memory; let another user's segments of an earlier run "
        "(/dev/shm/nccl-*) be deleted; NCCL_SHM_DISABLE=1 in run.env does without it",
    ),
    cause(
        "gpu-state",
        r"\bnvls\w{0,5}\.(?:cc|h):|NVLS|MNNVL|IMEX|NVLink SHARP|[Mm]ulticast|\(FABRIC\)",
        "NCCL could not use NVLink's switches between the GPUs (NVLS, MNNVL)",
        "start nvidia-fabricmanager, and for NVLink between nodes nvidia-imex, in the driver's "
        "version; in a container, give it /dev/nvidia-caps-imex-channels; NCCL_NVLS_ENABLE=0 and "
        "NCCL_MNNVL_ENABLE=0 in run.env do without them",
    ),
    cause(
        "nccl-ib",
        r"NET/IB|NET/MLX5|\bnet_ib|\b(?:ibv|mlx5dv)\w{0,10}\.(?:cc|h):|\bibv_|mlx5|DOCA|NCCL_IB_",
        "NCCL failed on InfiniBand or RoCE",
        FABRIC_REMEDY,
    ),
    cause(
        "gpu-libraries",
        r"compiled with|backwards compatible|too old|(?i:requires?) CUDA driver|not supported prior"
        r"|wasn't built with|version \S{1,20} (?:is )?(?:required|or later)|[Pp]lease upgrade"
        r"|\w{0,4}[Dd]lv?sym failed|not found in the library|>= [\d.]{1,6} required|Retrieve \S"
        r"|Invalid config \w{1,40} attribute value -",
        "NCCL does not fit the program, the CUDA or the driver that it is used with",
        "let pip install NCCL with the framework (nvidia-nccl-cu12), keep others out of "
        "LD_LIBRARY_PATH and LD_PRELOAD, and use an image.base whose CUDA the machine's driver "
        "supports",
    ),
    cause(
        "nccl-usage",
        r"\b(?:argcheck|group|enqueue|dev_runtime\w{0,10}|sym\w{0,20}|allocator|rma\w{0,20}"
        r"|gin\w{0,20}|mem_manager|\w{0,10}param\w{0,12}|parser_common)\.(?:cc|h):\d"
        r"|\b(?:register|ce_coll|generate)\.\w{2}:\d|improper usage|[Ii]nvalid (?:rank|device)"
        r"|rank \d{1,6} exceeds|already been destroyed|using the same GPU|NCCL_CTA_POLICY"
        r"|must be initialized via|not initialized via|(?<!')(?<! failed : )invalid argument"
        r"|Invalid config|previous operation returned|revoked|ncclComm(?:Grow|Shrink|Split)"
        r"|pass NULL|is NULL",
        "NCCL refuses a call: its arguments, its order, or a function that is not available here",
        "see the call in the traceback: give each rank a GPU, buffers and a communicator of its "
        "own, make the same calls on all ranks, and none on a communicator that was aborted; "
        "remove NCCL_ variables that the script does not need; a framework's own call needs "
        "the NCCL that it was built for",
    ),
    cause(
        "nccl-topology",
        r"\b(?:graph/\w{1,20}|topo|paths|search|rings|trees|connect|tuning|xml|nvml\w{0,10}"
        r"|mnnvl)\.(?:cc|h):(?!\d{1,5} NCCL WARN (?:NET|Call))|[Tt]opology|nvml|local ranks"
        r"|intra proc ranks|device counts?|No transport found|affinity|PCI (?:bus|device)"
        r"|real path of",
        "NCCL does not find the GPUs, or the way between them, that it expects in the machine",
        "remove NCCL_TOPO_FILE, NCCL_GRAPH_FILE and NCCL_ALGO from run.env, the image and "
        "/etc/nccl.conf; give each rank all GPUs of the node, and the container /sys and "
        "nvidia-smi; all nodes need the same GPUs and network devices",
    ),
    cause(
        "gpu-memory",
        r"'?out of memory'?",
        "NCCL found no free memory on the GPU",
        "leave it some: use a smaller batch, gradient checkpointing or bf16, and let no other "
        "process use the GPU",
    ),
    cause(
        "gpu-fault",
        r"(?:[Cc]u(?:da|Mem|Ctx)|hip[A-Z])\w{0,30}(?: failure| failed|\()"
        r"|CUDA (?:host )?\w?alloc|CUDA (?:device|error)"
        r"|\b(?:cudawrap|p2p|strongstream|gdrwrap|alloc)\.(?:cc|h):|\bgdr_|deviceStream",
        "a call of CUDA, or of GDRCopy, failed inside NCCL",
        "see the earlier errors of this rank; leave free memory on the GPU, and let no other "
        "process use it; set NCCL_P2P_DISABLE=1 in run.env where the GPUs of a node cannot reach "
        "each other, NCCL_GDRCOPY_ENABLE=0 for gdr_ calls; on one machine only it is its driver",
    ),
    cause(
        "memory",
        r"[mc]alloc\(|returned null|[Ff]ailed to (?:allocate|grow)|[Uu]nable to allocate",
        "NCCL could not allocate memory",
        "give the node more memory or use less of it: a smaller batch, fewer data loader workers; "
        "raise the limit of locked memory (ulimit -l)",
    ),
    cause(
        "interface",
        r"[Nn]o (?:socket |usable listening |valid )?(?:interface|\[IPv)|no device found matching"
        r"|_IFNAME|adapter addresses|getting address info|[Aa]ddress family",
        "NCCL finds no network address of this node that it can use",
        "set NCCL_SOCKET_IFNAME in run.env to an interface that exists on all nodes and has an "
        "address of the same kind (IPv4 or IPv6), such as eth0",
    ),
    cause(
        "nccl-network",
        r"\b(?:socket|net_socket|bootstrap|proxy|transport/net|ras\w{0,20}|linux\w{0,20}"
        r"|windows\w{0,20}|coll_net)\.(?:cc|h):|NET/Socket|[Ss]ocket|Bootstrap|[Cc]onnection"
        r"|[Pp]roxy|UDS:|progressing operation=",
        "NCCL could not make, or lost, a connection between two ranks",
        "see the logs of all replicas for an earlier failure, as a rank that ends closes its "
        "connections; if there is none, set NCCL_SOCKET_IFNAME in run.env to the nodes' common "
        "interface, and let all ports between the nodes be open",
    ),
)
"""The first that fits the line of the warning is shown."""
