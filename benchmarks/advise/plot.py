"""Predicted against measured, as a scatter plot on two logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

_LIMITS = (0.4, 2.5)
_TICKS = (0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 2.5)
_BAND = 0.05


def write_plot(path: Path, points: Sequence[tuple[float, float]]) -> None:
    """Write an SVG of measured and predicted seconds, the same each time for the same points."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rsctl"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.2, 5))
    low, high = _LIMITS
    axes.fill_between(
        _LIMITS,
        [low * (1 - _BAND), high * (1 - _BAND)],
        [low * (1 + _BAND), high * (1 + _BAND)],
        color="#dddddd",
        label=f"within {_BAND:.0%}",
    )
    axes.plot(_LIMITS, _LIMITS, color="#888888", linewidth=0.8)
    axes.scatter(*zip(*points, strict=True), s=28, color="#0b5fa5", zorder=3, label="a job")
    for axis, scale, label in (
        (axes.xaxis, axes.set_xscale, "measured step, seconds"),
        (axes.yaxis, axes.set_yscale, "predicted step, seconds"),
    ):
        scale("log")
        axis.set_ticks(_TICKS, labels=[f"{tick:g}" for tick in _TICKS])
        axis.set_ticks([], minor=True)
        axis.set_label_text(label)
    axes.set_xlim(_LIMITS)
    axes.set_ylim(_LIMITS)
    axes.set_title("Jobs that the model was not fitted to", fontsize=10)
    axes.legend(loc="upper left", frameon=False)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
