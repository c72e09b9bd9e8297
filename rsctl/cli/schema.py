"""`rsctl schema`: the JSON Schema of the job file."""

from __future__ import annotations

from rsctl.cli.command import make_command
from rsctl.cli.show import print_json


@make_command("schema")
def command() -> None:
    """Print the JSON Schema of the job file."""
    from rsctl.job.schema import json_schema

    print_json(json_schema())
