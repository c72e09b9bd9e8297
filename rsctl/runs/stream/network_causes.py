"""Causes of failed jobs whose ranks do not connect or do not agree: rendezvous, NCCL, gloo, UCX."""

from __future__ import annotations

from rsctl.known_errors import KnownError
from rsctl.runs.stream.service_causes import cause

FABRIC_REMEDY = (
    "check with `ibv_devinfo` in the container that its devices exist and are active; "
    "NCCL_IB_HCA and, for RoCE, NCCL_IB_GID_INDEX must fit all nodes; where each port reaches "
    "only its own rail, set NCCL_CROSS_NIC=0; the limit of locked memory must be high; a lost "
    "node gives this, too; NCCL_IB_DISABLE=1 uses sockets instead"
)
"""The remedy for a failure on InfiniBand or RoCE."""

_NO_ACCESS = r"(?:with (?:error|status)[= ]|status=)(?:4|9|10)\b"
"""Completions by ibv_wc_status: local protection, remote invalid request, remote access."""

_RANK_VARIABLE = r"((?:LOCAL_|NODE_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT))\b"

NETWORK_CAUSES = (
    cause(
        "tcpx",
        r"NET/(?:GPUDirectTCPX|Fas[Tt]rak)\b[^\n]{0,40}?((?:[Ff]ailed|connect\(\)|[Uu]nable)"
        r"[^\n]{1,120})|tcpx\w{1,40}\([^\n]{0,80}NCCL WARN ([^\n]{0,80}ctrl timeout)"
        r"|fastrak_gpumem_manager\.cc:\d{1,5}\] (Number of GPUs[^\n]{1,120})",
        "GPUDirect-TCPX or TCPXO, Google's network for NCCL, failed: {names}",
        "its daemon must run on each node before the ranks, privileged and in the host's network, "
        "in the version that belongs to the plugin, and NCCL must be the plugin's, not the one of "
        "pip (LD_LIBRARY_PATH); only the networks of the GPUs may be attached, so that each GPU "
        "finds its device",
    ),
    cause(
        "timeout",
        r"[Cc]aught collective operation timeout|NCCL timeout|Timed out waiting \d+ms for"
        r"|Timeout at NCCL work|collective timeout from|timed out in blocking wait"
        r"|watchdog got stuck for \d+"
        r"|[Hh]eartbeat monitor timed out"
        r"|failed to (?:pass|respond)[^\n]{0,60}monitoredBarrier"
        r"|monitoredBarrier[^\n]{0,80}timed out|Exception raised from checkTimeout",
        "a collective operation did not end in time",
        "look for a rank that is slow, stuck or lost; all ranks must run the same operations in "
        "the same order",
    ),
    KnownError(
        "rendezvous",
        "start the script with one launcher only; a process of an earlier start, or an old file of "
        "init_method file://, counts too: give each start a port or a file of its own, as "
        "run.launcher: torchrun does",
        pattern=r"world_size=(\d{1,6}), worker_count=(\d{1,7})\b",
        holds=lambda match: int(match[2]) > int(match[1]),
        summary="more processes joined the process group than it has ranks",
    ),
    cause(
        "rendezvous",
        r"rank \d{1,6} of \d{1,6} ranks has already checked in",
        "two processes have the same rank",
        "let one launcher start one process for each rank, with its own RANK, as run.launcher: "
        "torchrun does; under srun, a task for each GPU (--ntasks-per-node)",
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
        r"[^\n]{0,60}gaierror: "
        r"|(?m:^)(?!\[W)[^\n]{0,300}network addresses of \([^)\n]{1,120}\) could "
        r"not be retrieved \(gai error",
        "a rank cannot resolve the name of the chief (MASTER_ADDR)",
        "let rsctl set MASTER_ADDR; a name in run.env must be resolvable on all nodes, otherwise "
        "use an address",
    ),
    cause(
        "launcher",
        r"env:// rendezvous: environment variable (\w{1,40}) expected, but not set"
        r"|tcp:// rendezvous: ((?:rank|world_size) parameter) missing"
        r"|Default process group (?:has|is) not (?:been )?initialized()"
        r"|parallel group is not initialized()|torch\.distributed is not yet initialized()"
        r"|assert (?:\w{1,40}\.){0,3}(?:dist|distributed|c10d)\.(?:\w{1,40}\.)?_?(?:is_)?"
        r"initialized\b[^\n]{0,60}\n(?:[\s~^]{1,200}\n)?[^\n]{0,12}AssertionError()"
        r"|Error: [^\n]{0,80}(?:[Cc]ould not find|[Mm]issing|must set|requires?)[^\n]{0,40}\W"
        rf"{_RANK_VARIABLE}|Error: [^\n]{{0,80}}\b{_RANK_VARIABLE}[^\n]{{0,60}}(?:not set"
        r"|not found|not defined|is required|must be set|missing)"
        r"|Error: ([^\n]{0,40}only supports? single[ -]GPU training)",
        "the script requires a process group, and none has been set up: {names}",
        "set run.launcher: torchrun, which sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the "
        "script calls init_process_group",
    ),
    cause(
        "launcher",
        r"(Hostfile [^\n]{1,200})",
        "DeepSpeed's launcher does not accept its hostfile: {names}",
        "each line is `HOST slots=N`, and each host stands there once; with run.launcher: torchrun "
        "rsctl starts the ranks without a hostfile",
    ),
    cause(
        "mismatch",
        r"(DDP expects same model across all ranks[^\n]{0,120})"
        r"|((?:params?|replicas\[0\])\[\d{1,6}\] in this process with (?:sizes|strides) "
        r"[^\n]{1,100} appears not to match (?:sizes|strides))",
        "the ranks built different models, or a rank did not build its model: {names}",
        "build the model on all ranks from the same settings, checkpoint, seed and versions of "
        "packages, and before DDP make no parameter or layout depend on the rank or its data; for "
        "strides, call contiguous() on the parameters; a rank without parameters has an earlier "
        "error in its log",
    ),
    cause(
        "mismatch",
        r"Detected mismatch between collectives on ranks|Is there a distributed collective mismatch"
        r"|op\.preamble\.length <= op\.nbytes"
        r"|[Mm]essage truncated : (?:receiving|received) \d{1,12} bytes instead of"
        r"|disagreement between rank\d|collective mismatch error"
        r"|Unable to unpickle data from other workers"
        r"|[Mm]ismatched collective detected|may be caused by a collective mismatch"
        r"|/distributed_c10d\.py\", line \d{1,6}, in \w{0,30}object\w{0,8}\n[^\n]{0,200}\n"
        r"(?:[^\n\w]{1,200}\n)?[^\n]{0,20}(?:RuntimeError: (?:Trying to create tensor with negative"
        r"|\[enforce fail|Invalid)|_pickle\.UnpicklingError|EOFError)"
        r"|Error: [^\n]{1,80}(?:are|is) (?:different|inconsistent|not the same) (?:across"
        r"|between|among"
        r"|on) (?:all )?(?:the )?(?:GPUs|ranks|processes|workers)\b"
        r"(?![\s\S]{0,400}?= {1,4}nan\b)",
        "ranks ran different collective operations, or one with tensors of different sizes",
        "give all ranks tensors of the same shape and type in the same order, and make all ranks "
        "follow the same path through the script; branches on the rank may only contain work that "
        "needs no other rank; NCCL and its variables must be the same on all nodes",
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
        r"[Cc]onnect(?:ing)? to ([\da-fA-F.:]{2,45}(?:%\w{1,20})?)<\d{1,5}> failed"
        r"|socketPollConnect: connect returned (No route to host)"
        r"|NCCL WARN (?!Call to ibv)[^\n]{0,120}(No route to host|Connection (?:refused"
        r"|timed out))|Call to (?:connect|recv|send"
        r"|accept)\w{0,4} [^\n]{0,100}failed ?: ?((?:No route to"
        r" host|Connection (?:refused|timed out)|Network is unreachable))",
        "NCCL uses a network interface that cannot reach the other nodes: {names}",
        "set NCCL_SOCKET_IFNAME in run.env to the nodes' common interface, such as eth0, and "
        "exclude others such as docker0 and lo with ^docker0,lo",
    ),
    cause(
        "interface",
        r"gloo/transport/tcp/device\.cc[^\n]{0,80}Unable to find address for:? ?(\S{1,100})"
        r"|Unable to resolve hostname to a()|makeDeviceForInterface()|unable to find interface()"
        r"|[Nn]o socket interface found()|(address family mismatch|ss_family == ss2\.ss_family)"
        r"|ncclSocketInit: [^\n]{0,80}(family \d{1,9} is neither AF_INET)"
        r"|WARN (Socket creation failed ?: Address family not supported)",
        "gloo or NCCL finds no network address of this node, or none of the kind (IPv4, IPv6) that "
        "the others have: {names}",
        "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME in run.env to an interface that exists on "
        "all nodes and has an address, such as eth0 (gloo takes no ^); or let each node's host "
        "name be resolvable, on all nodes to the same kind of address",
    ),
    cause(
        "nvshmem",
        r"nvshmem\S{0,200}:\d{1,5}: ((?:non-zero status: -?[1-9]|NULL value)[^\n]{0,120})"
        r"|(aborting due to error in nvshmem\w{0,60}|nvshmem initialization failed)"
        r"|(NVSHMEM API called before NVSHMEM initialization)",
        "NVSHMEM, which DeepEP and others use, could not start or reach the other nodes: {names}",
        "set NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME and NVSHMEM_HCA_LIST in run.env to the interface "
        "and the devices that all nodes share; IBGDA needs the nodes' nvidia driver to allow it "
        "(PeerMappingOverride=1) and /dev/infiniband in the container, otherwise set "
        "NVSHMEM_IB_ENABLE_IBGDA=0",
    ),
    cause(
        "nccl-ib",
        rf"NET/IB[^\n]{{0,160}}{_NO_ACCESS}",
        "an adapter of InfiniBand or RoCE may not read or write the memory that NCCL gave it",
        "load nvidia-peermem on the nodes, or use dmabuf; turn off PCIe ACS and the IOMMU's "
        "translation on bare machines; NCCL_NET_GDR_LEVEL=LOC in run.env sends by the host's "
        "memory instead",
    ),
    cause(
        "nccl-ib",
        r"\b(ibv_(?!fork)\w{1,40})(?:\(\))? failed|mlx5: \S{1,100}: (got completion with error)"
        rf"|NET/IB ?: (?:Got completion)(?![^\n]{{0,160}}{_NO_ACCESS})"
        r"|IBV_WC_(?!SUCCESS)\w{1,40}ERR|(Ib failure: [^\n)]{1,60})",
        "NCCL, or another library, failed on InfiniBand or RoCE: {names}",
        FABRIC_REMEDY,
    ),
    cause(
        "ucx",
        r"UCX {1,2}ERROR +([^\n]{1,160}?(?:Cannot allocate memory|No space left"
        r"|Resource temporarily)"
        r"[^\n]{0,60})",
        "UCX, the transport of MPI, could not take more memory or queues for the network device: "
        "{names}",
        "raise the limits of locked memory (ulimit -l unlimited) and of mappings (sysctl "
        "vm.max_map_count) on the nodes, start fewer ranks on each, or set UCX_TLS=ud,sm,self or "
        "tcp,sm,self, which need fewer queues",
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
)
"""In the order in which they are shown."""
