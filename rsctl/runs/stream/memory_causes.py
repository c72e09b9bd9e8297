"""Causes of failed jobs that concern the memory, the shared memory and the files of a node."""

from __future__ import annotations

from rsctl.known_errors import NO_MEMORY, NO_SPACE
from rsctl.runs.stream.service_causes import cause

DATA_WORKER = "data-worker"
"""The code of a cause that the kernel's count of killed processes says more about."""

LESS_MEMORY = "use a smaller batch or fewer data loader workers"
"""The remedy for a node without memory; the way to more memory depends on its target."""

NO_ACCESS = (
    "a process could not reach its memory (SIGBUS), as when the shared memory or a disk is full, "
    "or a file that it has mapped was cut or deleted"
)
"""The end by SIGBUS, whose reason its text does not have."""

NO_ACCESS_REMEDY = (
    "use fewer data loader workers and raise the container's memory, on Slurm the job's memory; "
    "check that the disks of /tmp and of the data have space, and that the job replaces no file "
    "while it is read"
)

MEMORY_CAUSES = (
    cause(
        "open-files",
        r"Too many open files|received 0 items of ancdata"
        r"|unable to open shared memory object <\S{1,80}> in read-write mode(?!: (?!Too many))",
        "a process has reached its limit of open files",
        "call torch.multiprocessing.set_sharing_strategy('file_system'), use fewer data loader "
        "workers, or raise the limit in the script (resource.setrlimit)",
    ),
    cause(
        DATA_WORKER,
        r"unable to open shared memory object <\S{1,80}> in read-write mode: No such file"
        r"|rebuild_storage_filename\b[\s\S]{0,400}?No such file",
        "a batch that a data loader's worker has put into shared memory was deleted before it was "
        "read",
        "leave out set_sharing_strategy('file_system'), whose files go when a worker ends, and "
        "raise the limit of open files instead (resource.setrlimit); see whether a worker was "
        "killed, and let no other process clean /dev/shm",
    ),
    cause(
        "shared-memory",
        r"No such file or directory: '(/psm_\w{1,40})'",
        "a segment of shared memory was deleted before this process opened it: {names}",
        "see whether the process that made it, such as a data loader's worker, failed or ended "
        "before, and let no other process clean /dev/shm; Python before 3.13 deletes a segment as "
        "soon as a process that has opened it ends: start the workers from one parent process",
    ),
    cause(
        "checkpoint",
        r"PytorchStreamReader failed|Error while deserializing header|SafetensorsParsingError"
        r"|NotASafetensorsRepoError|DDUFCorruptedFileError|CorruptedCacheException|"
        r"invalid load key, '(?:v|<)'",
        "a checkpoint or model is incomplete, or its format differs from its name",
        "download it again; write checkpoints under another name and rename them; a file that "
        "starts with `version https://git-lfs` needs `git lfs pull`",
    ),
    cause(
        "shared-memory-denied",
        r"shm_open[^\n]{0,60}Permission denied|/dev/shm[^\n]{0,200}Permission denied"
        r"|Permission denied[^\n]{0,60}/dev/shm",
        "the job's user may not use the shared memory (/dev/shm)",
        "let the administrator of the node or the image permit it: its mode is 1777; another "
        "user's segments of an earlier run may have to go",
    ),
    cause(
        "shared-memory",
        r"attaching to shared memory segment[^\n]{0,200}No such file"
        r"|shm\w{0,8}\.(?:cc|h):\d{1,5} NCCL WARN Cuda failure",
        "NCCL cannot use the shared memory of the node (/dev/shm) between two of its ranks",
        "start the ranks of a node in one container, or in containers that share /dev/shm (docker "
        "run --ipc=host); NCCL_SHM_DISABLE=1 in run.env does without it",
    ),
    cause(
        "shared-memory",
        r"insufficient shared memory|is killed by signal: Bus error"
        r"|(?:creating|attaching to) shared memory segment(?![^\n]{0,200}No such file)"
        rf"|SemLock\([\s\S]{{0,400}}?(?:{NO_SPACE})|/dev/shm[^\n]{{0,200}}(?:{NO_SPACE})"
        rf"|(?:{NO_SPACE})[^\n]{{0,20}}/dev/shm",
        "the shared memory of the container is full",
        "use fewer data loader workers or raise the container's memory",
    ),
    cause(
        "shared-memory",
        r"[Bb]us error",
        NO_ACCESS,
        NO_ACCESS_REMEDY,
    ),
    cause(
        "memory",
        r"(?m:^)(?![^\n]{0,300}(?:NET/OFI|static TLS|UCX  |\bibv_|(?i:\bib |infiniband|rdma|mlx\d"
        r"|verbs)))"
        rf"[^\n]*?(?:{NO_MEMORY})"
        r"|OOM when allocating tensor(?![^\n]{0,300}(?i:device:gpu))"
        r"|CUDNN_STATUS_\w{1,20}HOST_ALLOCATION_FAILED|NRT_FAIL_HOST_MEM_ALLOC"
        r"|killed due to memory pressure|Task was killed due to the node running low on memory"
        r"|ran out[ -]of[ -]memory and exited|oom[_-]kill event|(?:OOM|out of memory) ?[Kk]illed"
        r"|(?:Out of memory|[Mm]emory cgroup out of memory): Killed? process"
        r"|slurmstepd: error: Exceeded job memory limit"
        r"|srun: error: \S{1,100}: tasks? [\d,-]{1,60}: Out Of Memory",
        "the node ran out of memory",
        f"{LESS_MEMORY}, or raise the memory limit",
    ),
    cause(
        "memory",
        r"pin_memory\([\s\S]{0,300}?CUDA error: (?:invalid argument|out of memory)"
        r"|cudaHost(?:Alloc|Register)\w{0,20}[^\n]{0,60}(?:fail|error|out of memory)",
        "the node could not pin so much of its memory for the GPU",
        "pin less: pin_memory=False in the script, pin_memory: false of DeepSpeed's offload, less "
        "offload, or a node with more memory",
    ),
    cause(
        DATA_WORKER,
        r"DataLoader worker \([^\n]{1,200}?\) (?:is killed by signal: (?!Bus error)([\w ]{1,40})"
        r"|exited unexpectedly)",
        "a worker process of a data loader was killed or crashed: {names}",
        "set num_workers=0 to see its own error; after Killed, compare the node's memory in "
        "`rsctl metrics`, and use fewer workers",
    ),
)
"""In the order in which they are shown."""
