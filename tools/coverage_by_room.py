"""Prints which part of each room's lines the tests have run, from the data of a run with --cov.

    python tools/coverage_by_room.py [FILE]      default: .coverage

Lines that run only in processes that tests start, such as replicas, are not counted.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from coverage import Coverage

TOP = Path(__file__).parents[1]


def main() -> None:
    """Print the table."""
    data = Coverage(data_file=sys.argv[1] if len(sys.argv) > 1 else str(TOP / ".coverage"))
    data.load()
    statements: dict[str, int] = defaultdict(int)
    missed: dict[str, int] = defaultdict(int)
    for path in sorted((TOP / "rsctl").rglob("*.py")):
        parts = path.relative_to(TOP / "rsctl").parts
        room = parts[0] if len(parts) > 1 else "(top)"
        _, lines, _, missing, _ = data.analysis2(str(path))
        for name in (room, "all"):
            statements[name] += len(lines)
            missed[name] += len(missing)
    for name, lines in sorted(statements.items(), key=lambda item: item[0] == "all"):
        part = 100 * (1 - missed[name] / lines) if lines else 100.0
        print(f"{name:<12} {lines:6} lines  {part:5.1f} % run")


if __name__ == "__main__":
    main()
