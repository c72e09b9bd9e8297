"""Preconditions of Cloud Storage: `ifGenerationMatch` and its like, by the JSON API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

CONDITIONS = frozenset(
    {
        *("ifGenerationMatch", "ifGenerationNotMatch"),
        *("ifMetagenerationMatch", "ifMetagenerationNotMatch"),
    }
)
"""The query parameters that are preconditions."""


def failed_condition(
    query: Mapping[str, str], generation: Optional[int], metageneration: Optional[int]
) -> Optional[str]:
    """The name of a condition that does not hold; None if all do.

    A missing object has neither generation, for which 0 stands. Raises ValueError for a value that
    is not a number.
    """
    have = {"ifGeneration": generation or 0, "ifMetageneration": metageneration or 0}
    for name in sorted(CONDITIONS & query.keys()):
        value = query[name]
        if not value.isdecimal():
            raise ValueError(f"Invalid value for {name}: {value[:100]}")
        is_equal = int(value) == have[name.removesuffix("Match").removesuffix("Not")]
        if is_equal == name.endswith("NotMatch"):
            return name
    return None
