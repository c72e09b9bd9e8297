"""NCCL's variables for the RDMA network of Vertex AI's a3-ultra, a4 and a4x machines.

Google's documentation starts training commands with `source /usr/local/gib/scripts/set_nccl_env.sh`
("Configure compute resources"). A node sources the script in a child process and takes over the
variables that it has set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from rsctl.node.small_files import listed
from rsctl.node.structured_lines import emit, warning

SETUP = "RSCTL_NCCL_SETUP"
"""`gib` where the job's machines need the script."""

SCRIPT = "/usr/local/gib/scripts/set_nccl_env.sh"
RDMA_DEVICES = "/sys/class/infiniband"

_SECONDS = 60
_SHELLS_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
_SOURCE = 'source "$1" >&2; exec "$2" -I -S -c "$3"'
_PRINT = "import os; os.write(1, open('/proc/self/environ', 'rb').read() + b'end')"
"""The variables that a shell has exported; Python adds to os.environ in the C locale."""
_SLOW = "NCCL may use TCP instead of the machine's RDMA network, at a fraction of its rate"
_REMEDY = (
    "install Google's gIB plugin for NCCL in the image, which contains the script, or set its "
    "variables in run.env; NCCL_DEBUG=INFO shows the network that NCCL uses"
)


def nccl_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the script sets, if the node needs it; a warning if it is not available.

    Values in `environ` take precedence, except for lists of paths that the script extends.
    """
    is_expected = environ.get(SETUP) == "gib"
    if not os.path.isfile(SCRIPT):
        if is_expected:
            _warn(f"{SCRIPT} does not exist in this container: {_SLOW}")
        return {}
    if not is_expected and not listed(RDMA_DEVICES):
        return {}  # An image can bring the script to machines where its settings make NCCL fail.
    import subprocess  # which a plan, that imports this too, does not need

    try:
        after = _sourced(environ)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _warn(f"could not source {SCRIPT} ({error}): {_SLOW}")
        return {}
    return {name: text for name, text in after.items() if _is_new(name, text, environ)}


def _sourced(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment after the script. Raises ValueError if it has ended the shell.

    `-p`: bash neither runs BASH_ENV nor takes functions out of the environment.
    """
    import subprocess

    argv = ["bash", "-p", "-c", _SOURCE, "bash", SCRIPT, sys.executable, _PRINT]
    done = subprocess.run(
        argv,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=_SECONDS,
        check=False,
    )
    *pairs, end = done.stdout.split(b"\0")
    if end != b"end":
        raise ValueError(f"it ended with code {done.returncode}")
    found = (os.fsdecode(pair).partition("=") for pair in pairs)
    return {name: text for name, _, text in found}


def _is_new(name: str, text: str, environ: Mapping[str, str]) -> bool:
    if name in _SHELLS_OWN or environ.get(name) == text:
        return False
    before = environ.get(name)
    return not before or (name.endswith("PATH") and before in text)


def _warn(message: str) -> None:
    emit("finding", warning("nccl-setup", message, _REMEDY))
