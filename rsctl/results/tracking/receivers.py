"""The receivers of messages, as far as they are known without Apprise, which takes 0.7 s to import.

A URL contains credentials: no finding repeats it.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec

from rsctl.findings import Finding, warning
from rsctl.installation import install_command
from rsctl.job.job import Job
from rsctl.job.units import EnvReference

_URL = re.compile(r"\s*[a-z0-9]{1,32}://.+", re.IGNORECASE | re.DOTALL)


def notify_findings(job: Job) -> list[Finding]:
    """Warnings about receivers to which no message can be sent from here; sends nothing.

    Only `doctor` finds a URL that Apprise does not understand.
    """
    problems = (
        setting_problem(each.url, f"notify[{index}].url") for index, each in enumerate(job.notify)
    )
    return [problem for problem in problems if problem is not None]


def setting_problem(location: str, path: str) -> Finding | None:
    """Why no message can be sent here, if Apprise or the variable with its URL is missing."""
    if find_spec("apprise") is None:
        return not_installed(path)
    name = EnvReference(location).variable
    url = os.environ.get(name)
    if not url:
        message = f"the environment variable {name} is not set, so no message can be sent"
        return warning("notify", message, f"set {name} to a URL of Apprise", path)
    if not _URL.fullmatch(url):
        message = f"the value of {name} is not a URL, so no message can be sent"
        return warning("notify", message, f"set {name} to a URL, such as slack://A/B/C", path)
    return None


def not_installed(path: str) -> Finding:
    """The warning that there is no Apprise here, with the command that installs it."""
    message = "messages need Apprise, which is not installed"
    return warning("extra", message, f"install it: {install_command('notify')}", path)
