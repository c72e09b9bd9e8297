"""Errors of Google's services as findings, from bodies as the services send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from rsctl.clients.errors import GOOGLE_LOGIN
from rsctl.clients.google_errors import error_message, google_error
from rsctl.findings import ExitCode, error

PAGE = "https://console.example/apis"
DENIED = (
    "ask for the permission that the message names, or log in as another account: "
    "`gcloud auth application-default login`"
)


def answer(status: int, body: Any = None) -> requests.Response:
    """A response; a body that is not text becomes JSON."""
    made = requests.Response()
    made.status_code = status
    made._content = (body if isinstance(body, str) else json.dumps(body)).encode()
    return made


def refusal(status: int, message: str, *details: Any) -> requests.Response:
    """An error in the form of google.rpc.Status."""
    return answer(status, {"error": {"message": message, "details": list(details)}})


@pytest.mark.parametrize(
    ("status", "message", "exit_code", "code", "remedy", "path"),
    [
        (401, "no token", "ENVIRONMENT", "credentials-expired", GOOGLE_LOGIN, None),
        (403, "Billing is off", "REFUSED", "billing", "link a billing account to the project", "x"),
        (403, "no", "REFUSED", "denied", DENIED, "x"),
        (
            *(429, "slow", "REFUSED", "quota"),
            *("wait a minute, or ask for more quota on the console's page Quotas", "x"),
        ),
        (
            *(400, "due to quota restrictions", "REFUSED", "quota"),
            "choose another region: new projects can build only in some, such as us-central1 or "
            "europe-west1 (Cloud Build, locations)",
            "targets.vertex.region",
        ),
        (404, "none", "REFUSED", "not-found", "correct the name, or create the resource", "x"),
        (500, "broken", "REFUSED", "cloud", "try again later", "x"),
        (599, "broken", "REFUSED", "cloud", "try again later", "x"),
        (400, "odd", "REFUSED", "cloud", None, "x"),
    ],
)
def test_what_a_status_means(
    status: int, message: str, exit_code: str, code: str, remedy: str | None, path: str | None
) -> None:
    made = google_error(refusal(status, message), "x")
    assert made.exit_code is ExitCode[exit_code]
    assert made.findings == (error(code, f"Google Cloud refuses: {message}", remedy, path),)


@pytest.mark.parametrize(
    ("detail", "page"),
    [
        ({"metadata": {"activationUrl": PAGE}}, PAGE),
        ({"links": [{"url": PAGE}]}, PAGE),
        ({"links": []}, "the console's page APIs & Services"),
        ({"links": [{}]}, "the console's page APIs & Services"),
        ({"metadata": "odd", "links": "odd"}, "the console's page APIs & Services"),
    ],
)
def test_a_service_that_is_switched_off(detail: dict[str, Any], page: str) -> None:
    made = google_error(refusal(403, "off", "odd", {"reason": "SERVICE_DISABLED"}, detail))
    remedy = f"enable it at {page}, and try again after a few minutes"
    assert made.findings == (error("api-disabled", "Google Cloud refuses: off", remedy),)


@pytest.mark.parametrize(
    "body", ["<html>", [], {"error": "text"}, {"error": {}}, {"error": None}, "[" * 100_000]
)
def test_a_body_of_another_form_leaves_the_status(body: Any) -> None:
    assert error_message(answer(502, body)) == "HTTP status 502"


def test_a_message_stands_after_its_status_and_is_cut() -> None:
    assert error_message(refusal(404, "none")) == "HTTP status 404: none"
    assert error_message(refusal(404, "x" * 2000)) == "HTTP status 404: " + "x" * 1000
