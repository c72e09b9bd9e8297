"""Vertex AI on loopback: custom jobs that really run, their log, their metrics, their storage.

What it does as the documentation says: the wire format, what is refused, the states of a job, the
containers' environment, restarts, the limits of rates. Undocumented answers that it invents are
named in `behaviour`, `rules` and `outcomes`.
"""

from rsctl.targets.vertex.emulator.behaviour import Behaviour
from rsctl.targets.vertex.emulator.emulator import VertexEmulator

__all__ = ["Behaviour", "VertexEmulator"]
