"""Import check for images: an engine can run here, the core or the Python engine with numpy.

Raises ImportError if there is neither. `rsctl.node.check` imports it.
"""

from __future__ import annotations

from rsctl.transport.engines import engine_name

ENGINE = engine_name(core=True)
if ENGINE == "python":
    import numpy as numpy
