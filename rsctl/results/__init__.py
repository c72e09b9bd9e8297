"""Runs and benches for notebooks: tables as data frames.

>>> from rsctl.results import frame
>>> frame("bert-bench-7f3k2a", table="samples").query("name == 'throughput'")

What is in the store is read, and no cloud is asked: `rsctl status RUN` brings a run up to date.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol, Union

from rsctl.bench.results import find_source
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.installation import install_command
from rsctl.results.export.columns import ColumnType
from rsctl.results.export.formats import arrow_table, as_time
from rsctl.results.export.tables import Table, TableName, make_table, sources_of
from rsctl.runs.store import Store

_DTYPES: dict[ColumnType, str] = {
    "text": "string",
    "integer": "Int64",
    "float": "float64",
    "boolean": "boolean",
    "time": "datetime64[us, UTC]",
}


class Handle(Protocol):
    """A run or a bench of `rsctl.api`."""

    @property
    def id(self) -> str:
        """Its ID."""


def frame(*references: Union[str, Handle], table: TableName = "metrics") -> Any:
    """A table of runs and benches: a pandas.DataFrame if pandas is installed, otherwise a
    pyarrow.Table.

    `references` are the same as in the commands: ids, unique prefixes, `@last`; or runs and benches
    of `rsctl.api`. The runs of a bench have the values of their cells as columns `cell.KEY`.
    `table` is `runs`, `samples` (one number a run and metric), `metrics` or `telemetry`. Units of
    columns are in a DataFrame's `attrs["units"]` and in the metadata of a pyarrow field. Raises
    RsctlError.
    """
    store = Store()
    names = [each if isinstance(each, str) else each.id for each in references]
    found = [find_source(store, name) for name in names]
    made = make_table(table, store, [s for one in found for s in sources_of(store, one)])
    if find_spec("pandas"):
        return _pandas(made)
    if find_spec("pyarrow"):
        return arrow_table(made)
    message = "a data frame needs pandas or pyarrow, and neither is installed"
    finding = error("extra", message, f"install one: {install_command('arrow')}")
    raise RsctlError(ExitCode.ENVIRONMENT, finding)


def _pandas(table: Table) -> Any:
    import pandas

    values = list(zip(*table.rows(), strict=True)) or [()] * len(table.columns)
    columns = {}
    for column, cells in zip(table.columns, values, strict=True):
        is_time = column.type == "time"
        plain = [as_time(str(v)) if is_time and v is not None else v for v in cells]
        columns[column.name] = pandas.Series(plain, dtype=_DTYPES[column.type])
    made = pandas.DataFrame(columns)
    made.attrs["units"] = {c.name: c.unit for c in table.columns if c.unit}
    return made
