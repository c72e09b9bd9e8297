"""Writes tables as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from typing import IO, Any, Literal

import msgspec

from rsctl.installation import needs_extra
from rsctl.results.export.columns import Column, Row, Value
from rsctl.results.export.tables import Table
from rsctl.runs.stream.ndjson import finite
from rsctl.runs.stream.sanitize import sanitize_line

Format = Literal["parquet", "csv", "json"]

_ROWS_AT_ONCE = 50_000
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_csv(table: Table, file: IO[bytes]) -> None:
    """CSV with a header; nothing for null, NaN, inf and -inf as these words.

    Texts that a spreadsheet could take for a formula get a `'` in front: see `harmless`. Lines end
    with a line feed alone: in CI systems the fence of standard output escapes a carriage return.
    """
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writerow([harmless(column.name) for column in table.columns])
    for row in table.rows():
        writer.writerow([harmless(v) if isinstance(v, str) else v for v in row])
    text.detach()


def harmless(text: str) -> str:
    """A text as a cell of a spreadsheet may have it: one line, and never the start of a formula.

    The rule is OWASP's on CSV injection; the full-width signs count as some spreadsheets take them.
    """
    line = sanitize_line(text)
    is_formula = text.startswith(_FORMULA_STARTS) or line.lstrip().startswith(_FORMULA_STARTS)
    return f"'{line}" if is_formula else line


def write_json(tables: Sequence[Table], file: IO[bytes]) -> None:
    """One document: by table its `columns` (name, type, unit) and its `rows`, as objects."""
    encode = msgspec.json.Encoder().encode
    file.write(b"{")
    for number, table in enumerate(tables):
        columns = encode([column._asdict() for column in table.columns])
        file.write(b'%s\n"%s": {"columns": %s, "rows": [' % (
            b"," * bool(number), table.name.encode(), columns,
        ))  # fmt: skip
        names = [column.name for column in table.columns]
        for index, row in enumerate(table.rows()):
            values = finite(dict(zip(names, row, strict=True)))
            file.write((b",\n" if index else b"\n") + encode(values))
        file.write(b"]}")
    file.write(b"\n}\n")


def write_parquet(table: Table, file: IO[bytes]) -> None:
    """Parquet; units are metadata `unit` of the columns, times are timestamps in UTC.

    Raises RsctlError without the extra `arrow`.
    """
    require_arrow()
    from pyarrow.parquet import ParquetWriter

    schema = arrow_schema(table.columns)
    with ParquetWriter(file, schema) as writer:
        for block in _blocks(table):
            writer.write_table(_arrow_block(table.columns, block, schema))


def arrow_table(table: Table) -> Any:
    """The whole table as a pyarrow.Table. Raises RsctlError without the extra `arrow`."""
    require_arrow()
    import pyarrow

    schema = arrow_schema(table.columns)
    blocks = [_arrow_block(table.columns, block, schema) for block in _blocks(table)]
    return pyarrow.concat_tables(blocks)


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The pyarrow.Schema of some columns."""
    import pyarrow

    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "float": pyarrow.float64(),
        "boolean": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    return pyarrow.schema([
        pyarrow.field(c.name, types[c.type], metadata={"unit": c.unit} if c.unit else None)
        for c in columns
    ])  # fmt: skip


def require_arrow() -> None:
    """Raise RsctlError with the command that installs pyarrow, unless it is installed."""
    remedy = "install it: {}   or use --format csv or json"
    with needs_extra("arrow", "extra", "Parquet needs pyarrow, which is not installed", remedy):
        import pyarrow  # noqa: F401


def _blocks(table: Table) -> Iterator[list[Row]]:
    """The rows in blocks; a table without rows has one empty block."""
    rows = table.rows()
    yield list(islice(rows, _ROWS_AT_ONCE))
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        yield block


def _arrow_block(columns: Sequence[Column], rows: list[Row], schema: Any) -> Any:
    import pyarrow

    found = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in columns]
    arrays = [
        pyarrow.array([_arrow_value(v, c) for v in values], type=field.type)
        for values, c, field in zip(found, columns, schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _arrow_value(value: Value, column: Column) -> Any:
    if column.type == "time" and isinstance(value, str):
        return as_time(value)
    if column.type == "text" and isinstance(value, str):
        return value.encode(errors="replace").decode()
    return value


def as_time(text: str) -> Any:
    """An event's time as an aware datetime; None for an invalid time, for example from a broken
    clock.
    """
    from rsctl.runs.stream.events import parse_time

    try:
        return parse_time(text)
    except ValueError:
        return None
