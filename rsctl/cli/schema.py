"""`rsctl schema`: the JSON Schema of the job file."""

from __future__ import annotations

import click

from rsctl.cli import options
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode


@click.command("schema", help="Print the JSON Schema of the job file.")
@options.talk_options
def command() -> int:
    """Exit with 0."""
    from rsctl.spec.schema import json_schema

    print_json(json_schema())
    return int(ExitCode.SUCCEEDED)
