"""Reads the command line of `deepspeed`.

Options by https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/launcher/runner.py. Where
nodes meet is rsctl's to decide, so such options are only named; one that rsctl does not know is an
error.
"""

from __future__ import annotations

import re
from pathlib import Path

from rsctl.job.launcher_options import RENDEZVOUS, Launched, Options, spec

_SPEC = spec(
    none="module no_local_rank no_ssh no_ssh_check force_multi save_pid bind_cores_to_rank "
    "no_python",
    one="num_nodes num_gpus num_accelerators include exclude hostfile master_port master_addr "
    "node_rank launcher launcher_args ssh_port comment account enable_each_rank_log bind_core_list",
)
_OURS = (
    *RENDEZVOUS,
    *("launcher", "launcher_args", "ssh_port", "no_ssh", "no_ssh_check", "force_multi"),
)
_LARGEST = 1 << 20
_HOST = re.compile(r"(?m)^[ \t]*[\w.:-]+[ \t]+slots=([0-9]{1,4})[ \t]*(?:#.*)?$")
_SHORT = {"H": "hostfile", "i": "include", "e": "exclude"}


def deepspeed(arguments: list[str]) -> Launched:
    """The arguments of `deepspeed`. Raises RsctlError for an option that cannot be said."""
    options = Options("deepspeed", arguments, _SPEC, _SHORT)
    ranks = options.number("num_gpus") or options.number("num_accelerators")
    remarks = []
    if not options.has("no_local_rank"):
        remarks.append(
            "deepspeed passes --local_rank=N to the script; rsctl sets LOCAL_RANK instead"
        )
    nodes = options.number("num_nodes")
    named = [name for name in ("include", "exclude", "hostfile") if options.text(name)]
    slots = _slots(options.text("hostfile")) if named == ["hostfile"] else []
    if len(set(slots)) == 1:
        nodes, ranks = nodes or len(slots), ranks or slots[0]
    for name in named:
        if not slots or len(set(slots)) > 1:
            value = options.text(name)
            remarks.append(f"--{name} {value}: set workers.count and processes accordingly")
    keys = {}
    if account := options.text("account"):
        keys["targets.slurm.account"] = account
    kind = options.program_kind()
    remarks += options.remarks(_OURS)
    return Launched(kind, options.program(), nodes or 1, ranks, {}, keys, tuple(remarks))


def _slots(path: str) -> list[int]:
    """The ranks of each node that a hostfile names; none if there is no such file."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return [int(slots) for slots in _HOST.findall(file.read(_LARGEST))]
    except OSError:
        return []
