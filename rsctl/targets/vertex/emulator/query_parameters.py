"""The query parameters of Google's JSON services: which a call has, and which are emulated."""

from __future__ import annotations

import re

from rsctl.targets.managed.emulator.request import Request

_SYSTEM = frozenset(
    {
        *("alt", "$alt", "prettyPrint", "$prettyPrint", "key", "quotaUser", "callback"),
        *("access_token", "oauth_token", "upload_protocol", "uploadType", "$.xgafv"),
        *("$userProject", "userProject"),
    }
)
"""The parameters of every call ("System parameters" of the Cloud APIs), except `fields`."""

_PAGES = frozenset({"pageSize", "pageToken"})
_KNOWN: dict[str, frozenset[str]] = {
    "aiplatform.customJobs.list": frozenset({"filter", "readMask"}) | _PAGES,
    "aiplatform.metadata.createStore": frozenset({"metadataStoreId"}),
    "aiplatform.metadata.createContext": frozenset({"contextId"}),
    "aiplatform.metadata.listContexts": frozenset({"filter", "pageSize"}),
    "aiplatform.metadata.patchContext": frozenset({"updateMask"}),
    "aiplatform.metadata.listExecutions": frozenset({"filter", "pageSize"}),
    "aiplatform.metadata.createArtifact": frozenset({"artifactId"}),
    "aiplatform.tensorboard.createExperiment": frozenset({"tensorboardExperimentId"}),
    "aiplatform.tensorboard.createRun": frozenset({"tensorboardRunId"}),
    "aiplatform.tensorboard.createTimeSeries": frozenset({"tensorboardTimeSeriesId"}),
    "aiplatform.tensorboard.listTimeSeries": _PAGES,
    "aiplatform.tensorboard.batchRead": frozenset({"timeSeries"}),
}
"""By call, what is emulated beside `_SYSTEM`. A call of these services without a line has none."""

_OTHERS: dict[str, frozenset[str]] = {
    "aiplatform.metadata.listContexts": frozenset({"orderBy", "pageToken"}),
    "aiplatform.metadata.patchContext": frozenset({"allowMissing"}),
    "aiplatform.metadata.listExecutions": frozenset({"orderBy", "pageToken"}),
    "aiplatform.tensorboard.listTimeSeries": frozenset({"filter", "orderBy", "readMask"}),
}
"""By call, what the service has and is not emulated: `fields` is for each."""

_SERVICES = ("aiplatform.", "logging.")
_SAME_NAMES = (*_SERVICES, "monitoring.")


class NotEmulatedHere(Exception):
    """A parameter that the service has, and that would change the answer."""


def checked(call: str, request: Request) -> Request:
    """The request with its parameters as JSON has their names: `page_size` is `pageSize`.

    Raises ValueError with the service's words for a parameter that a call does not have,
    NotEmulatedHere for one that is not emulated.
    """
    if call.startswith(_SAME_NAMES):
        request = request._replace(
            query={_camel(name): value for name, value in request.query.items()},
            queries={_camel(name): values for name, values in request.queries.items()},
        )
    if call.startswith(_SERVICES):
        known = _SYSTEM | _KNOWN.get(call, frozenset())
        others = _OTHERS.get(call, frozenset()) | {"fields", "$fields"}
        for name in sorted(set(request.query) - known):
            if name in others:
                raise NotEmulatedHere(f"the parameter {name} is not emulated by rsctl's emulator")
            raise ValueError(
                f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot bind query '
                f"parameter. Field '{name[:100]}' could not be found in request message."
            )
    return request


def _camel(name: str) -> str:
    if name in _SYSTEM:
        return name
    return re.sub(r"(?<=[a-z0-9])_([a-z])", lambda found: found[1].upper(), name)
