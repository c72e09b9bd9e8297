"""`rsctl schema`: the JSON Schema of the job file."""

from __future__ import annotations

from rsctl.cli.command import make_command
from rsctl.cli.show import print_json
from rsctl.findings import ExitCode


@make_command("schema")
def command() -> int:
    """Print the JSON Schema of the job file."""
    from rsctl.job.schema import json_schema

    print_json(json_schema())
    return int(ExitCode.SUCCEEDED)
