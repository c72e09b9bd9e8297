"""`targets.NAME.overlay`: the user's patch of a rendered request. Pure.

A mapping is a JSON Merge Patch (RFC 7386), a list a JSON Patch (RFC 6902).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Union

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.yaml_tree import shorten

_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def apply_overlay(
    body: dict[str, Any], overlay: Union[Mapping[str, Any], list[Any]], path: str
) -> dict[str, Any]:
    """The body with the patch applied to it; does not change the body itself.

    `path` is the overlay's key path. Raises RsctlError naming the entry that does not apply.
    """
    if isinstance(overlay, Mapping):
        merged: dict[str, Any] = _merged(body, overlay)
        return merged
    patched: Any = body
    for index, entry in enumerate(overlay):
        patched = _patched(patched, entry, f"{path}[{index}]")
    if not isinstance(patched, dict):
        raise _wrong("the request is no longer a mapping", path)
    return patched


def names(overlay: Any, value: str) -> bool:
    """Whether a patch has exactly this text as a value: then it comes from the user."""
    if isinstance(overlay, Mapping):
        return any(names(item, value) for item in overlay.values())
    if isinstance(overlay, (list, tuple)):
        return any(names(item, value) for item in overlay)
    return isinstance(overlay, str) and overlay == value


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7386: a null removes, a mapping is merged, anything else replaces."""
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _patched(document: Any, entry: Any, path: str) -> Any:
    import jsonpatch  # only for jobs with such an overlay
    import jsonpointer

    _check_entry(entry, path)
    try:
        return jsonpatch.apply_patch(document, [entry])
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as problem:
        reason = re.sub(r" type <class '\w+'>", "", str(problem))
        raise _wrong(shorten(reason, 200), path) from None
    except (TypeError, KeyError, IndexError, ValueError):  # a path through a text or a number
        raise _wrong(
            "its path leads through a value that is neither a mapping nor a list", path
        ) from None


def _check_entry(entry: Any, path: str) -> None:
    """Patches for which the library would raise an unspecific exception."""
    if not isinstance(entry, dict) or entry.get("op") not in _OPERATIONS:
        raise _wrong(
            f"an entry must be a mapping whose `op` is one of {', '.join(_OPERATIONS)}", path
        )
    needed = {"move": "from", "copy": "from", "add": "value", "replace": "value", "test": "value"}
    missing = [key for key in ("path", needed.get(entry["op"], "path")) if key not in entry]
    if missing:
        raise _wrong(f"`{entry['op']}` needs `{missing[0]}`", path)
    for key in ("path", "from"):
        pointer = entry.get(key, "")
        if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
            raise _wrong(f"`{key}` must be a pointer such as /jobSpec/workerPoolSpecs/0", path)


def _wrong(reason: str, path: str) -> RsctlError:
    return RsctlError(
        ExitCode.USAGE,
        error(
            "overlay",
            f"cannot apply this patch: {reason}",
            "to see the request without it: `rsctl plan -o json`; a mapping is a JSON Merge "
            "Patch (RFC 7386), a list a JSON Patch (RFC 6902)",
            path,
        ),
    )
