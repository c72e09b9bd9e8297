"""References to variables in the variables, command and arguments of Vertex AI's containers.

Sources: `EnvVar.value` in the API's reference; `args` with `$(AIP_MODEL_DIR)` in
samples/snippets/pipeline_service of googleapis/python-aiplatform; Kubernetes' API reference of
`EnvVar` for `$$`, since replicas are its containers. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

REFERENCE = re.compile(r"\$\$|\$\((?P<name>[^()]*)\)")
"""`$$`, or `$(NAME)`."""


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with the values of variables; a reference to an unknown one stays."""

    def value_of(found: re.Match[str]) -> str:
        name = found["name"]
        return "$" if name is None else variables.get(name, found[0])

    return REFERENCE.sub(value_of, text)
