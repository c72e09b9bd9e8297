"""`python -m benchmarks.advise`: predicts the kept measurements anew, writes table and chart.

With the argument `computing` it first measures the cases whose ranks compute. Needs root then.
"""

from __future__ import annotations

import sys

from benchmarks.advise import measure_computing, report

_RUNS = 3

is_measured = sys.argv[1:] == ["computing"]
print((measure_computing(_RUNS) if is_measured else report()).text())
