"""Known causes of failed jobs: a table of texts in logs, what they mean, and the remedy.

Each subject has a table of its own in a file beside this one.
"""

from __future__ import annotations

from rsctl.known_errors import NO_SPACE
from rsctl.node import stderr_tail
from rsctl.runs.stream.accelerator_causes import ACCELERATOR_CAUSES, GENERAL_ACCELERATOR_CAUSES
from rsctl.runs.stream.cluster_causes import CLUSTER_CAUSES
from rsctl.runs.stream.container_causes import CONTAINER_CAUSES, GENERAL_CONTAINER_CAUSES
from rsctl.runs.stream.ends import LOST_PEER
from rsctl.runs.stream.fetch_causes import FETCH_CAUSES, GENERAL_FETCH_CAUSES
from rsctl.runs.stream.framework_causes import FRAMEWORK_CAUSES
from rsctl.runs.stream.general_causes import GENERAL_FRAMEWORK_CAUSES
from rsctl.runs.stream.gpu_causes import GPU_CAUSES, GPU_USE_CAUSES
from rsctl.runs.stream.memory_causes import MEMORY_CAUSES
from rsctl.runs.stream.mpi_causes import MPI_CAUSES
from rsctl.runs.stream.network_causes import NETWORK_CAUSES
from rsctl.runs.stream.package_causes import BINARY_CAUSES, PACKAGE_CAUSES
from rsctl.runs.stream.service_causes import GENERAL_SERVICE_CAUSES, SERVICE_CAUSES, cause
from rsctl.runs.stream.start_causes import COMMAND_CAUSES, SCRIPT_START_CAUSES
from rsctl.runs.stream.status_causes import STATUS_CAUSES
from rsctl.runs.stream.system_causes import GENERAL_SYSTEM_CAUSES

CAUSES = (
    *GPU_CAUSES,
    *MEMORY_CAUSES,
    *NETWORK_CAUSES,
    *ACCELERATOR_CAUSES,
    *GPU_USE_CAUSES,
    *FETCH_CAUSES,
    *PACKAGE_CAUSES,
    *SCRIPT_START_CAUSES,
    *BINARY_CAUSES,
    *FRAMEWORK_CAUSES,
    *SERVICE_CAUSES,
    *CLUSTER_CAUSES,
    *CONTAINER_CAUSES,
    *MPI_CAUSES,
    cause(
        "disk",
        r"[Dd]isk quota exceeded|\bEDQUOT\b",
        "the quota of the user or the project on a file system is used up",
        "delete files there, or ask for a larger quota, which may count the files, too (`quota`, "
        "`lfs quota`); put caches and temporary files elsewhere: HF_HOME, XDG_CACHE_HOME, "
        "TRITON_CACHE_DIR and TMPDIR in run.env",
    ),
    cause(
        "disk",
        rf"{NO_SPACE}|[Ii]nsufficient disk space|there is enough disk space",
        "a disk is full",
        "free disk space, or raise workers.disk",
    ),
    cause(
        "disk",
        r"No usable temporary directory found in (\[[^\n\]]{1,200}\])",
        "no folder for temporary files can be written, usually because the disk is full: {names}",
        "free disk space, or raise workers.disk; where /tmp is read-only, set TMPDIR in run.env to "
        "a folder that can be written",
    ),
    cause(
        "port",
        r"EADDRINUSE|port is already allocated|[Aa]ddress already in use"
        r"|on port `?\d{1,5}`?, but another process is utilizing it"
        r"|failed to listen on any local network address\.?(?:$|\n)",
        "a port is already in use",
        "let torchrun choose MASTER_PORT, and do not set one in the script; otherwise end the "
        "program that uses it (`ss -ltnp` shows it), such as one that an earlier job left",
    ),
    cause(
        "port",
        r"failed to bind to[^\n]{0,80}\(errno: 13|\bfailed to bind \(errno: 13",
        "the job's user may not use a port, as those below 1024 are for root",
        "let torchrun choose MASTER_PORT, or set one above 1023",
    ),
    *COMMAND_CAUSES,
    cause(
        "tracker-failed",
        r"/(wandb|mlflow|neptune|comet_ml|clearml|swanlab|aim)/[^\n]{1,160}\n[^\n]{0,200}\n"
        r"(?:[^\n\w]{1,200}\n)?\s{0,9}(?:BrokenPipe|Connection\w{0,12})Error",
        "the background process of the experiment tracker has ended: {names}",
        "see the first error in its own log (wandb/debug-internal.log), and give the node more "
        "memory; log in one rank only; WANDB_MODE=offline or disabled and report_to=none leave "
        "the tracker out",
    ),
    cause(
        "pipe",
        r"(?:BrokenPipeError|ConnectionResetError|ConnectionAbortedError): \[Errno (?:32|10[34])\]",
        "a process or a server that the script talks to has ended, or closed the connection",
        "see the frames of its traceback: for multiprocessing it is a data loader's worker or a "
        "manager, whose own error or end by the memory comes first; for a server see its log",
    ),
    cause(
        LOST_PEER,
        rf"(?<!\(104, ')(?<!\(32, ')(?<! to - \[Errno 32\] )"
        rf"(?<!Error: \[Errno 32\] )(?<!Error: \[Errno 104\] )(?:{stderr_tail.LOST_PEER})"
        r"|Orted process exited|MPI communication peer process has unexpectedly disconnected"
        r"|Horovod has been shut down"
        r"|TransportError: reducer \d+ (?:\([^)]*\) )?(?:ended the run|was lost)",
        "a peer disconnected",
        "see its own log for the reason; if no replica failed before, as at the start, the nodes "
        "do not reach each other: set NCCL_SOCKET_IFNAME in run.env to their common interface, and "
        "let all ports between them be open",
    ),
)
"""In the order in which they are shown, the most specific first."""

GENERAL_CAUSES = (
    *GENERAL_FETCH_CAUSES,
    *GENERAL_CONTAINER_CAUSES,
    cause(
        "start",
        r"OCI runtime create failed: ([^\n]{1,400})|could not be started: ([^\n]{1,200})"
        r"|(?:crun|runc)(?: \w{1,20} failed)?: ([^\n]{1,300}OCI [^\n]{1,60})"
        r"|(?m:^)([^\n]{1,300}): OCI (?:permission denied|runtime error)"
        r"|OCI runtime error: ([^\n]{1,300})"
        r"|Error response from daemon: ([^\n]{1,300})"
        r"|Termination reason: StartError|failed to create (?:containerd|shim) task",
        "the container could not be started: {names}",
        "correct what the message names: usually the command, its permissions, the image's "
        "architecture or a setting of the container; if it names a part of the node's engine or "
        "kernel, exclude the node",
    ),
    cause(
        "mpi-abort",
        r"MPI_ABORT was invoked on rank (\d{1,6})",
        "a rank ended the MPI job: {names}",
        "see the lines that this rank wrote before; mpirun --tag-output marks its lines [1,RANK]",
    ),
    *GENERAL_SYSTEM_CAUSES,
    *GENERAL_FRAMEWORK_CAUSES,
    cause(
        "json",
        r"[Ee]rror (?:when )?pars(?:ing|e) json|No JSON object could be decoded"
        r"|JSONDecodeError(?:: ([^\n]{1,120}))?",
        "a text that must be JSON cannot be parsed: {names}",
        "see the script's line in the traceback for its file or request; at line 1 it is empty, an "
        "error page or of another format, such as an array in place of JSON Lines; `Extra data` is "
        "JSON Lines, to be read line by line; hyperparameters of SageMaker are JSON values, too",
    ),
    *GENERAL_SERVICE_CAUSES,
    *STATUS_CAUSES,
    *GENERAL_ACCELERATOR_CAUSES,
)
"""The fallback if no other cause is found."""
