"""`rsctl-launch`: the first process of a node, which runs its part of a job or checks its image.

Usage: rsctl-launch [--launcher torchrun|mpi|once] [--processes N] [--env NAME=VALUE]... [--python]
                    [--fill N] [--copy NAME=PATH]... [--count NAME]...
                    [--shards NAME]... [--stop-signal NAME] [--restarts-in-place N] [--keep SECONDS]
                    -- COMMAND...
       rsctl-launch --arguments-from hyperparameters
       rsctl-launch --check [--transport NAME] [--launcher torchrun|mpi|once]

This file and what it imports at its head must parse on Python 3.7: see interpreter.py.
"""

from __future__ import annotations

import os
import sys

from rsctl.node import interpreter
from rsctl.node.errors import ENVIRONMENT, LaunchError
from rsctl.node.structured_lines import emit


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code; errors.py has those of the launcher itself."""
    outdated = interpreter.too_old()
    if outdated is not None:
        emit("finding", outdated)
        return ENVIRONMENT
    given = sys.argv[1:] if arguments is None else arguments
    try:
        from rsctl.node import node, options, platforms

        platform = platforms.platform(platforms.platform_of(os.environ))
        parsed = options.parse(platform.arguments(given, os.environ))
        os.environ.update(dict(setting.partition("=")[::2] for setting in parsed.env))
        if parsed.check:
            from rsctl.node.check import command
    except ImportError as error:
        emit("finding", interpreter.incomplete(error))
        return ENVIRONMENT
    except LaunchError as error:
        emit("finding", error.finding())
        return error.exit_code
    if parsed.check:
        return command.main(parsed.transport or "none", parsed.launcher)
    return node.main(parsed)


if __name__ == "__main__":
    sys.exit(main())
