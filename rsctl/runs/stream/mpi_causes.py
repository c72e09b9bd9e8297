"""Causes of failed jobs whose ranks another program starts: MPI, ssh, Ray and Horovod.

Sources: texts of tests/fixtures/real; messages in the code of Open MPI, PRRTE, MPICH and Horovod.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

MPI_CAUSES = (
    cause(
        "mpi-pmi",
        r"PMI2?_Init (?:failed|returned [1-9-])|[Ee]rror: {1,3}mpi/pmix\w{0,8}: "
        r"|not built with SLURM's PMI support|[Ii]nvalid MPI (?:plugin|type)"
        r"|[Cc]annot find mpi plugin|mpi/pmix\w{0,8}:[^\n]{0,60}ERROR"
        r"|PMIX ERROR: (?!PMIX_SUCCESS|UNPACK|PACK|OUT-OF-RESOURCE)\w|PMIx_Init[^\n]{0,60}fail",
        "MPI and Slurm have no PMI in common",
        "set run.launcher: mpi, or give srun a type of `srun --mpi=list` that the image's MPI was "
        "built with",
    ),
    cause(
        "mpi-slots",
        r"There are not enough slots available in the system|Your job failed to map"
        r"|rmaps-base:alloc-error|All nodes which are allocated for this job are already filled"
        r"|There are no allocated resources for the application|more processes than the ppr for"
        r"|(?i:not) enough (?:slots|node entries)[^\n]{0,60}(?:available|given)"
        r"|No nodes are available for this job|More processes were requested than there are",
        "mpirun was asked for more processes than the nodes have slots for",
        "ask for as many as there are GPUs (or cores), or give mpirun --oversubscribe",
    ),
    cause(
        "mpi-mapping",
        r"(A request was made to (?:bind|map)[^\n]{0,60})|(?:PRTE|PRRTE|ORTE|Open MPI)[^\n]{0,30} "
        r"tried to (bind[^\n]{1,60})(?=[\s\S]{0,200}(?:killed|abort))"
        r"|(while computing bindings[^\n]{0,60}|found no available cpus on)"
        r"|(?:The (?:mapping|binding) request contains an (unrecognized[^\n]{1,60}))"
        r"|(?:invalid|unrecognized) (?:mapping|binding|ranking|ppr)\w{0,10} (?:policy|value)()"
        r"|(rankfile[^\n]{0,80}(?:invalid|unable|not allocated|host was either))",
        "mpirun could not place the processes on the cores of the nodes: {names}",
        "give mpirun --bind-to none, and ask for as many cores as the processes need; correct its "
        "options map-by, bind-to and rankfile",
    ),
    cause(
        "mpi-command",
        r"(?:was unable to (?:launch|start|find)|could not (?:access or execute|find)) (?:the "
        r"specified (?:application|executable)|an executable)"
        r"(?:[\s\S]{0,700}?(?:Executable|File|file or folder|Application name): ?(\S{1,200}))?"
        r"|execvp error on file (\S{1,200})|HYDU_create_process[^\n]{0,120}execvp[^\n]{0,20}error()"
        r"|could not change to (?:the )?(?:working )?directory[^\n]{0,20}?:? ?(/\S{0,200})",
        "a node does not have the program or folder that mpirun starts: {names}",
        "give the program's full path, and a script after its interpreter (python SCRIPT); it "
        "and the folder must exist on all nodes, as in an image "
        "or on a file system that all nodes share",
    ),
    cause(
        "mpi-options",
        r"(?:mpirun|mpiexec|prterun|orterun)[^\n]{0,30}: (?:Error: )?((?:unknown|unrecognized"
        r"|invalid) (?:option|argument)[^\n]{0,100})|match_arg \([^\n]{1,80}\): (unrecognized "
        r"argument[^\n]{0,60})|(error parsing parameters)|(?:mpirun|mpiexec|prterun)[^\n]{0,60}"
        r"(an? unrecognized[^\n]{1,80})|option was listed more than once on\s{1,9}the()",
        "mpirun does not accept its options: {names}",
        "correct them: Open MPI, MPICH and Intel MPI have different options, and Open MPI 5 others "
        "than 4; `mpirun --version` shows which one is found first",
    ),
    cause(
        "mpi-component",
        r"A requested component was not found[\s\S]{0,700}?Component: {1,9}(\S{1,60})"
        r"|(No components were able to be opened in the \S{1,30} framework)"
        r"|(unable to find (?:the correct|an) underlying prterun)"
        r"|(\w{1,12}_init failed for some reason)(?![\s\S]{0,900}PML add procs)"
        r"|you were supposed to get help about:\s{1,9}(\S{1,80})",
        "a part of Open MPI's installation is missing, or cannot be loaded: {names}",
        "remove OMPI_MCA_ variables that name parts the image does not have; if Open MPI was moved "
        "or is another one than the program's, set OPAL_PREFIX, PATH and LD_LIBRARY_PATH to it",
    ),
    cause(
        "locked-memory",
        r"failed to initialize while trying to allocate\s{1,9}some locked memory"
        r"|\"?memlock\"? limits? (?:are|is) (?:set )?too low|RLIMIT_MEMLOCK[^\n]{0,60}(?:too|low)"
        r"|ibv_(?:create_cq|reg_mr)[^\n]{0,40}Cannot allocate memory",
        "the limit of locked memory is too low for the network device",
        "raise it on the nodes (ulimit -l unlimited, /etc/security/limits.conf, the service of "
        "Slurm), for docker with --ulimit memlock=-1",
    ),
    cause(
        "mpi-root",
        r"mpirun has detected an attempt to run as root",
        "mpirun refuses to run as root",
        "set run.launcher: mpi, with which rsctl permits it, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 in run.env",
    ),
    cause(
        "ssh-nodes",
        r"ssh: connect to host (\S{1,100}) port \d{1,5}: (?:Connection|No route|Operation)"
        r"|ssh: Could not resolve hostname (\S{1,100}):|Host key verification failed"
        r"|REMOTE HOST IDENTIFICATION HAS CHANGED|kex_exchange_identification"
        r"|Permission denied \(publickey|host=(\S{1,100}) was not reachable via ssh"
        r"|Command \W{1,3}(?:ssh|pdsh|scp) ([^'\n]{0,160})[^\n]{0,20} returned non-zero",
        "a launcher could not log in to another node by ssh: {names}",
        "set run.launcher: torchrun or mpi, with which rsctl starts the processes of all nodes",
    ),
    cause(
        "mpi-daemons",
        r"(?:ORTE|PRTE|PRRTE|prterun|mpirun|mpiexec) was unable to reliably start one or more "
        r"daemons"
        r"|An? (?:ORTE|PRTE|PRRTE) daemon has unexpectedly failed after launch and before"
        r"|HYD\w{1,40} [^\n]{0,60}unable to (?:connect|get host address|run bstrap_proxy"
        r"|spawn process)|(?:HYDT_|hydra)\w{0,40}[^\n]{0,60}launcher cannot"
        r"|unable to (?:run|launch) (?:the )?(?:bstrap_|hydra_|pmi_)?proxy|check exit codes error"
        r"|HYDU_sock_(?:connect|listen)[^\n]{0,120}(?:unable|refused|timed out)"
        r"|srun returned non-zero exit status \(\d{1,9}\) from launching"
        r"|FORCE-TERMINATE AT \w{0,3}[Uu]nreachable|cannot relay: NOT ALIVE"
        r"|(?:orted|prted): (?:command not found|not found|No such file)"
        r"|unable to complete a TCP connection|(?:was )?unable to (?:establish|find) (?:a |any )?"
        r"(?:TCP connection|usable|reachable)[^\n]{0,60}(?:MPI|peer|interface|pair)"
        r"|Open MPI failed an? (?:OFI|TCP)|tcp_peer_send_blocking|oob_tcp[^\n]{0,80}fail",
        "mpirun could not start its daemons on the other nodes, or they cannot connect back",
        "set run.launcher: mpi, with which rsctl starts them; the same Open MPI must be in the "
        "image of all nodes; name the common interface in OMPI_MCA_oob_tcp_if_include and "
        "OMPI_MCA_btl_tcp_if_include",
    ),
    cause(
        "mpi-version",
        r"Data unpack (?:would read past end of buffer|had inadequate space)"
        r"|PMIX ERROR: (?:UN)?PACK|PMIX ERROR: OUT-OF-RESOURCE in file \S{1,200}unpack"
        r"|UNPACK-PMIX-VALUE: UNSUPPORTED TYPE",
        "the nodes have different versions of Open MPI or PMIx",
        "use the same image on all nodes; set run.launcher: mpi, with which no MPI of a host "
        "starts that of a container",
    ),
    cause(
        "mpi-network",
        r"At least one pair of MPI processes are unable to reach each other"
        r"|btl_tcp\w{0,20}\.c[^\n]{0,80}connect\(\) to \S{1,60} failed"
        r"|OFI (?:addrinfo|getinfo|get address vector map|endpoint open|poll|fi_\w{1,20})\W{0,2} "
        r"?failed|PSM2 was unable to open|Open MPI accepted a TCP connection from what",
        "the ranks of MPI cannot reach each other",
        "name the interface that all nodes share (OMPI_MCA_btl_tcp_if_include in run.env), so that "
        "MPI uses no bridge of docker or libvirt, and let all ports between the nodes be open",
    ),
    cause(
        "mpi-start",
        r"An error occurred in (MPI_Init\w{0,8})|abort before (MPI_INIT) completed"
        r"|(MPI runtime init failed) for some reason"
        r"|ORTE_ERROR_LOG: ([^\n]{1,60}) in file \S{0,80}(?:ess_\w{1,30}|orte_init|session_dir)\.c"
        r"|(ompi_mpi_init: [^\n]{1,80}failed)|(PML add procs failed)"
        r"|MPI_Init\w{0,8} was (?:already )?(called[^\n]{1,60})"
        r"|Fatal error in (?:internal_|P)?(MPI_Init\w{0,8})",
        "MPI could not start in a rank: {names}",
        "start the ranks with run.launcher: mpi, and with the Open MPI that the program, mpi4py or "
        "Horovod was built for; see MPI's own message above for a transport that is missing",
    ),
    cause(
        "mpi-folder",
        r"unable to create the desired directory|orte_session_dir|opal_os_dirpath_create"
        r"|session directory[^\n]{0,80}(?:fail|unable|could not)"
        r"|not enough space for the shared memory backing file",
        "MPI could not make its folder for a session, usually below /tmp",
        "set TMPDIR in run.env to a local folder of each node that its user may write, with free "
        "space; start again if several jobs of one user began at the same time on a node",
    ),
    cause(
        "mpi-call",
        r"Fatal error in (?:internal_|P)?(MPI_(?!Init)\w{1,30}: [^\n]{1,100})"
        r"|An error occurred in (MPI_(?!Init)\w{1,40})|\*\*\* (MPI_ERR_\w{1,30}: [^\n]{1,100})"
        r"|ORTE_ERROR_LOG: ((?!Data unpack)[^\n]{1,60}?) in file",
        "an operation of MPI failed in a rank: {names}",
        "see the last line of MPI's own message; all ranks must call the same operations with "
        "buffers of the same size, and a lost node or network gives this, too",
    ),
    cause(
        "ray-worker",
        r"(?:\.serialized_exception\)|Failed to unpickle serialized exception)\n"
        r"(?:[ ~^]{1,99}\n)?[^\n]{0,60}Error: "
        r"(?:\w{1,60}\.)?(\w{1,60})\.__init__\(\)|Failed to unpickle serialized exception",
        "a worker of Ray raised an exception that cannot be sent to the driver: {names}",
        "see the log of that worker for its text (/tmp/ray/session_latest/logs); catch it there "
        "and raise RuntimeError(str(error)); those of HTTP clients come from a server or API that "
        "refused a request",
    ),
    cause(
        "ray-worker",
        r"(RayActorError|Actor(?:Died|Unavailable)Error|WorkerCrashedError|NodeDiedError|LocalRayletDiedError"
        r"|OwnerDiedError)\b|The (actor died) unexpectedly before"
        r"|Worker exit type: (SYSTEM_ERROR|NODE_OUT_OF_MEMORY|NODE_DIED)"
        r"|actor is dead because its (?:owner|worker process) has died|Owner's (node has crashed)"
        r"|[Aa] worker died or was killed while executing|ray\.exceptions\.(OutOfMemoryError)",
        "a process of Ray's was killed or crashed: {names}",
        "see the log of that worker for an earlier error; compare the node's memory in "
        "`rsctl metrics`: Ray kills workers as memory runs out (RAY_memory_usage_threshold)",
    ),
    cause(
        "ray-connect",
        r"Could not find any running Ray instance|[Ff]ailed to connect to (?:GCS|the GCS|Ray)"
        r"|Unable to connect to (?:GCS|Redis|the (?:head|Ray))|ray_version_mismatch"
        r"|(?:This|The) process[^\n]{0,40}(?:Ray version|Version mismatch)|Version mismatch: The "
        r"cluster was started|Failed to get node info|[Tt]he current node timed out during startup"
        r"|No available agent to submit job|local raylet (?:died|dies)"
        r"|[Rr]aylet (?:is|has) (?:dead|died|terminated)",
        "a process could not connect to Ray, or Ray's own daemon on the node ended",
        "start Ray on the first node and let the others join its address; use the same Ray and "
        "Python on all nodes; see raylet.out and gcs_server.out in /tmp/ray/session_latest/logs",
    ),
    cause(
        "ray-resources",
        r"(ObjectStoreFullError|OutOfDiskError|RuntimeEnvSetupError[^\n]{0,120})"
        r"|(Total available GPUs \S{1,9} is less than total desired GPUs \S{1,9})"
        r"|([Pp]lacement [Gg]roup[^\n]{0,60}(?:timed out|cannot be|infeasible|not feasible"
        r"|creation failed)[^\n]{0,60})",
        "Ray does not have what the job asks for: {names}",
        "compare `ray status` with the request: GPUs and CPUs of all nodes that joined, the object "
        "store (--object-store-memory, /dev/shm), free disk below /tmp/ray, and the packages of "
        "runtime_env",
    ),
    cause(
        "horovod",
        r"(Horovod has not been (?:initialized|built)[^\n]{0,80}|Mismatched (?:allreduce|allgather"
        r"|broadcast|alltoall|data types|ROOT)[^\n]{0,100}|Extension horovod\.\w{1,20} has not "
        r"been "
        r"built[^\n]{0,60})",
        "Horovod refuses the operation: {names}",
        "call hvd.init() first; let all ranks run the same operations on tensors of the same "
        "shape; "
        "build Horovod in the image for its torch and NCCL (HOROVOD_WITH_PYTORCH=1)",
    ),
    cause(
        "node-lost",
        r"lost communication with a remote daemon[\s\S]{0,400}?Remote daemon: \S{1,100} on node "
        r"([\w.-]{1,253})|(?:ORTE|PRTE|PRRTE) has lost "
        r"communication|srun: error: Node failure on ([\w.-]{1,253})"
        r"|actor is dead because its node has died()"
        r"|node with node id: \w{8,64} and (?:ip|address): ([\w.:]{7,60})[^\n]{0,160} has "
        r"been marked dead",
        "a node was lost: {names}",
        "see that node's log: its machine may have run out of memory, or may have been preempted",
    ),
)
"""In the order in which they are shown."""
