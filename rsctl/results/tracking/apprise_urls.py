"""Sends messages by Apprise (extra `notify`) to URLs that only the environment has.

A URL contains credentials: no error, log or file repeats it, nor what Apprise says about it.
"""

from __future__ import annotations

import logging
import os
import re
from threading import Thread
from typing import Any

from rsctl.findings import ExitCode, Finding, RsctlError, warning
from rsctl.job.units import EnvReference
from rsctl.results.tracking.messages import Message
from rsctl.results.tracking.receivers import not_installed, setting_problem
from rsctl.runs.tracker import TrackerError

SECONDS = 15.0
"""The time limit of one message, which a server that answers byte by byte cannot exceed."""

_REASONS = (
    ("CERTIFICATE_VERIFY_FAILED", "this machine does not trust the certificate of the server"),
    ("Connection refused", "the server refuses the connection"),
    ("NameResolution", "this machine does not find the name of the server"),
)
"""Parts of the errors of `requests`, and their meaning."""


class _Reason(logging.Handler):
    """Why a message was not sent, by the log of its receiver, of which it keeps no text."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """See Handler. A debug record may have the text of the message itself."""
        try:
            said = record.getMessage()
        except Exception:  # noqa: BLE001 - a line whose values do not fit must not stop a message
            return
        status = re.search(r"\berror=([1-5]\d\d)\b", said)
        if status is not None and record.levelno >= logging.WARNING:
            what = "redirects to another address," if status[1][0] == "3" else "answers with"
            self.text = f"the server {what} status {status[1]}"
        elif said.startswith("Socket Exception: "):
            self.text = next((why for part, why in _REASONS if part in said), "")


def receiver_problem(location: str, path: str) -> Finding | None:
    """Why a message to the URL in a variable cannot be sent from here; sends nothing."""
    try:
        _open(location, path)
    except RsctlError as problem:
        return problem.findings[0]
    return None


def send_message(location: str, message: Message) -> None:
    """Send a message, once. Raises TrackerError, and RsctlError if none can be sent from here."""
    receivers, done = _open(location, "notify"), list[str]()
    reason, log = _Reason(), logging.Logger("apprise", logging.DEBUG)
    log.addHandler(reason)
    for receiver in receivers:
        receiver.logger = log  # of its own: other threads send messages, too

    def send() -> None:
        try:
            sent = receivers.notify(
                title=message.title,
                body=message.body,
                notify_type=message.type,
                body_format="text",
            )
            unknown = "the server refused the message, or does not answer"
            done.append("" if sent else reason.text or unknown)
        except Exception as problem:  # noqa: BLE001 - a plugin may raise anything, with the URL in it
            done.append(f"Apprise failed with {type(problem).__name__}")

    thread = Thread(target=send, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not done or done[0]:
        raise TrackerError(done[0] if done else f"no answer within {SECONDS:g} s")


def _open(location: str, path: str) -> Any:
    """Apprise with the URL of a variable. Raises RsctlError."""
    problem = setting_problem(location, path)
    if problem is not None:
        raise RsctlError(ExitCode.ENVIRONMENT, problem)
    try:
        import apprise
    except ImportError:  # a package of Apprise is missing
        raise RsctlError(ExitCode.ENVIRONMENT, not_installed(path)) from None
    logging.getLogger("apprise").disabled = True  # it logs URLs
    name = EnvReference(location).variable
    asset = apprise.AppriseAsset()
    asset.http_redirects = False  # after a redirect a POST may become a GET, without the message
    receivers = apprise.Apprise(asset=asset)
    try:
        is_known = receivers.add(os.environ[name])
    except Exception:  # noqa: BLE001 - a plugin may raise anything, with the URL in it
        is_known = False
    if not is_known:
        message = f"Apprise does not understand the URL in {name}"
        remedy = "write it as the documentation of Apprise says, such as slack://A/B/C"
        raise RsctlError(ExitCode.ENVIRONMENT, warning("notify", message, remedy, path))
    return receivers
