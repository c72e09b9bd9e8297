"""Types that the blocks of several targets share."""

from typing import Annotated, Any, Optional, Union

from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]
Regions = Union[Text, Annotated[list[Text], Meta(min_length=1)]]
"""One region, or several in the order in which they are tried."""
Overlay = Annotated[
    Union[dict[str, Any], list[Any]],
    Meta(
        description="Patch of the request: a mapping is a JSON Merge Patch (RFC 7386), a list a "
        "JSON Patch (RFC 6902)."
    ),
]


def first_of(given: Optional[Union[str, list[str]]]) -> Optional[str]:
    """A value, or the first of several."""
    return given[0] if isinstance(given, list) else given
