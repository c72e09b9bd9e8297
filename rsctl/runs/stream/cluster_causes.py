"""Causes of failed jobs in clusters: schedulers, Kubernetes, the environment of jobs.

Sources: texts of tests/fixtures/real; messages in the code of Slurm.
"""

from __future__ import annotations

from rsctl.runs.stream.memory_causes import LESS_MEMORY
from rsctl.runs.stream.service_causes import cause

_LIMIT_CAUSES = (
    cause(
        "deadline",
        r"PBS: job killed: ((?:walltime|cput) [^\n]{1,80})"
        r"|[Jj]ob exceeded (?:its )?(wall(?:time|clock)[^\n]{0,40})"
        r"|\b(TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW)): job killed"
        r"|exceeded (hard wallclock) time|execd enforced (h_(?:rt|cpu)) limit"
        r"|exceeds job hard limit \"(h_(?:rt|cpu))\"",
        "the scheduler ended the job at its time limit: {names}",
        "ask for more time, or write checkpoints, and resume from them in a next job",
    ),
    cause(
        "memory",
        r"PBS: job killed: (p?v?mem [^\n]{1,80})|(Job exceeded a memory resource limit)"
        r"|\b(TERM_(?:MEMLIMIT|SWAP)): job killed"
        r"|execd enforced (\w{1,12}(?:mem|rss|data|stack)) limit"
        r"|exceeds job hard limit \"(\w{1,12}(?:mem|rss))\""
        r"|Job has gone over (?:cgroup )?(memory limit[^\n]{0,60})",
        "the scheduler ended the job at its limit of memory: {names}",
        f"ask for more memory of the node (PBS mem and vmem, LSF -M, Grid Engine h_vmem, HTCondor "
        f"request_memory), or {LESS_MEMORY}",
    ),
    cause(
        "threads",
        r"\b(TERM_(?:THREADLIMIT|PROCESSLIMIT)): job killed"
        r"|PBS: job killed: (ncpus [^\n]{1,80})",
        "the scheduler ended the job, as it had more threads or processes than it may: {names}",
        "ask for the CPUs that it uses; OMP_NUM_THREADS, torch.set_num_threads and the number of "
        "data loader workers bound its threads",
    ),
    cause(
        "signal",
        r"\b(TERM_(?:(?:FORCE_|REQUEUE_)?(?:OWNER|ADMIN)|PREEMPT|LOAD|EXTERNAL_SIGNAL)): job "
        r"(?:killed|requeued)|Job deleted at request of (\S{1,100})(?=\n|$)(?!\nMOAB_INFO)",
        "the job was ended through its scheduler, and did not fail itself: {names}",
        "ask who ended it: its owner, an administrator, or the scheduler for another job; submit "
        "again, and resume from a checkpoint",
    ),
)
"""Limits of PBS and Torque, LSF, Grid Engine and HTCondor, in the words of these schedulers."""

PLATFORM_CAUSES = (
    *_LIMIT_CAUSES,
    cause(
        "slurm-step",
        r"slurmstepd: error: \*\*\* [^\n]{1,160} CANCELLED AT \S{1,30} DUE TO "
        r"(?!TASK FAILURE)([A-Z ]{1,40}?)(?: ?\*|, )",
        "Slurm ended the job: {names}",
        "after TIME LIMIT raise limits.timeout; after PREEMPTION, JOB REQUEUE or NODE FAILURE "
        "submit again, or set limits.retries",
    ),
)
"""Ends of all processes, so that their own errors follow from it."""

SETUP_CAUSES = (
    cause(
        "data-missing",
        r"Dataset does not exist: (\S{1,200})",
        "the data set is not where the script looks for it: {names}",
        "correct the path in run.args: for Megatron-LM the prefix of a .bin and an .idx file that "
        "preprocess_data.py has written, without the ending",
    ),
    cause(
        "environment",
        r"(Error while loading conda (?:plugins|entry point)[^\n]{0,120})"
        r"|(error occurred while (?:un)?installing package '[^'\n]{1,120}')"
        r"|(Conda(?:Verification|Memory|OS)Error: [^\n]{1,100})",
        "conda failed, and not a package of the script: {names}",
        "use another or a new installation of conda or micromamba, with a folder of packages on a "
        "disk with free space (CONDA_PKGS_DIRS); delete an environment that is half made",
    ),
)
"""Errors that explain what the script misses later."""

MODULE_CAUSES = (
    cause(
        "environment",
        r"Unable to locate a modulefile for '([^'\n]{1,100})'"
        r"|following module\(s\) are unknown:\s{0,9}\"([^\"\n]{1,100})\""
        r"|Lmod has detected the following error:(?!\s{1,9}The following)\s{0,9}([^\n]{1,120})"
        r"|Could not find conda environment: ([^\n]{1,100})|EnvironmentNameNotFound: ([^\n]{1,100})"
        r"|(activate: No such file)|(Conda(?:HTTP)?Error: [^\n]{1,100})"
        r"|(/lmod/libexec/lmod: No such file)|(conda: command not found)",
        "the environment of the job could not be set up: {names}",
        "correct the name of the environment or module, and load what it depends on before; batch "
        "scripts need the shell's set-up of conda (`source .../etc/profile.d/conda.sh`)",
    ),
)
"""As `SETUP_CAUSES`; clusters write such lines for jobs that need no modules, too."""

POD_CAUSES = (
    cause(
        "evicted",
        r"[Nn]ode was low on resource: ([\w-]{1,40})|The node had condition: \[(\w{1,40})\]"
        r"|([Pp]od ephemeral local storage usage exceeds[^\n]{0,80})|"
        r"([Cc]ontainer \S{1,80} exceeded "
        r"its local ephemeral storage limit[^\n]{0,40})|([Uu]sage of EmptyDir volume[^\n]{1,80} "
        r"exceeds the limit[^\n]{0,40})",
        "Kubernetes evicted the pod, as it or its node used up memory or disk: {names}",
        "request as much memory and ephemeral-storage as the job uses; write checkpoints, caches "
        "and data to a volume or a bucket, as the container's own folders, emptyDir and logs "
        "count as ephemeral storage",
    ),
    cause(
        "pod-pending",
        r"(\d{1,6}/\d{1,6} nodes are available: [^\n]{1,200})"
        r"|(requested number of devices unavailable for [^\n]{1,120})",
        "Kubernetes has no node for the pod: {names}",
        "compare the request with `kubectl describe node`: GPUs that other pods hold or that "
        "failed do not count; add the tolerations and labels that the nodes of GPUs want",
    ),
    cause(
        "mount",
        r"MountVolume\.\w{1,20} failed for volume ([^\n]{1,200})"
        r"|Unable to attach or mount volumes: "
        r"([^\n]{1,160})",
        "Kubernetes could not mount a volume of the pod: {names}",
        "`kubectl describe pod` has the reason: a claim, secret or config map that does not "
        "exist, a disk that another node holds, or a file server that does not answer",
    ),
    cause(
        "deadline",
        r"(was active on the node|was active) longer than (?:the )?specified deadline",
        "Kubernetes ended the job at its time limit",
        "raise activeDeadlineSeconds, and resume from a checkpoint",
    ),
)
"""Events of Kubernetes about a pod."""

_CONTROLLER = (
    r"Unable to contact|Communication|Message |Socket timed|Slurm (?:backup|internal|daemon)"
    r"|Connection|Incompatible version|Controller|Insane|Read would|Unexpected m|Header|Rate limit"
    r"|Unable to (?:process|load)|Process is shut|Can't find an address|System submissions"
    r"|\w{4,20}Type change|There is something|Cannot unpack|Token|Zero Bytes|(?:Invalid or NULL "
    r"|Requested )?Lua|MPI plugin"
)
_LATER = (
    r"Requested nodes are busy|Requested partition config|Required (?:partition|nodes|ports)"
    r"|Licenses|Requested reservation (?:not|is in)|Immediate exec|Job (?:can not start|is in held)"
    r"|Max powered|No (?:available|suitable)|Insufficient res|Partition in|Preemption is"
    r"|Requested topology|Reservation already|PrologSlurmctld|Nodes required"
)
"""How texts begin that say nothing about the request: the controller, and resources in use."""

CLUSTER_CAUSES = (
    *POD_CAUSES,
    cause(
        "slurm-credential",
        r"([Mm]unge (?:en|de)code failed[^\n]{0,100})|(?:[Ii]f munged is up, restart)()"
        r"|((?:Job|[Aa]uth\w{0,12}) credential (?:expired|replayed|invalid|revoked))"
        r"|([Ii]nvalid (?:job|authentication) credential)"
        r"|([\w/]{0,40}Security violation[^\n]{0,60})"
        r"|((?:Protocol|has) authentication error)|([Uu]nable to (?:create|load) auth[^\n]{0,60})",
        "Slurm does not accept the credential of the job or of its user: {names}",
        "munged must run wherever Slurm's commands run, with the cluster's key and the same "
        "time on "
        "all nodes; start srun outside a container, or mount /run/munge in it; exclude a node "
        "whose clock or munged is wrong",
    ),
    cause(
        "slurm-step",
        r"srun: (?:error|fatal): (Step requested GRES[^\n]{0,100}"
        r"|[^\n]{0,60}mutually exclusive)"
        r"|srun: error: Unable to create step[^\n:]{0,40}: ([^\n]{0,40}\(gres\)[^\n]{0,60})",
        "a step asks Slurm for other resources than its job has: {names}",
        "leave the options of GPUs, CPUs and memory out of srun, so that the step gets those of "
        "the job, or name GPUs with the job's type (gpu:h100:8); inside another job, unset the "
        "SLURM_ variables that srun inherits, such as SLURM_MEM_PER_CPU",
    ),
    cause(
        "slurm-step",
        r"CANCELLED AT \S{1,30} DUE TO (?!TASK FAILURE)([A-Z ]{1,40}?)(?: ?\*|, )"
        r"|srun: error: Unable to (?:create step|confirm allocation)[^\n:]{0,40}: ([^\n]{1,100})"
        r"|srun: error: (Only allocated \d{1,6} nodes asked for \d{1,6})",
        "Slurm ended the job or started no step of it: {names}",
        "after TIME LIMIT raise limits.timeout; after PREEMPTION or NODE FAILURE submit again, or "
        "set limits.retries; a step cannot use more than the job asked for",
    ),
    cause(
        "slurm-launch",
        r"(?:srun|sbatch|salloc|slurmd|slurmstepd): (?:error|fatal): [^\n]{0,60}"
        r"(DNS SRV lookup failed|failed to fetch config|Could not establish a configuration source"
        r"|Unable to process configuration file)",
        "Slurm's command found no configuration of the cluster: {names}",
        "run it on a node of the cluster, and give a container /etc/slurm/slurm.conf and munge's "
        "socket; SLURM_CONF names another place",
    ),
    cause(
        "slurm-launch",
        rf"(?:Unable to allocate resources|Batch job submission failed): ((?:Slurmd|Kill task"
        rf"|{_CONTROLLER})[^\n]{{0,120}})",
        "Slurm's controller, or a daemon of it, did not answer or could not serve the request: "
        "{names}",
        "submit again later; use commands of the cluster's version of Slurm on a node of the "
        "cluster; if it stays, its administrators find more in the logs of slurmctld and slurmd",
    ),
    cause(
        "slurm-later",
        rf"(?:Unable to allocate resources|Batch job submission failed): ((?:{_LATER})"
        r"[^\n]{0,120})",
        "Slurm cannot give what the job asks for now: {names}",
        "`sinfo` and `scontrol show partition` or reservation show what is free and when: submit "
        "again, without srun's or salloc's --immediate, or ask for fewer nodes or another "
        "partition",
    ),
    cause(
        "slurm-request",
        r"(?:Unable to allocate resources|Batch job submission failed): "
        rf"(?!Unspec|Slurmd|Kill task|{_CONTROLLER}|{_LATER})([^\n]{{1,120}})"
        r"|(?:srun|sbatch|salloc): (?:error|fatal): (Invalid \S[^\n]{1,100})"
        r"|sbatch: error: (?!Batch job|lua|[^\n]{0,60}(?:[Ww]arning|config|DNS|dns_srv"
        r"|defaulting to)|Unable to contact)"
        r"([^\n]{1,160}?)(?: sbatch: |$|\n)",
        "Slurm refuses what the job asks for: {names}",
        "correct the account, partition, time, nodes or GPUs; `sinfo` and `sacctmgr show assoc` "
        "show what the user may ask for",
    ),
    cause(
        "slurm-launch",
        r"Task launch for (?:StepId=)?\S{1,40} failed on node ([\w.-]{1,100})"
        r"|(slurmstepd failed to (?:send|start)[^\n]{0,60})"
        r"|(Unable to establish co\w{1,12} [^\n]{1,80})"
        r"|Application launch failed: ([^\n]{1,100})"
        r"|error: execve\(\): (\S{1,200}: [^\n]{1,80})|srun: fatal: (Can not execute \S{1,200})"
        r"|slurmstepd: error: (couldn't chdir to [^\n]{1,160})"
        r"|(Socket timed out on send/recv operation|Zero Bytes were transmitted or received"
        r"|Communication connection failure)|Unable to contact slurm controller()"
        r"|slurm_load_\w{1,20} error: ([^\n]{1,100})",
        "Slurm could not start the job's tasks on the nodes: {names}",
        "a node that does not answer is the cluster's fault: submit again, and exclude it with "
        "sbatch's option exclude; a program or folder must exist on all nodes",
    ),
)
"""In the order in which they are shown."""


def _said_by_slurm(words: str, programs: str = "srun|sbatch|salloc|slurmstepd") -> str:
    """The pattern of reports with one of these words, except those of the end of a task."""
    return (
        rf"(?:{programs}): (?:error|fatal): (?!\S{{1,100}}: tasks? [\d,-]{{1,60}}: [A-Z]|\*\*\*"
        r"|xcpuinfo|pyxis: (?:printing|import)|TMPDIR|Setting TMPDIR|Exceeded "
        r"|[^\n]{1,60}, defaulting to)"
        rf"(?=[^\n]{{0,160}}(?:{words}))([^\n]{{1,160}})"
    )


GENERAL_CLUSTER_CAUSES = (
    cause(
        "slurm-step",
        r"CANCELLED AT \S{1,30} DUE TO (TASK FAILURE)",
        "a task of the step failed, and srun ended the others (--kill-on-bad-exit): {names}",
        "see the first error in the logs of all tasks, above all of the task that ended first; "
        "`sacct -j` shows their exit codes",
    ),
    cause(
        "mpi-pmi",
        _said_by_slurm(r"mpi/pmi|PMK_KVS|kvs_|pmi2|PMI1"),
        "MPI's processes and Slurm did not agree through PMI, or a rank of them ended: {names}",
        "see the logs of the other ranks for an earlier failure; otherwise set run.launcher: mpi, "
        "or give srun a type of `srun --mpi=list` that the image's MPI was built with",
    ),
    cause(
        "slurm-credential",
        _said_by_slurm(
            r"\bjwt|JWKS|jwks|\bsack|[Tt]oken (?!for user)|auth plugin|identity|keys? file"
            r"|credential|certificate|default_key|\balg field|kty "
        ),
        "Slurm could not check, or did not accept, who runs the command: {names}",
        "run it where munge or Slurm's sack daemon runs, with the cluster's key and the same time "
        "on all nodes; SLURM_JWT must be a token that has not expired",
    ),
    cause(
        "slurm-launch",
        _said_by_slurm(
            r"execve|chdir|no command for|getcwd|(?i:script) (?:file|setup|did)|did(?:n't| not) run"
            r"|[Ff]ailed to execute|executing|[Ee]pilog|[Pp]rolog|couldn't open|[Oo]pen std"
        ),
        "Slurm could not start the job's program, or a script around it: {names}",
        "the program, its folder and the files of its output must exist on all nodes and be "
        "permitted to the user; a prolog or epilog that fails is the administrators' matter",
    ),
    cause(
        "slurm-launch",
        _said_by_slurm(
            r"[Cc]onnect|[Tt]imed out|timeout|resolve|[Ll]ookup|[Cc]ommunicat|listening|socket"
            r"|(?:send|recv)_|slurmctld|io error|address|Abort|RPC|decode|protocol|header"
            r"|boot of the nodes|reply failed",
            "srun|sbatch|salloc",
        ),
        "Slurm's commands and daemons could not reach each other: {names}",
        "a node that does not answer is the cluster's fault: submit again, and exclude it with "
        "sbatch's option exclude; nodes need each other's names and the ports of srun "
        "(SrunPortRange)",
    ),
    cause(
        "slurm-request",
        _said_by_slurm(
            r"--?[a-zA-Z]|mutually|[Ii]nvalid|must|not (?:permitted|supported|allowed|currently)"
            r"|[Dd]uplicate|config(?:uration)? file|[Tt]oo |asked for|more than|greater|bigger"
            r"|expected|option|spec|ntasks|het |[Hh]ostlist|argument|pars(?:e|ing)|NULL|walltime"
            r"|env variable|in environment|identify|unknown",
            "srun|sbatch|salloc",
        ),
        "srun or sbatch refuses its options or its files: {names}",
        "correct the options in the command and the SLURM_ variables that srun inherits from "
        "another job; a step can use no more than its job",
    ),
    cause(
        "slurm-node",
        _said_by_slurm("", "slurmstepd"),
        "Slurm's daemon on a node could not set up, watch or end the job's tasks: {names}",
        "submit again, and exclude the node (sbatch's option exclude); if it happens on all nodes, "
        "it is their set-up (cgroups, namespaces, plug-ins, limits), and administrators find more "
        "in the log of slurmd",
    ),
    cause(
        "slurm-step",
        _said_by_slurm("", "srun"),
        "Slurm reported an error: {names}",
        "see `sacct -j` of the job, and the logs of the nodes",
    ),
)
"""For texts of Slurm without any other cause."""
