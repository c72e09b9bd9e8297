"""What a plan leaves open in its request, filled in as it is sent: the image by digest, secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_IMAGE_KEYS = frozenset({"imageUri", "executorImageUri", "TrainingImage"})


def filled(request: Any, tag: str | None, reference: str | None, secrets: Mapping[str, str]) -> Any:
    """A copy of a request.

    `reference` takes the place of the image's `tag`. A secret's place is a None: of an object that
    has the secret's name as `name`, beside it as `value`, or under the secret's name itself.
    """
    if isinstance(request, list):
        return [filled(item, tag, reference, secrets) for item in request]
    if not isinstance(request, dict):
        return request
    if "value" in request and request["value"] is None and request.get("name") in secrets:
        return {**request, "value": secrets[request["name"]]}
    return {key: _value(key, value, tag, reference, secrets) for key, value in request.items()}


def _value(
    key: str, value: Any, tag: str | None, reference: str | None, secrets: Mapping[str, str]
) -> Any:
    if key in _IMAGE_KEYS and tag is not None and value == tag:
        return reference
    if value is None and key in secrets:
        return secrets[key]
    return filled(value, tag, reference, secrets)
