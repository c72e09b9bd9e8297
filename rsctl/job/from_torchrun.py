"""Reads the command lines of torchrun, and of launchers that start ranks as it does.

Options by https://docs.pytorch.org/docs/stable/elastic/run.html,
https://github.com/mosaicml/composer/blob/main/composer/cli/launcher.py,
https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/cli.py,
https://github.com/hpcaitech/ColossalAI/blob/main/colossalai/cli/launcher/__init__.py,
https://github.com/meta-pytorch/torchtune/blob/main/torchtune/_cli/run.py and
https://github.com/meta-pytorch/torchx/blob/main/torchx/components/dist.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from rsctl.job.launcher_options import (
    RENDEZVOUS,
    Launched,
    Options,
    command_error,
    option_values,
    per_node,
    spec,
    unsupported,
)

_TORCHRUN = spec(
    none="standalone no_python run_path use_env module virtual_local_rank",
    one="nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts "
    "monitor_interval start_method role log_dir redirects tee local_ranks_filter node_rank "
    "master_addr master_port local_addr logs_specs event_log_handler numa_binding "
    "signals_to_handle shutdown_timeout duplicate_stdout_filters duplicate_stderr_filters",
)
_TORCHRUN_SHORT = {"m": "module", "r": "redirects", "t": "tee"}
_COMPOSER = spec(
    none="module_mode command_mode verbose",
    one="nproc world_size base_rank node_rank master_addr master_port stdout stderr",
)
_COMPOSER_SHORT = {"n": "nproc", "m": "module_mode", "c": "command_mode", "v": "verbose"}
_FABRIC = spec(
    one="accelerator strategy devices num_nodes node_rank main_address main_port precision"
)
_FABRIC_ENV = ("accelerator", "strategy", "precision")
_COLOSSALAI = spec(
    none="module",
    one="host hostfile include exclude num_nodes nproc_per_node master_port master_addr "
    "extra_launch_args ssh_port",
)
_COLOSSALAI_OURS = (*RENDEZVOUS, "ssh_port", "host", "hostfile")
_TORCHX = spec(none="dryrun wait log", one="scheduler scheduler_args workspace parent_run_id")
_TORCHX_SHORT = {"s": "scheduler", "cfg": "scheduler_args"}
_COMPONENT = spec(
    one="script module name h cpu gpu memMB j env image max_retries rdzv_port rdzv_backend "
    "rdzv_conf mounts debug tee num_replicas"
)


def torchrun(arguments: list[str], name: str = "torchrun") -> Launched:
    """The arguments of torchrun, also those of `torch.distributed.launch`."""
    options = Options(name, arguments, _TORCHRUN, _TORCHRUN_SHORT)
    keys: dict[str, object] = {}
    remarks = []
    nnodes = options.text("nnodes") or "1"
    most = nnodes.rpartition(":")[2]
    if not most.isdigit():
        remarks.append(f"{name}: --nnodes {nnodes}: set workers.count")
    elif ":" in nnodes:
        remarks.append(f"{name}: --nnodes {nnodes} is elastic; rsctl starts workers.count")
    each = options.text("nproc_per_node") or "1"
    if not each.isdigit() and each not in ("auto", "gpu"):
        remarks.append(f"{name}: --nproc-per-node {each}: set workers.processes")
    if restarts := options.number("max_restarts"):
        keys["limits.restarts_in_place"] = restarts
    if grace := options.number("shutdown_timeout"):
        keys["limits.grace"] = f"{grace}s"
    kind = options.program_kind()
    if name == "torch.distributed.launch" and not options.has("use_env"):
        remarks.append(f"{name} passes --local-rank=N to the script; rsctl sets LOCAL_RANK instead")
    remarks += options.remarks(RENDEZVOUS)
    nodes = int(most) if most.isdigit() and int(most) else 1
    ranks = int(each) if each.isdigit() else 0
    return Launched(kind, options.program(), nodes, ranks, {}, keys, tuple(remarks))


def composer(arguments: list[str]) -> Launched:
    """The arguments of `composer`."""
    options = Options("composer", arguments, _COMPOSER, _COMPOSER_SHORT)
    ranks = options.number("nproc")
    world = options.number("world_size") or ranks
    if world and not ranks:
        unsupported("composer", "--world_size without --nproc", "add --nproc, the ranks of a node")
    nodes = per_node("composer", world, ranks) if ranks else 1
    kind = "module" if options.has("module_mode") else "script"
    kind = "command" if options.has("command_mode") else kind
    remarks = options.remarks(RENDEZVOUS)
    if nodes > 1:
        remarks.append("composer sets NODE_RANK; torchrun sets GROUP_RANK instead")
    return Launched(kind, options.program(), nodes, ranks, {}, {}, tuple(remarks))


def fabric(arguments: list[str]) -> Launched:
    """The arguments of `fabric run`, whose options may also follow the script.

    It starts ranks by torchrun, and tells Fabric of its options by variables.
    """
    options = Options("fabric run", _options_first(arguments), _FABRIC)
    nodes, devices = options.number("num_nodes") or 1, options.text("devices") or "1"
    given = {name: options.text(name) for name in _FABRIC_ENV}
    given |= {"devices": devices, "num_nodes": str(nodes)}
    env = {f"LT_{name.upper()}": value for name, value in given.items() if value}
    remarks = ["fabric run: LT_DEVICES and LT_NUM_NODES are workers.processes and workers.count"]
    ranks = int(devices) if devices.isdigit() else len(devices.strip(",").split(","))
    ranks = {"-1": 0, "auto": 1}.get(devices, ranks)
    if "," in devices:
        remarks.append(f"fabric run: --devices {devices}: rsctl takes the first {ranks}")
        env["LT_DEVICES"] = str(ranks)
    if given["strategy"] == "dp":
        ranks = 1
    remarks += options.remarks(RENDEZVOUS)
    env = {"LT_CLI_USED": "1", **env}
    return Launched("script", options.program(), nodes, ranks, env, {}, tuple(remarks))


def colossalai(arguments: list[str]) -> Launched:
    """The arguments of `colossalai run`."""
    options = Options("colossalai run", arguments, _COLOSSALAI, {"H": "host", "m": "module"})
    hosts = [each for each in options.text("host").split(",") if each]
    nodes = options.number("num_nodes") or len(hosts) or 1
    remarks = []
    if options.text("hostfile") and not options.number("num_nodes"):
        remarks.append("colossalai run: --hostfile: set workers.count")
    kind = options.program_kind()
    remarks += options.remarks(_COLOSSALAI_OURS)
    ranks = options.number("nproc_per_node")
    return Launched(kind, options.program(), nodes, ranks, {}, {}, tuple(remarks))


def _options_first(arguments: list[str]) -> list[str]:
    """The same with all options of `fabric run` before its script, up to `--`."""
    options: list[str] = []
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            others += rest
            break
        name, separator, _ = word.partition("=")
        if name.startswith("--") and name[2:].replace("-", "_") in _FABRIC:
            options += [word] if separator else [word, *rest[:1]]
            rest = rest if separator else rest[1:]
        else:
            others.append(word)
    return [*options, *others]


def tune(arguments: list[str]) -> Launched:
    """The arguments of `tune run`: a recipe of torchtune's own on one node is its command, since
    only `tune` finds it.
    """
    launched = torchrun(arguments, "tune run")
    recipe, nodes = launched.words[0], launched.nodes
    configs = option_values("--config", launched.words)
    own = [] if recipe.endswith(".py") else [("recipe", recipe, "recipe.py")]
    own += [("config", name, "config.yaml") for name in configs if not Path(name).is_file()]
    if not own:
        return launched
    if nodes > 1:
        copies = " && ".join(f"tune cp {name} {copy}" for _, name, copy in own)
        named = " and ".join(f"{kind} {name}" for kind, name, _ in own)
        unsupported("tune run", f"{named} of torchtune on {nodes} nodes", f"copy it: {copies}")
    return Launched(
        "command", ["tune", "run", *arguments], processes=1, keys={"run.launcher": "once"}
    )


def torchx(arguments: list[str]) -> Launched:
    """The arguments of `torchx run` with components `dist.ddp`, `dist.spmd` and `utils.python`."""
    options = Options("torchx run", arguments, _TORCHX, _TORCHX_SHORT)
    component, *rest = options.program()
    if component not in ("dist.ddp", "dist.spmd", "utils.python"):
        unsupported(
            "torchx run",
            f"component {component} has no counterpart",
            "use dist.ddp, dist.spmd or utils.python",
        )
    parts = Options(component, rest, _COMPONENT, {"m": "module"})
    words = parts.words[1:] if parts.words[:1] == ["--"] else parts.words
    script, module = parts.text("script"), parts.text("module")
    if not script and not module:
        raise command_error(f"{component} does not start a script", "add --script or -m")
    keys: dict[str, object] = {}
    if name := parts.text("name").rpartition("/")[2]:
        keys["name"] = name
    if image := parts.text("image"):
        keys["image.base"] = image
    if retries := parts.number("max_retries"):
        keys["limits.retries"] = retries
    env = dict(each.partition("=")[::2] for each in parts.text("env").split(",") if each)
    size = re.fullmatch(r"(?:(\d+):)?(?:(\d+)x)?(\d+)", parts.text("j") or "1x1")
    if size is None:
        unsupported(component, f"-j {parts.text('j')} is not [MIN:]NODESxRANKS", "correct it")
    scheduler, gpus, machine = options.text("scheduler"), parts.number("gpu"), parts.text("h")
    remarks = []
    if scheduler == "local_docker":
        keys["target"] = "compose"
    elif scheduler not in ("", "local_cwd"):
        remarks.append(f"torchx run: -s {scheduler}: set target")
    remarks += options.remarks()
    if gpus:
        keys["workers.accelerator"] = f"gpu:{gpus}"
        remark = f"--gpu {gpus} names no type: a cloud needs one in workers.accelerator"
        remarks.append(f"{component}: {remark}")
    if machine:
        remarks.append(f"{component}: -h {machine}: set workers.machine")
    remarks += parts.remarks(RENDEZVOUS)
    if size[1]:
        remarks.append(f"{component}: -j {size[0]} is elastic; rsctl starts {size[2]} nodes")
    if component == "utils.python":
        keys["run.launcher"] = "once"
    kind, program = ("script", script) if script else ("module", module)
    nodes, ranks = int(size[2] or 1), int(size[3])
    return Launched(kind, [program, *words], nodes, ranks, env, keys, tuple(remarks))
