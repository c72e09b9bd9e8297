"""One call of `rsctl prune`: the removed items, and the items kept although they are old enough."""

from __future__ import annotations

from typing import Any

from rsctl.api.prune.images import built_at, unused_images
from rsctl.api.prune.items import Item, Kept, PruneLimits
from rsctl.api.prune.leftovers import bisect_items, bucket_items, checkout_items, folder_items
from rsctl.api.prune.removal import remove
from rsctl.api.prune.selection import Selection
from rsctl.findings import RsctlError
from rsctl.images.built_images import BuiltImage, built_images, remove_image
from rsctl.images.built_images import find_engine as find_engine
from rsctl.runs.store import Store
from rsctl.runs.store_errors import StoreError


class Prune:
    """One call: the selection, and the outcome."""

    def __init__(self, store: Store, limits: PruneLimits) -> None:
        self._store, self._limits = store, limits
        self._images: dict[str, BuiltImage] = {}
        self.database_bytes, self.shrunk = store.disk_use(), 0
        self.items: list[Item] = []
        self.kept: list[Kept] = []
        self.problems: list[RsctlError] = []

    def select(self, has_buckets: bool, program: str | None) -> None:
        """Select the items to remove; `program` is the engine whose images are listed."""
        selection = Selection(self._store, self._limits)
        folders, kept = folder_items(self._store, self._limits, selection.kept_uses)
        self.items = [*selection.items, *folders]
        self.items += checkout_items(selection.kept_benches, self._limits)
        self.items += bisect_items(self._limits)
        self.kept = [*selection.kept, *kept]
        if has_buckets:
            buckets, kept = bucket_items(self._store, self._limits, selection.kept_runs)
            self.items += buckets
            self.kept += kept
        if program is not None:
            runs, benches = selection.kept_runs, selection.kept_benches
            unused = unused_images(built_images(program), runs, benches, self._limits)
            self._images = {image.label: image for image in unused}
            self.items += [
                Item(kind="image", name=image.label, size=image.size, ended=built_at(image))
                for image in unused
            ]

    def remove(self, program: str | None) -> None:
        """Remove the selected items; `items` are the removed ones, `kept` and `problems` the
        others.
        """
        selected, self.items = self.items, []
        for item in selected:
            try:
                kept = self._remove(item, program)
            except RsctlError as problem:
                self.problems.append(problem)
                continue
            if kept is None:
                self.items.append(item)
            else:
                self.kept.append(kept)
        self._shrink()

    def _shrink(self) -> None:
        """Shrink the database to the size of its records."""
        try:
            self.shrunk = self._store.shrink()
        except StoreError as problem:
            why = "it is in use" if "locked" in problem.summary else problem.summary
            self.kept.append(Kept("the database", f"{why}; the next prune shrinks it"))
        self.database_bytes = self._store.disk_use()

    def _remove(self, item: Item, program: str | None) -> Kept | None:
        if item.kind != "image" or program is None:
            return remove(self._store, item, self._limits)
        reason = remove_image(program, self._images[item.name])
        return None if reason is None else Kept(item.name, reason)

    @property
    def bytes(self) -> int:
        """The disk usage of the removed items, including their part of the database."""
        return sum(item.size for item in self.items)

    def shown(self, is_dry: bool) -> dict[str, Any]:
        """The output of `-o json`."""
        return {
            "dry_run": is_dry,
            "bytes": self.bytes,
            "database_bytes": self.database_bytes,
            "removed": self.items,
            "kept": [{"name": name, "reason": reason} for name, reason in self.kept],
        }
