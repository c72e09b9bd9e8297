"""Reads the command lines of `mpirun`, `horovodrun` and `srun`.

Options by https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html,
https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md,
https://github.com/horovod/horovod/blob/master/horovod/runner/launch.py and
https://slurm.schedmd.com/srun.html.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from rsctl.job.launcher_options import Launched, Options, per_node, spec, unsupported
from rsctl.job.units import Duration

Read = Callable[[list[str]], Launched]

_MPIRUN = spec(
    none="allow_run_as_root oversubscribe nooversubscribe tag_output timestamp_output display_map "
    "display_allocation report_bindings use_hwthread_cpus bynode bycore v verbose q quiet l "
    "genvall envall prepend_rank",
    one="np host hostfile npernode map_by bind_to rank_by x wdir output_filename output prefix "
    "timeout launch_agent genvlist envlist iface bootstrap path display",
    two="mca gmca omca prtemca pmixmca genv env",
)
_MPIRUN_SHORT = {
    **dict.fromkeys(("n", "c"), "np"),
    **dict.fromkeys(("H", "hosts"), "host"),
    **dict.fromkeys(("machinefile", "default_hostfile", "f"), "hostfile"),
    **dict.fromkeys(("N", "ppn", "perhost"), "npernode"),
    **{"wd": "wdir"},
}
_HOROVODRUN = spec(
    none="gloo mpi verbose disable_cache autotune tcp mpi_threads_disable no_stall_check",
    one="np host hostfile min_np max_np slots_per_host host_discovery_script reset_limit "
    "network_interface nics start_timeout elastic_timeout ssh_port ssh_identity_file "
    "output_filename fusion_threshold_mb cycle_time_ms timeline_filename log_level mpi_args "
    "config_file binding_args",
)
_HOROVODRUN_SHORT = {
    **{"n": "np", "H": "host", "hosts": "host", "p": "ssh_port"},
    **{"num_proc": "np", "network_interfaces": "network_interface"},
}
_HOROVOD_ENV = {
    "cycle_time_ms": "HOROVOD_CYCLE_TIME",
    "timeline_filename": "HOROVOD_TIMELINE",
    "log_level": "HOROVOD_LOG_LEVEL",
}
_HOSTS_OF_OURS = ("ssh_port", "ssh_identity_file", "network_interface", "iface", "bootstrap")
_HOST_LINE = re.compile(r"^\s*[\w.-]+(?:\s+(?:slots|max_slots)\s*=\s*(\d+)|:(\d+))?.*$")
_LARGEST = 1 << 20

_SRUN = spec(
    none="exclusive unbuffered label quiet verbose overlap exact no_kill kill_on_bad_exit pty "
    "preserve_env oversubscribe requeue no_requeue overcommit contiguous hold spread_job "
    "use_min_nodes container_mount_home no_container_mount_home container_remap_root "
    "no_container_remap_root container_entrypoint no_container_entrypoint container_writable "
    "container_readonly",
    one="nodes ntasks ntasks_per_node cpus_per_task gpus gpus_per_node gpus_per_task gres "
    "partition account qos reservation constraint exclude mem mem_per_gpu mem_per_cpu time "
    "job_name export nodelist chdir output error input mpi cpu_bind gpu_bind distribution switches "
    "segment licenses begin comment dependency wait jobid het_group container_image "
    "container_mounts container_workdir container_name mail_type mail_user network nice "
    "ntasks_per_gpu threads_per_core hint signal tmp wckey priority open_mode mincpus "
    "accel_bind mem_bind gres_flags cpu_freq gpu_freq cores_per_socket sockets_per_node array "
    "wait_all_nodes time_min deadline prefer clusters core_spec cpus_per_gpu ntasks_per_core "
    "ntasks_per_socket acctg_freq container_env container_save auto_resume image "
    "module volume",
)
_SRUN_SHORT = {
    **{"N": "nodes", "n": "ntasks", "c": "cpus_per_task", "G": "gpus", "p": "partition"},
    **{"A": "account", "q": "qos", "C": "constraint", "x": "exclude", "t": "time", "J": "job_name"},
    **{"w": "nodelist", "D": "chdir", "o": "output", "e": "error", "i": "input", "l": "label"},
    **{"tasks_per_node": "ntasks_per_node"},
    **{"a": "array", "H": "hold", "M": "clusters", "O": "overcommit", "S": "core_spec"},
    **{"u": "unbuffered", "v": "verbose", "Q": "quiet", "m": "distribution", "L": "licenses"},
    **{
        "W": "wait",
        "K": "kill_on_bad_exit",
        "k": "no_kill",
        "s": "oversubscribe",
        "d": "dependency",
    },
}
_SRUN_OURS = (
    *("label", "unbuffered", "output", "error", "input", "jobid", "mpi", "quiet", "verbose"),
    *("kill_on_bad_exit", "overlap", "pty", "open_mode", "overcommit", "container_env"),
    *("no_container_mount_home", "no_container_entrypoint"),
)
_NO_KEY = (
    *("chdir", "distribution", "het_group", "ntasks_per_gpu"),
    *("container_mounts", "container_name", "container_workdir", "container_mount_home"),
    *("container_entrypoint", "container_save", "auto_resume", "hold"),
    *("clusters", "ntasks_per_socket", "image", "module", "volume"),
)
_OF_SBATCH = (
    *("nodelist", "mail_type", "mail_user", "dependency", "begin", "nice", "priority", "wckey"),
    *("tmp", "mincpus", "wait_all_nodes", "contiguous", "spread_job", "use_min_nodes"),
    *("time_min", "deadline", "prefer", "core_spec", "cpus_per_gpu", "acctg_freq"),
    "ntasks_per_core",
)
"""Options that srun uses where it asks for the nodes itself; for rsctl sbatch asks."""

_SLURM_KEYS = {
    **{"partition": "partition", "account": "account", "qos": "qos", "exclude": "exclude"},
    **{"reservation": "reservation", "constraint": "constraint", "switches": "switches"},
    **{"licenses": "licenses"},
}
_GPUS = re.compile(r"(?:[A-Za-z0-9][\w.-]*)?:\d+|:[A-Za-z][\w.-]*")
_MEMORY = ("mem", "mem_per_gpu", "mem_per_cpu")


def mpirun(arguments: list[str], read: Read) -> Launched:
    """The arguments of `mpirun`, `mpiexec` or `orterun`."""
    options = Options("mpirun", arguments, _MPIRUN, _MPIRUN_SHORT)
    if ":" in options.words:
        unsupported("mpirun", "several programs separated by ':'", "write a job for each program")
    env: dict[str, str | None] = {}
    for (given,) in options.all("x"):
        for each in given.split(","):
            name, separator, value = each.partition("=")
            env[name] = value if separator else None
    for name, value in options.all("genv") + options.all("env"):
        env[name] = value
    for names in [*options.all("genvlist"), *options.all("envlist")]:
        env |= dict.fromkeys(names[0].split(","))
    for kind, prefix in (("mca", "OMPI_MCA_"), ("omca", "OMPI_MCA_"), ("prtemca", "PRTE_MCA_")):
        env |= {f"{prefix}{name}": value for name, value in options.all(kind)}
    ranks = options.number("npernode")
    if placed := re.fullmatch(r"ppr:(\d+):node(?::.*)?", options.text("map_by") or "-"):
        ranks = int(placed[1])
    elif options.text("map_by"):
        env.setdefault("OMPI_MCA_rmaps_base_mapping_policy", options.text("map_by"))
    launched = _of_mpi("mpirun", options, ranks, read)
    keys = {}
    if seconds := options.number("timeout"):
        keys["limits.timeout"] = f"{seconds}s"
    ours = ("allow_run_as_root", "tag_output", "launch_agent", *_HOSTS_OF_OURS)
    return launched.within(env, keys, options.remarks(ours))


def horovodrun(arguments: list[str], read: Read) -> Launched:
    """The arguments of `horovodrun`, whose ranks MPI starts here."""
    options = Options("horovodrun", arguments, _HOROVODRUN, _HOROVODRUN_SHORT)
    launched = _of_mpi("horovodrun", options, options.number("slots_per_host"), read)
    env: dict[str, str | None] = {
        variable: options.text(name)
        for name, variable in _HOROVOD_ENV.items()
        if options.text(name)
    }
    if megabytes := options.number("fusion_threshold_mb"):
        env["HOROVOD_FUSION_THRESHOLD"] = str(megabytes << 20)
    return launched.within(env, {}, options.remarks(("mpi", *_HOSTS_OF_OURS)))


def _of_mpi(name: str, options: Options, each: int, read: Read) -> Launched:
    """The program with its nodes and ranks, by their numbers or by the hosts."""
    launched = read(options.program())
    if launched.launcher:
        unsupported(name, "the program is a launcher itself", "give one of the two launchers")
    slots = [_host_slots(host) for host in options.text("host").split(",") if host]
    slots = slots or _hostfile(name, options.text("hostfile"))
    ranks, remarks = options.number("np"), []
    if slots:
        nodes = len(slots)
        if ranks and (each or slots[0] > 1):  # hosts beyond what the ranks fill are not used
            nodes = min(nodes, -(-ranks // (each or slots[0])))
        each = each or (per_node(name, ranks, nodes) if ranks else max(slots))
        if len(set(slots)) > 1:
            remarks.append(f"{name}: the hosts have different slots; rsctl has {each} on each node")
    elif each:
        nodes = per_node(name, ranks, each) if ranks else 1
    else:
        nodes, each = 1, ranks or 1
        if ranks > 1:
            remarks.append(f"{name}: no hosts are named: set workers.count and processes")
    keys: dict[str, Any] = {"run.launcher": "mpi", "image.apt": ["openmpi-bin"]}
    if nodes > 1:
        keys["target"] = "compose"  # on `process` all nodes are one machine
    return launched._replace(nodes=nodes, processes=each).within(keys=keys, remarks=remarks)


def _host_slots(host: str) -> int:
    slots = host.partition(":")[2]
    return int(slots) if slots.isdigit() else 1


def _hostfile(name: str, path: str) -> list[int]:
    """The slots of each node that a file names."""
    if not path:
        return []
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0] for line in file.read(_LARGEST).splitlines()]
    except OSError as problem:
        unsupported(name, f"cannot read {path}: {problem.strerror}", "correct --hostfile")
    found = [match for line in lines if (match := _HOST_LINE.match(line))]
    return [int(match[1] or match[2] or 1) for match in found]


def srun(arguments: list[str], read: Read) -> Launched:
    """The arguments of `srun`; options without a key of their own become `targets.slurm.srun`."""
    options = Options("srun", arguments, _SRUN, _SRUN_SHORT)
    launched = read(options.program())
    if array := options.text("array"):
        unsupported("srun", f"--array {array}", "omit it; use `matrix` and `rsctl bench run`")
    nodes_text = options.text("nodes").rpartition("-")[2]
    nodes = int(nodes_text) if nodes_text.isdigit() else 0
    tasks, each = options.number("ntasks"), options.number("ntasks_per_node")
    nodes = nodes or (per_node("srun", tasks, each) if tasks and each else 0) or 1
    each = each or (per_node("srun", tasks, nodes) if tasks else 1)
    remarks = []
    if nodes_text and not nodes_text.isdigit():
        remarks.append(f"srun: --nodes {nodes_text}: set workers.count")
    if launched.launcher:
        nodes = max(nodes, launched.nodes)
        if each > 1:
            remarks.append(f"srun: omitted {each} tasks on a node: the launcher starts the ranks")
    else:
        launched = launched._replace(processes=each)
        remarks.append("srun sets SLURM_PROCID and SLURM_LOCALID; rsctl sets RANK, LOCAL_RANK")
    keys = _slurm_keys(options, nodes, each)
    memory = [f"{name}={text}" for name in _MEMORY if (text := options.text(name))]
    if memory and "targets.slurm.memory" not in keys:
        remarks.append(f"srun: --{memory[0].replace('_', '-')}: set targets.slurm.memory")
    if _is_file(image := options.text("container_image")):
        remark = "set image.uri to the image that it has, and targets.slurm.container: pyxis"
        remarks.append(f"srun: --container-image {image} is a file: {remark}")
    if "limits.timeout" not in keys:
        keys["limits.timeout"] = "1h"
        remarks.append("srun: without --time, which Slurm plans by: limits.timeout is 1h")
    remarks += options.remarks(_SRUN_OURS)
    env = keys.pop("env")
    if launched.launcher:  # its ranks share the task's cores
        env.pop("OMP_NUM_THREADS", None)
    return launched._replace(nodes=nodes).within(env, keys, remarks)


def on_this_cluster(command: Launched, environ: Mapping[str, str]) -> Launched:
    """The command of `srun` with what its job needs beside it: a folder that all nodes see, as
    homes are on most clusters, and the Python that this shell finds.
    """
    home = environ.get("HOME", "")
    if not re.fullmatch(r"/[A-Za-z0-9._/+@-]+", home):
        home = "/shared"  # the key takes no other characters
    keys: dict[str, Any] = {"targets.slurm.shared": f"{home}/rsctl"}
    python = shutil.which("python", path=environ.get("PATH", ""))
    if "targets.slurm.container" not in command.keys and python is not None:
        keys["targets.slurm.setup"] = [f"export PATH={quote(os.path.dirname(python))}:$PATH"]
    remark = "targets.slurm.shared is a folder that all nodes see, or the job ends as it starts"
    return command._replace(keys={**command.keys, **keys}, remarks=(*command.remarks, remark))


def _slurm_keys(options: Options, nodes: int, each: int) -> dict[str, Any]:
    keys: dict[str, Any] = {"target": "slurm", "env": {}}
    for name, key in _SLURM_KEYS.items():
        if value := options.text(name):
            keys[f"targets.slurm.{key}"] = value
    if options.has("exclusive"):
        keys["targets.slurm.exclusive"] = True
    if cpus := options.number("cpus_per_task"):
        keys["env"]["OMP_NUM_THREADS"] = str(cpus)
        if not options.has("exclusive"):
            keys["targets.slurm.cpus"] = cpus * each
    if segment := options.number("segment"):
        keys["targets.slurm.segment"] = segment
    for name, value in (("requeue", "yes"), ("no_requeue", "no")):
        if options.has(name):
            keys["targets.slurm.requeue"] = value
    if signal := re.fullmatch(r".*@(\d+)", options.text("signal")):
        keys["limits.grace"] = f"{signal[1]}s"
    if seconds := _seconds(options.text("time")):
        keys["limits.timeout"] = str(Duration(seconds))
    if name := options.text("job_name"):
        keys["name"] = name
    image = options.text("container_image").removeprefix("docker://").replace("#", "/")
    if image and not _is_file(image):
        keys |= {"image.uri": image, "targets.slurm.container": "pyxis"}
    for setting in options.text("export").split(","):
        name, separator, value = setting.partition("=")
        if name not in ("", "ALL", "NONE", "NIL"):
            keys["env"][name] = value if separator else None
    kind, gpus = _gpus(options, nodes, each)
    if gpus:
        keys["workers.accelerator"] = f"{kind or 'gpu'}:{gpus}"
    if kind:
        keys["targets.slurm.gpu_type"] = kind
    for name, count in zip(_MEMORY, (1, gpus, (cpus or 1) * each), strict=True):
        memory = re.fullmatch(r"(\d+)([KMGT]?)B?", options.text(name).upper())
        if memory and count:
            size = int(memory[1]) * count
            keys["targets.slurm.memory"] = f"{size}{memory[2] or 'M'}iB" if size else "all"
    if others := _gres(options)[1]:
        keys["targets.slurm.sbatch"] = [f"--gres={','.join(others)}"]
    for name, values in options.rest(without=(*_SRUN_OURS, *_NO_KEY)):
        program = "sbatch" if name in _OF_SBATCH else "srun"
        option = f"--{name.replace('_', '-')}" + (f"={values[0]}" if values else "")
        keys.setdefault(f"targets.slurm.{program}", []).append(option)
    return keys


def _is_file(image: str) -> bool:
    return image.startswith(("/", ".")) or image.endswith(".sqsh")


def _gpus(options: Options, nodes: int, each: int) -> tuple[str, int]:
    """The type of the GPUs, empty if none is named, and their number on each node."""
    of_node = options.text("gpus_per_node") or next(iter(_gres(options)[0]), "")
    in_all, of_task = options.text("gpus"), options.text("gpus_per_task")
    kind, _, count = (of_node or in_all or of_task).rpartition(":")
    if not count:
        return "", 0
    if not _GPUS.fullmatch(f"{kind}:{count}"):
        given = of_node or in_all or of_task
        unsupported("srun", f"{given!r} is not [TYPE:]COUNT of GPUs", "correct the command")
    kind, number = (kind, int(count)) if count.isdigit() else (count, 1)
    if of_node:
        return kind, number
    return kind, -(-number // nodes) if in_all else number * each


def _gres(options: Options) -> tuple[list[str], list[str]]:
    """The GPUs of `--gres`, as `TYPE:COUNT`, and its other resources."""
    each = [text for text in options.text("gres").split(",") if text]
    gpus = [text for text in each if text.partition(":")[0] == "gpu"]
    others = [text for text in each if text not in gpus]
    return [text.partition(":")[2] or "1" for text in gpus], others


def _seconds(text: str) -> int:
    """Slurm's `[DAYS-]HOURS:MINUTES:SECONDS`, `MINUTES:SECONDS`, `DAYS-HOURS` or `MINUTES`."""
    days, dash, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":") if part.isdigit()]
    if not parts:
        return 0
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(parts) == 1:
        return parts[0] * 60
    total = 0
    for part in parts:
        total = total * 60 + part
    return total
