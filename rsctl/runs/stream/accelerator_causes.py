"""Causes of failed jobs on accelerators other than GPUs and on AWS's networks: Neuron, Ascend,
Gaudi, oneCCL, aws-ofi-nccl, smddp, and NCCL's view of a machine.

Sources: texts of tests/fixtures/real; aws/aws-ofi-nccl; AWS Neuron's guide to its runtime's errors;
torch_npu.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

SMDDP_LIBRARY = r"lib(?:smddp|herring)\w{0,40}\.so"

HARMLESS_WARNING = (
    r"Failed to (?:open|find)|Cuda failure 'peer|NET/IB ?: (?:\S{1,40} )?(?:GID table changed"
    r"|Got async event ?: (?:client|SM|LID|GID|P_Key|port active))"
    r"|Warning: |NET/OFI (?:WARNING: |Use of |CUDA flush|AWS platform)"
    r"|[^\n]{0,200}(?:[Ff]alling back|[Ii]gnoring|[Uu]nsetting|setting to|instead(?! of)"
    r"|as fallback)"
)
"""How warnings of NCCL begin that a training outlives."""

ACCELERATOR_CAUSES = (
    cause(
        "efa",
        r"NET/OFI Only EFA provider is supported"
        r"|fi_getinfo: provider efa (?:output empty list|returned -\d)"
        r"|fi_getinfo\(\) call failed: No data|NET/OFI [^\n]{0,80}No eligible provider",
        "aws-ofi-nccl found no EFA device",
        "use a machine type with EFA, whose devices the container is given (/dev/infiniband), and "
        "security groups that allow all traffic among the nodes, or remove the EFA transport from "
        "the image",
    ),
    cause(
        "efa-fork",
        r"libfabric EFA provider is operating in\s{1,9}a condition"
        r"|RDMAV_FORK_SAFE[\s\S]{0,400}?abort",
        "a process forked while it used EFA, which EFA's library refuses",
        "set FI_EFA_FORK_SAFE=1 in run.env, with libfabric before 1.13 RDMAV_FORK_SAFE=1, or use a "
        "newer EFA installer",
    ),
    cause(
        "efa-peer",
        r"Unresponsive (?:remote|receiver)|becomes unresponsive|[Uu]nreachable remote"
        r"|RNR retries|[Rr]eceiver not ready"
        r"|reachable by EFA device but handshake failed|message: Invalid address My EFA addr",
        "a node did not answer through EFA: it ended, is overloaded, or cannot be reached",
        "see the other nodes' logs for an earlier failure; the security group must allow all "
        "traffic within itself, in both directions",
    ),
    cause(
        "ofi-memory",
        r"NET/OFI Unable to register memory|fi_mr_reg(?:attr)?\b[^\n]{0,40}(?:failed|error)"
        r"|Unable to register memory \(type",
        "aws-ofi-nccl could not register memory with the network device",
        "update the EFA installer in the image (image.transport: efa) to one that knows the "
        "image's NCCL; with libfabric before 1.19, set FI_EFA_SET_CUDA_SYNC_MEMOPS=0 in run.env; "
        "for `Cannot allocate memory`, raise the limit of locked memory",
    ),
    cause(
        "ofi",
        r"(?<!NCCL INFO )NET/OFI ((?!Only EFA|Unable to register memory|OFI fi_getinfo)"
        r"[^\n]{0,200}?(?:[Ff]ailed|[Ff]ailure|[Ee]rror|[Cc]ould ?n[o']t|[Cc]annot|[Uu]nable"
        r"|[Nn]o (?:valid))[^\n]{0,120})"
        r"|Libfabric EFA provider has encountered an|Unable to write to EQ: Missing"
        r"|prov_errno: [^\n]{0,60}prov/efa/",
        "aws-ofi-nccl, NCCL's plugin for EFA, failed: {names}",
        "use matching versions of EFA's installer, aws-ofi-nccl and NCCL in the image "
        "(image.transport: efa); let the security group allow all traffic within itself; see "
        "which node failed first: a lost peer gives this, too",
    ),
    cause(
        "nccl-topology",
        r"(?:xml|topo|paths|search)\.(?:h|cc):\d{1,5} NCCL WARN (?!Could not find a path for)"
        r"|NCCL WARN [^\n]{0,60}?(?:XML|[Tt]opology|of node \w{1,20} not found)"
        r"|Attribute \w{1,20} of node \w{1,20} not found",
        "NCCL does not understand the topology of the machine",
        "remove NCCL_TOPO_FILE and NCCL_GRAPH_FILE from run.env, the image and /etc/nccl.conf; "
        "update NCCL and aws-ofi-nccl, whose file for the machine may be outdated; use all GPUs "
        "of the machine",
    ),
    cause(
        "hccl",
        r"Failed to initialize the HCC[A-Z] process|IP address and port have been bound already"
        r"|port \d{1,5} have already been bound",
        "an earlier program still holds Ascend's devices, or the port of HCCL",
        "end its processes (`npu-smi info` shows them), and wait some seconds before the next "
        "start; give two jobs of a machine different ports: HCCL_IF_BASE_PORT in run.env",
    ),
    cause(
        "hccl",
        r"\b(Getting socket times out)|\b(No rank in the communicator can connect[^\n]{0,40})"
        r"|Communication_Error_(?!Bind)(\w{1,40})",
        "a rank did not answer the others through HCCL in time: {names}",
        "see the logs of all ranks for one that failed or is slower; raise HCCL_CONNECT_TIMEOUT "
        "for a slow start; the nodes reach each other through HCCL_IF_IP or HCCL_SOCKET_IFNAME",
    ),
    cause(
        "gaudi",
        r"Device acquire failed|synDeviceAcquire\b[^\n]{0,60} failed",
        "a process could not get a Gaudi device",
        "end the processes that hold one (`hl-smi` shows them), start no more ranks than "
        "HABANA_VISIBLE_DEVICES has devices, and start containers with Habana's runtime; the "
        "image's version of Synapse must be that of the driver",
    ),
    cause(
        "neuron-device",
        r"No neuron device available|TDRV:tdrv_init_mla_phase1\s{1,80}Could not open the nd\d"
        r"|TDRV:tdrv_init_mla_phase1\W[^\n]{0,40}Could not open the device"
        r"|NERR_RESOURCE_NC|[Ii]nsuffici?ent NCs|NRT_(?:LOAD_NOT_ENOUGH_NC|EXEC_NC_BUSY)"
        r"|Neuron ?Core\(s\) not available|Neuron runtime cannot be initialized"
        r"|PJRT_Client_Create: [^\n]{0,120}num_devices > 0",
        "a process found no free Neuron device",
        "start one process for each NeuronCore, and no other processes that use them; check that "
        "workers.machine has NeuronCores, the container /dev/neuron*, and the node a driver of the "
        "image's Neuron SDK",
    ),
    cause(
        "neuron-memory",
        r"nrt_tensor_allocate\w{0,20}[^\n]{0,40}status=[1-9]|nrt_\w{1,40} status=4\b|NRT_RESOURCE\b"
        r"|(?:TDRV|NRT):\w{0,40}\]?[^\n]{0,80}Failed to alloc|Not enough runtime resource to load",
        "the memory of a NeuronCore is exhausted",
        "use a smaller batch or model, tensor or pipeline parallelism, or bf16",
    ),
    cause(
        "neuron-load",
        r"FileNotFoundError: [^\n]{0,40}'(libneuronpjrt-path|neuronx?-cc)'",
        "a program of the Neuron SDK's Python packages is not in PATH: {names}",
        "activate the environment that has libneuronxla and neuronx-cc, or add its bin folder to "
        "PATH; use an image.base of the Neuron SDK",
    ),
    cause(
        "neuron-load",
        r"NEFF is invalid|NEFF version: \S{1,20} features: \S{1,40} are not supported"
        r"|(?i:nrt(?:::|_)load)\w{0,30}[^\n]{0,60}?(?:failed|status=[1-9])"
        r"|NRT_UNSUPPORTED_NEFF_VERSION",
        "Neuron's runtime could not load a compiled model (NEFF)",
        "use the compiler and the runtime of one Neuron SDK; start 1, 2, 8, 16 or a multiple of 32 "
        "ranks, and only one ml.trn1.2xlarge; delete a compiler cache of another version",
    ),
    cause(
        "neuron-compile",
        r"neuronx?-cc (?:compilation )?(?:failed|terminated|INTERNAL_ERROR)"
        r"|Command '\['neuronx?-cc'"
        r"|Failed compilation with \['neuronx?-cc'(?![\s\S]{0,1200}module compiled against A)"
        r"|\bNCC_[A-Z]{3,5}\d{2,4}"
        r"|\[neuronx?-?cc[\w.]{0,40}\]: [^\n]{0,40}Internal Compiler Error"
        r"|Compiler status (?:ERROR|FAIL)"
        r"|NCC_WRAPPER\|\|: Compilation failed|RunNeuronCCImpl: error"
        r"|neuronx?-cc was forcibly killed",
        "Neuron's compiler could not compile a graph of the model",
        "see the compiler's own error above; update the Neuron SDK, replace the operation that it "
        "names, and give the node more memory if the compiler was killed",
    ),
    cause(
        "neuron-network",
        r"NRT_NETWORK_PROXY|likely not enough EFA devices|(?:ENC|CCOM)[: ][^\n]{0,120}?(?:failed"
        r" to (?:connect|accept)|[Cc]onnection refused|OFI plugin|net plugin)",
        "Neuron's collectives could not connect the nodes",
        "use a machine type with EFA, and as many ranks on each node as it has NeuronCores, with "
        "groups that fit its ring; the security group must allow all traffic within itself",
    ),
    cause(
        "nan-loss",
        r"NRT_EXEC_COMPLETED_WITH_NUM_ERR",
        "a NeuronCore computed a value that is NaN",
        "use a smaller learning rate, more warm-up, clipped gradients or bf16 with stochastic "
        "rounding (NEURON_RT_STOCHASTIC_ROUNDING_EN=1); look at the batch of that step",
    ),
    cause(
        "neuron-run",
        r"NRT_(?:HW_ERROR|EXEC_HW_ERR_(?!COLLECTIVES)|EXEC_UNIT|EXEC_COMPLETED_WITH_ERR)\w{0,30}",
        "a Neuron device failed, not the script",
        "submit again; with limits.retries and checkpoints, a job resumes automatically",
    ),
    cause(
        "neuron-run",
        r"NRT_(?:EXEC_HW_ERR_COLLECTIVES|EXEC_SW_NQ|TIMEOUT|COLL_PENDING)|nrt_\w{1,40} status=5\b",
        "a collective operation or an execution of Neuron did not end: another worker failed, or "
        "runs other operations",
        "see the logs of all replicas for the first failure; all ranks must run the same graphs in "
        "the same order; if one machine alone fails, submit again on another one",
    ),
    cause(
        "neuron-run",
        r"(NRT_(?:EXEC_OOB|EXEC_BAD_INPUT|INVALID\w{0,10}))",
        "a graph of Neuron got an input that it does not accept: {names}",
        "look for an index outside its table, such as a label or token above the vocabulary, and "
        "for inputs of other shapes or types than the graph was compiled for",
    ),
    cause(
        "neuron-run",
        r"nrt_(?!tensor_allocate|load)\w{1,40}[^\n]{0,40}?(?:status=[1-9]|failed)"
        r"|NRT_(?:EXEC|FAILURE|UNINITIALIZED|CLOSED|QUEUE)\w{0,30}|NERR_(?!RESOURCE)\w+",
        "Neuron's runtime failed on a NeuronCore",
        "see the first ERROR line of NRT or TDRV in the log: numerical errors come from the "
        "model, hardware errors go away with another machine, and a timeout follows a lost rank",
    ),
    cause(
        "neuron-cores",
        r"Unsupported topology\. Supported number of Neuron Cores",
        "the number of ranks does not match the NeuronCores of the machine",
        "start 1, 2, 8, 16 or a multiple of 32 ranks: one for each NeuronCore that is used",
    ),
    cause(
        "smddp-missing",
        rf"No module named \W?smdistributed|({SMDDP_LIBRARY}[\w.]{{0,20}}): cannot open shared",
        "the image does not contain AWS's library smddp, or only a part of it: {names}",
        "use an image of AWS that contains it, PyTorch 2.4 at most, with CUDA of the same name, "
        "or set comm.backend: auto; pip does not have it",
    ),
    cause(
        "smddp",
        r"SMDDP does not support:? ?(\w{0,60})|module 'smdistributed[\w.]{0,80}' has no attribute"
        r"|[Cc]ould ?n[o']t initialize SMDDP",
        "AWS's library smddp does not support this operation, or its version does not: {names}",
        "use comm.backend: auto (NCCL), which supports all operations; with smddp, reduce with "
        "SUM and divide, and use its interface of version 1.4 and later, torch.distributed",
    ),
)
"""In the order in which they are shown."""

GENERAL_ACCELERATOR_CAUSES = (
    cause(
        "neuron-run",
        r"\bERROR\s{1,9}(?:TDRV|NRT|NMGR|KMGR|NEFF|ENC|CCOM|HAL):\w|CCOM WARN ",
        "Neuron's runtime reported an error",
        "see its first ERROR line in the log; NEURON_RT_LOG_LEVEL=INFO in run.env shows more",
    ),
    cause(
        "smddp",
        r"[Ee]rror[^\n]{0,120}(?:SMDDP|smddp|smdistributed)|SMDDPError",
        "AWS's library smddp failed",
        "use comm.backend: auto (NCCL), or an image whose smddp is for its PyTorch and CUDA",
    ),
    cause(
        "hccl",
        r"Error_Invalid_Environment_Variable\(\w{6}\): ([^\n]{1,160})"
        r"|(?:HCCL|OPS) function error: (\w{0,4}[Hh]ccl\w{1,40}[^\n]{0,20}?)(?:\(|,|$|\n)"
        r"|HCCL error in: (\S{1,160})",
        "HCCL, the collectives of Ascend's devices, failed: {names}",
        "see the lines after it, whose code (EI..., EJ...) and Reason name the cause, and the logs "
        "of the other ranks; start no more ranks than the machine has devices; ASCEND_GLOBAL_"
        "LOG_LEVEL=1 in run.env shows more",
    ),
    cause(
        "gaudi",
        r"synStatus[ =]{1,3}(?:synStatus )?(\d{1,3} ?\[[^\]\n]{1,60}\])"
        r"|Habana exception raised from (\w{1,60})",
        "Synapse, the software of Gaudi devices, failed: {names}",
        "see the first error in the folder of HABANA_LOGS; use an image whose Synapse, PyTorch and "
        "optimum-habana belong together and to the driver; try a smaller batch",
    ),
    cause(
        "oneccl",
        r"\|CCL_ERROR\| (\S{1,60} [^\n]{1,160})|oneCCL: ([^\n]{1,160})",
        "oneCCL, the collectives of Intel's devices, failed: {names}",
        "where it finds no provider, set FI_PROVIDER=tcp and FI_PROVIDER_PATH, or load the "
        "variables of oneAPI (setvars.sh); where it does not know the local ranks, set "
        "CCL_ZE_IPC_EXCHANGE=sockets, or run.launcher: mpi; CCL_WORKER_AFFINITY may name only CPUs "
        "of the job; CCL_LOG_LEVEL=info shows more",
    ),
    cause(
        "nccl",
        rf"NCCL WARN (?!{HARMLESS_WARNING})|NCCL failure \S{{1,60}}:\d",
        "NCCL failed; its warnings in the log say why",
        "read the first line with NCCL WARN; set NCCL_DEBUG=INFO in run.env to see more",
    ),
    cause(
        "ofi",
        r"libfabric:[\d:]{1,30}:efa:[^\n]{0,200}?(?:[Ee]rr(?:or|:)|[Ff]ailed|[Uu]nable"
        r"|exhausted|[Tt]runcated|mismatch|[Cc]annot|is currently required)",
        "libfabric, EFA's library, reported an error",
        "see the first such line; use a matching EFA installer in the image (image.transport: efa)",
    ),
    cause(
        "toolkit",
        r"sagemaker[-_](?:training-toolkit|containers)\s{1,5}ERROR\s{1,5}[Ff]ramework [Ee]rror",
        "the toolkit of SageMaker's image failed before it started the script",
        "see its traceback: the program's name (run.script), a download, or a hyperparameter",
    ),
)
"""For texts without any other cause."""
