"""`python -m benchmarks.advise`: predicts the kept measurements anew, writes table and chart."""

from __future__ import annotations

from benchmarks.advise import report

print(report().text())
