"""How Vertex AI bills a CustomJob. Pure.

Machines cost Compute Engine's price and a fee for as long as they belong to the job (its
documentation, "Vertex AI pricing"). The API does not document whether a restart resets `timeout`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rsctl.estimate.costs.billing import Billing
from rsctl.targets.vertex.catalog import rules

_REGION = re.compile(r"/locations/([a-z0-9-]+)/")
_SECONDS = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s", re.ASCII)
_FLEX_START = "at the on-demand price; flex start costs less"


def billing_of(request: Mapping[str, Any]) -> Billing:
    """The billing of a request for a plan."""
    url, body = request.get("url"), request.get("body")
    place = _REGION.search(url) if isinstance(url, str) else None
    spec = body.get("jobSpec") if isinstance(body, Mapping) else None
    scheduling = spec.get("scheduling") if isinstance(spec, Mapping) else None
    fields: Mapping[str, Any] = scheduling if isinstance(scheduling, Mapping) else {}
    written = _SECONDS.fullmatch(str(fields.get("timeout", "")))
    return Billing(
        region=place[1] if place else None,
        seconds=float(written[1]) if written else float(rules().default_timeout),
        is_for_each_start=True,
        is_spot=fields.get("strategy") == "SPOT",
        note=_FLEX_START if fields.get("strategy") == "FLEX_START" else None,
    )
