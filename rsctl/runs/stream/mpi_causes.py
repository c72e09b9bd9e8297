"""Causes of failed jobs whose ranks another program starts: MPI, ssh, Ray and Horovod.

Sources: texts of tests/fixtures/real; messages in the code of Open MPI and Horovod.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

MPI_CAUSES = (
    cause(
        "mpi-pmi",
        r"PMI2?_Init failed|not built with SLURM's PMI support|[Ii]nvalid MPI (?:plugin|type)"
        r"|[Cc]annot find mpi plugin|mpi/pmix\w{0,8}:[^\n]{0,60}ERROR"
        r"|PMIX ERROR: (?!PMIX_SUCCESS)\w|PMIx_Init[^\n]{0,60}fail",
        "MPI and Slurm have no PMI in common",
        "set run.launcher: mpi, or give srun a type of `srun --mpi=list` that the image's MPI was "
        "built with",
    ),
    cause(
        "mpi-slots",
        r"There are not enough slots available in the system|Your job failed to map",
        "mpirun was asked for more processes than the nodes have slots for",
        "ask for as many as there are GPUs (or cores), or give mpirun --oversubscribe",
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
        r"|Permission denied \(publickey",
        "a launcher could not log in to another node by ssh: {names}",
        "set run.launcher: torchrun or mpi, with which rsctl starts the processes of all nodes",
    ),
    cause(
        "mpi-daemons",
        r"(?:ORTE|PRTE) was unable to reliably start one or more daemons"
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
        r"Data unpack (?:would read past end of buffer|had inadequate space)",
        "the nodes have different versions of Open MPI or PMIx",
        "use the same image on all nodes; set run.launcher: mpi, with which no MPI of a host "
        "starts that of a container",
    ),
    cause(
        "mpi-network",
        r"At least one pair of MPI processes are unable to reach each other",
        "the ranks of MPI cannot reach each other",
        "name the interface that all nodes share (OMPI_MCA_btl_tcp_if_include in run.env), so that "
        "MPI uses no bridge of docker or libvirt, and let all ports between the nodes be open",
    ),
    cause(
        "mpi-start",
        r"An error occurred in (MPI_Init\w{0,8})|abort before (MPI_INIT) completed"
        r"|(ompi_mpi_init: [^\n]{1,80}failed)|(PML add procs failed)"
        r"|MPI_Init\w{0,8} was (?:already )?(called[^\n]{1,60})",
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
        "ray-worker",
        r"(RayActorError|ActorDiedError|WorkerCrashedError|NodeDiedError|LocalRayletDiedError"
        r"|OwnerDiedError)\b|Worker exit type: (SYSTEM_ERROR|NODE_OUT_OF_MEMORY|NODE_DIED)"
        r"|[Aa] worker died or was killed while executing|ray\.exceptions\.(OutOfMemoryError)",
        "a process of Ray's was killed or crashed: {names}",
        "see the log of that worker for an earlier error; compare the node's memory in "
        "`rsctl metrics`: Ray kills workers as memory runs out (RAY_memory_usage_threshold)",
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
        r"([\w.-]{1,253})|(?:ORTE|PRTE) daemon has unexpectedly failed|(?:ORTE|PRTE) has lost "
        r"communication|srun: error: Node failure on ([\w.-]{1,253})"
        r"|actor is dead because its node has died()",
        "a node was lost: {names}",
        "see that node's log: its machine may have run out of memory, or may have been preempted",
    ),
)
"""In the order in which they are shown."""
