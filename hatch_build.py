"""Builds the transport's C++ core into the package; without a compiler the Python engine serves.

`RSCTL_CORE=portable` builds it with zig, for wheels that are given away: it then loads with any
glibc since 2.17. `RSCTL_CORE=none` leaves it out.
"""

from __future__ import annotations

import importlib.util
import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WISH = os.environ.get("RSCTL_CORE", "")


class CoreHook(BuildHookInterface):
    """Called by hatchling for every wheel, editable ones too."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beyond hatchling."""
        return ["ziglang"] if _WISH == "portable" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the core, and make the wheel one of this platform if there is one in it."""
        if self.target_name != "wheel" or _WISH == "none":
            return
        core = _build_core(Path(self.root))
        is_editable = version == "editable"
        # Not in the checkout, which may be read-only.
        library = core.LIBRARY if is_editable else Path(self.directory, core.LIBRARY.name)
        problem = core.build(library)
        if problem is not None:
            self.app.display_warning(f"without the transport's core: {problem}")
            return
        libc = "manylinux_2_17" if _WISH == "portable" else "linux"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{libc}_{platform.machine()}"
        if not is_editable:
            build_data["force_include"][str(library)] = str(core.LIBRARY.relative_to(self.root))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the core that is now in the wheel."""
        for library in build_data["force_include"]:
            Path(library).unlink()


def _build_core(root: Path) -> ModuleType:
    """The package's own module, which needs nothing of the package."""
    path = root / "rsctl" / "transport" / "build_core.py"
    spec = importlib.util.spec_from_file_location("build_core", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
