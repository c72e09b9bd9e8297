"""Runs a Python script with the binding to PyTorch where torch does not load it by itself.

    python -u .../rsctl_start.py rsctl.node.run_with_binding SCRIPT ARGUMENTS...
    python -u .../rsctl_start.py rsctl.node.run_with_binding -m MODULE ARGUMENTS...

torch before 2.5 has no autoload, and SageMaker's data parallel library needs a torch before 2.5.
The script finds itself as Python would have started it.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import sys
from importlib.metadata import entry_points

import rsctl_start

_BINDING = "rsctl"


def main() -> None:
    """Load the binding, then run what the command line names."""
    # The script's objects end as in a Python of its own.
    atexit.unregister(gc.freeze)
    gc.set_threshold(*rsctl_start.USUAL_COLLECTIONS)
    del sys.argv[0]
    is_module = sys.argv[0] == "-m"
    if is_module:
        del sys.argv[0]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folder = os.getcwd() if is_module else os.path.dirname(os.path.abspath(sys.argv[0]))
    sys.path[:0] = [folder, *(os.path.abspath(each) for each in given if each)]
    import torch  # noqa: F401 - the binding patches it

    for entry in entry_points(group="torch.backends", name=_BINDING):
        entry.load()()
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
