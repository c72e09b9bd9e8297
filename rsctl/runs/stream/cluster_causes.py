"""Causes of failed jobs in clusters: Slurm, and the environment of its jobs.

Sources: texts of tests/fixtures/real; messages in the code of Slurm.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

PLATFORM_CAUSES = (
    cause(
        "slurm-step",
        r"slurmstepd: error: \*\*\* [^\n]{1,160} CANCELLED AT \S{1,30} DUE TO ([A-Z ]{1,40}?) ?\*",
        "Slurm ended the job: {names}",
        "after TIME LIMIT raise limits.timeout; after PREEMPTION, JOB REQUEUE or NODE FAILURE "
        "submit again, or set limits.retries",
    ),
)
"""Ends of all processes, so that their own errors follow from it."""

SETUP_CAUSES = (
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
"""Errors that explain why a module or a program is missing later."""

CLUSTER_CAUSES = (
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
        r"CANCELLED AT \S{1,30} DUE TO ([A-Z ]{1,40}?) ?\*"
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
        "slurm-request",
        r"(?:Unable to allocate resources|Batch job submission failed): (?!Unspec)([^\n]{1,120})"
        r"|(?:srun|sbatch|salloc): (?:error|fatal): (Invalid \S[^\n]{1,100})"
        r"|sbatch: error: (?!Batch job|lua|[^\n]{0,60}(?:[Ww]arning|config|DNS|dns_srv)"
        r"|Unable to contact)"
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
