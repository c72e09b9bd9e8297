"""Types that the blocks of several targets share."""

from typing import Annotated, Any, Union

from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]
Overlay = Annotated[
    Union[dict[str, Any], list[Any]],
    Meta(
        description="Patch of the request: a mapping is a JSON Merge Patch (RFC 7386), "
        "a list a JSON Patch (RFC 6902)."
    ),
]
