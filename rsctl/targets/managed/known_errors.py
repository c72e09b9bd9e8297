"""Common parts of the tables of known errors of both clouds."""

from __future__ import annotations

from rsctl.runs.stream.memory_causes import LESS_MEMORY

STOCK_OUT = "stock-out"
"""The code of a finding that the cloud has too few machines at the moment."""

NO_CAPACITY = frozenset({STOCK_OUT, "quota"})
"""The codes of findings that a job gets no machines where it is, but may elsewhere."""

MORE_MEMORY = f"{LESS_MEMORY}, or a machine with more memory"
"""The remedy for a replica that ran out of memory."""
