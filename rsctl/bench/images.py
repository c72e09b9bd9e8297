"""The images of a bench: each is built once, and all cells of one recipe share it by digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rsctl.bench.prepare import BenchCell
from rsctl.images.events import Show
from rsctl.targets.base import Target


def provide_images(
    target: Target, cells: Iterable[BenchCell], known: Mapping[str, str], show: Show
) -> Iterator[tuple[str, str]]:
    """Tag and reference of each image that was not `known` by digest yet. Raises RsctlError."""
    done: set[str] = set()
    for cell in cells:
        tag = cell.submission.plan.image.tag
        if tag is None or tag in done or "@sha256:" in known.get(tag, ""):
            continue
        done.add(tag)
        reference = target.have_image(cell.submission, show)
        if reference is not None:
            yield tag, reference
