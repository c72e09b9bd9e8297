"""`rsctl export RUN…`: runs and benches as tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Optional, get_args

import typer

from rsctl.api import Bench, Store
from rsctl.atomic_file import write_file
from rsctl.cli.command import OUTPUT, make_command
from rsctl.cli.options import parse_choice
from rsctl.cli.runs import find_collected
from rsctl.cli.show import print_message
from rsctl.findings import first_of
from rsctl.results.export.formats import Format, require_arrow, write_csv, write_json, write_parquet
from rsctl.results.export.tables import TABLES, ExportSource, Table, make_table, sources_of

_SHOWN = 5


def _parse_table(name: str) -> str:
    return parse_choice(name, TABLES)


@make_command("export", json_errors=False)
def command(
    context: typer.Context,
    references: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs and benches, named as in other commands."),
    ],
    file_format: Annotated[
        Format, typer.Option("--format", "-f", help="parquet needs the extra arrow.")
    ] = "csv",
    tables: Annotated[
        list[str],
        typer.Option(
            "--table",
            metavar=f"<{'|'.join(TABLES)}>",
            parser=_parse_table,
            help="Export only this table. Repeatable. Default: all tables.",
        ),
    ] = [],
    output: Annotated[
        Optional[str],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|DIR",
            rich_help_panel=OUTPUT,
            help="The destination: a file for one table or for JSON, otherwise a folder. Default: "
            "standard output, except for parquet.",
        ),
    ] = None,
) -> int:
    """Export runs and benches as tables: runs, samples, metrics, telemetry.

    A sample is one number per run and metric. Runs of a bench have their cell's values as columns.
    In CSV, text that a spreadsheet could read as a formula starts with a '.

    Exit code: 0; 3 if the cloud of a run cannot be asked: the tables have what is stored.
    """
    names = [name for name in TABLES if name in tables] or list(TABLES)
    is_folder = output is not None and _is_folder(output, file_format, len(names))
    _check_choice(context, output, file_format, is_folder or len(names) == 1)
    if file_format == "parquet":
        require_arrow()
    store = Store()
    codes: list[int] = []
    sources = [source for name in references for source in _sources(store, name, codes)]
    made = [make_table(name, store, sources) for name in names]
    if output is None:
        _write(made, file_format, sys.stdout.buffer)
        sys.stdout.flush()
    else:
        for path, parts in _files(output, is_folder, made, file_format):
            write_file(path, partial(_write, parts, file_format), "give another path with -o")
            print_message(f"{path}")
    return max(codes, default=0)


def _check_choice(
    context: typer.Context, output: str | None, file_format: Format, fits_tables: bool
) -> None:
    """End with a usage error where the output cannot have this format, or so many tables."""
    other = _other_format(output, file_format)
    if other:
        context.fail(
            f"the name {output} is for {other}, but the format is {file_format}: add "
            f"--format {other}"
        )
    if not fits_tables and file_format != "json":
        where = "a file" if output else "standard output"
        context.fail(f"{where} holds one table: choose it with --table, or give a folder with -o")
    if output is None and file_format == "parquet":
        context.fail("parquet is a binary format: give a file or a folder with -o")


def _other_format(path: str | None, file_format: Format) -> str | None:
    """Another format that the extension of a file name indicates."""
    if path is None or os.path.isdir(path):
        return None
    ending = path.rpartition(".")[2]
    return ending if ending in get_args(Format) and ending != file_format else None


def _is_folder(path: str, file_format: Format, count: int) -> bool:
    """Whether a path is a folder: it is one, ends with /, or several tables are written."""
    if os.path.isdir(path) or path.endswith(os.sep):
        return True
    has_ending = path.endswith(f".{file_format}")
    return not has_ending and count > 1


def _sources(store: Store, reference: str, codes: list[int]) -> list[ExportSource]:
    """The run or bench that a reference names, brought up to date; the exit codes go to `codes`."""
    source, code = find_collected(reference)
    codes.append(code)
    if isinstance(source, Bench):
        counted = {trial.run for trial in source.record.latest().values()}
        repeated = sorted({trial.run for trial in source.record.trials} - counted)
        if repeated:
            print_message(
                f"{source.id}: not exported, because rsctl repeated them: "
                f"{first_of(repeated, _SHOWN)}; to export these runs, name them too"
            )
        for run in counted:
            if store.get(run):
                codes.append(find_collected(run)[1])
        return sources_of(store, source.record)
    return [ExportSource(store.find(source.id))]


def _files(
    output: str, is_folder: bool, tables: list[Table], file_format: Format
) -> list[tuple[Path, list[Table]]]:
    if not is_folder:
        return [(Path(output), tables)]
    return [(Path(output) / f"{table.name}.{file_format}", [table]) for table in tables]


def _write(tables: Sequence[Table], file_format: Format, file: IO[bytes]) -> None:
    if file_format == "json":
        write_json(tables, file)
    elif file_format == "csv":
        write_csv(tables[0], file)
    else:
        write_parquet(tables[0], file)
