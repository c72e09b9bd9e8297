"""The allowed regressions of a gate: one of each metric, and others for some cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rsctl.bench.verdict import Floor
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.gate_checks import cells_remedy
from rsctl.job.matrix import format_value
from rsctl.job.units import Regression

_OF_CELLS = re.compile(r"([^\[\]]*)\[(.*)\]=([^=\]]*)")


class CellFloor(msgspec.Struct, frozen=True):
    """The floor of a metric in the cells that have these values, as they are written."""

    metric: str
    values: tuple[tuple[str, str], ...]
    floor: Floor

    def applies_to(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell has all of the values."""
        return all(name in cell and format_value(cell[name]) == v for name, v in self.values)

    @property
    def title(self) -> str:
        """`throughput[workers.count=8]`, as on a command line."""
        return f"{self.metric}[{','.join(f'{name}={value}' for name, value in self.values)}]"


class Floors(dict[str, Floor]):
    """The floor of each metric; `cells` are other floors for some cells, the last of which applies.

    A floor of cells needs a floor of the metric, which applies to the other cells.
    """

    def __init__(self, floors: Mapping[str, Floor] | None = None) -> None:
        super().__init__(floors or {})
        self.cells: list[CellFloor] = []

    def of(self, metrics: Collection[str]) -> Floors:
        """The floors of some metrics."""
        found = Floors({name: floor for name, floor in self.items() if name in metrics})
        found.cells = [one for one in self.cells if one.metric in metrics]
        return found

    def require_cells(self, cells: Sequence[Mapping[str, Any]]) -> None:
        """Raise RsctlError for a floor of cells that applies to none, or whose metric has none."""
        for one in self.cells:
            if one.metric not in self:
                message = f"{one.title}: {one.metric} has no allowed regression in other cells"
                raise _wrong(message, f"set max_regression of {one.metric} too")
            if not any(one.applies_to(cell) for cell in cells):
                remedy = cells_remedy([dict(cell) for cell in cells])
                raise _wrong(f"{one.title}: no cell has these values", remedy)


def floor_of(floors: Mapping[str, Floor], metric: str, cell: Mapping[str, Any]) -> Floor:
    """The floor of a metric in a cell. Raises KeyError if the metric has none."""
    of_cells = floors.cells if isinstance(floors, Floors) else []
    found = [one.floor for one in of_cells if one.metric == metric and one.applies_to(cell)]
    return found[-1] if found else floors[metric]


def make_floors(block: Mapping[str, Any], texts: Iterable[str]) -> Floors:
    """The floors of a `gate:` block as it is written, and of options, which override it.

    Raises RsctlError.
    """
    floors = Floors(_each(block.get("max_regression")))
    for rule in block.get("cells") or ():
        values = tuple((str(k), format_value(v)) for k, v in (rule.get("cell") or {}).items())
        for name, floor in _each(rule.get("max_regression")).items():
            floors.cells.append(CellFloor(name, values, floor))
    for text in texts:
        if match := _OF_CELLS.fullmatch(text):
            floors.cells.append(
                CellFloor(match[1], _values(text, match[2]), _floor(*match.group(1, 3)))
            )
        else:
            name, _, amount = text.partition("=")
            floors[name] = _floor(name, amount)
    return floors


def _each(block: Any) -> dict[str, Floor]:
    return {name: _floor(name, str(value)) for name, value in (block or {}).items()}


def _values(text: str, given: str) -> tuple[tuple[str, str], ...]:
    pairs = [pair.partition("=") for pair in given.split(",")]
    if not all(name.strip() and separator for name, separator, _ in pairs):
        raise _wrong(
            f"max_regression {text}: expected KEY=VALUE of the matrix in the brackets",
            "for example throughput[workers.count=8]=8%",
        )
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _floor(name: str, text: str) -> Floor:
    try:
        allowed = Regression.parse(text)
    except ValueError as problem:
        message = f"max_regression {name}={text}: expected {': '.join(map(str, problem.args))}"
        raise _wrong(message, f"for example {name or 'throughput'}=5%") from None
    if not name:
        raise _wrong(f"max_regression ={text} does not name a metric", "for example throughput=5%")
    return Floor(allowed.amount, allowed.is_relative)


def _wrong(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("gate", message, remedy))
