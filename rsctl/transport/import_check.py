"""Imported to see whether an engine could work here: the core if it loads, else the twin's numpy.

Raises ImportError if there is neither. An image's check imports it.
"""

from __future__ import annotations

from rsctl.transport.engines import engine_name

ENGINE = engine_name(core=True)
if ENGINE == "python":
    import numpy as numpy
