"""Finds secrets from the environment in keys of the spec that do not keep them secret.

`run.env`, `chief.env` and `roles.NAME.env` alone keep what comes from the environment out of plans,
logs and saved runs. Anywhere else it becomes part of the request: seen in `plan`, saved with the
run, on a command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rsctl.findings import Finding
from rsctl.spec.env_checks import is_secret_name
from rsctl.spec.yaml_tree import Scalar

# Forms that the issuers document, by which secret scanners know them too.
FORMATS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20}|gh[pousr]_[A-Za-z0-9]{20}|github_pat_\w{20}|glpat-[\w-]{15}"
    r"|npm_[A-Za-z0-9]{30}|pypi-[\w-]{30}|dckr_pat_[\w-]{20}|sk-[\w-]{20}|xox[abeprs]-[\w-]{10}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30}|ya29\.[\w-]{10}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/@\s:]*:[^/@\s]+@"
)


def secret_outside_env(node: Scalar, environ: Mapping[str, str], path: str) -> Finding | None:
    """A finding for a value with variables from the environment, in a key that is not kept secret.

    An error where a value has the form of a known kind of secret, a warning where only the
    variable's name suggests it.
    """
    remedy = "put it into run.env, which is never saved or shown, and read it there"
    consequence = "in the plan, in what is saved of the run, and on a command line"
    for name in node.taken:
        if FORMATS.search(environ.get(name, "")):
            message = (
                f"the value of ${{{name}}} is a secret, and here it would be seen {consequence}"
            )
            return node.mark.error("secret", message, remedy, path)
    for name in node.taken:
        if is_secret_name(name):
            message = f"${{{name}}} looks like a secret, and here it is seen {consequence}"
            return node.mark.warning("secret", message, remedy, path)
    return None
