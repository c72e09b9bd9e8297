"""The parts of a plan that are resolved when it is sent: images by digest, secrets.

`make_submission` records their positions when the request is rendered, so that sending it does not
search for text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple, Union

from rsctl.images.package import Package, digest_in
from rsctl.job.job import Job
from rsctl.targets.base import Placeholder, Plan, Submission
from rsctl.targets.planned_image import PlannedImage
from rsctl.targets.variables import secret_names

_Path = tuple[Union[str, int], ...]


class ImagePlaceholder(NamedTuple):
    """The position of an image in a request."""

    path: _Path
    name: Any


class Variable(NamedTuple):
    """An environment variable of a request, and the position of its value."""

    path: _Path
    name: Any
    value: Any


def make_submission(
    plan: Plan,
    job: Job,
    image: PlannedImage,
    package: Package | None,
    images: Iterable[ImagePlaceholder],
    variables: Iterable[Variable],
) -> Submission:
    """All data for sending the plan; `images` and `variables` belong to its request.

    An image that the user's overlay names, or that is used without changes, is kept; if no position
    needs the recipe's image, nothing is built. A package that the overlay removed from the request
    is not uploaded.
    """
    placeholders = tuple(_placeholders(images, variables, job, image))
    is_built = any(each.secret is None for each in placeholders)
    return Submission(
        plan=plan,
        job=job,
        recipe=image.recipe if is_built else None,
        package=package if package and digest_in(plan.request) == package.digest else None,
        placeholders=placeholders,
        secrets=tuple(dict.fromkeys(each.secret for each in placeholders if each.secret)),
    )


def _placeholders(
    images: Iterable[ImagePlaceholder], variables: Iterable[Variable], job: Job, image: PlannedImage
) -> Iterator[Placeholder]:
    tag = image.recipe.reference if image.recipe else None
    yield from (Placeholder(each.path) for each in images if tag and each.name == tag)
    names = secret_names(job, has_reducers=True)
    for variable in variables:
        if variable.value is None and variable.name in names:
            yield Placeholder(variable.path, variable.name)


def resolve_placeholders(
    request: Mapping[str, Any],
    placeholders: Iterable[Placeholder],
    image: str | None,
    secrets: Mapping[str, str],
) -> dict[str, Any]:
    """A copy of the request with the image and the secrets; without an `image` its tag stays."""
    resolved: dict[str, Any] = deepcopy(dict(request))
    for path, secret in placeholders:
        value = image if secret is None else secrets[secret]
        if value is None:
            continue
        parent: Any = resolved
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
    return resolved
