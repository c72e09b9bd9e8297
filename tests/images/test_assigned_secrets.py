"""Which values of files look like secrets of any issuer."""

from __future__ import annotations

import base64
import hashlib

import pytest

from rsctl.images.assigned_secrets import has_assigned_secret

HEX = hashlib.sha256(b"x").hexdigest()
MIXED = base64.b64encode(bytes.fromhex(HEX)).decode()


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        (HEX, True),
        (HEX[:32], True),
        (HEX[:32].upper(), True),
        (HEX[:31], False),
        (MIXED, True),
        ("aB3" * 6 + "x7", True),  # 20 characters
        ("aB3" * 6 + "x", False),
        (f"aaaaa{HEX}", False),
        (f"aaaa{HEX}", True),
        *((f"{word}{HEX}", False) for word in ("Example-", "12345", "sample", "CHANGE", "your")),
        ("c55dbac4-e0e8-4a06-b892-75cac2387ce5", True),
        ("c55dbac4-e0e8-4a06-b892-75cac2387ce5-1", False),
        ("TrainingConfigurationOf2024Run17", False),  # words with numbers
        ("/models/Large/v1/Checkpoint7B/x99", False),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        *("api_key={}", '"API_KEY": "{}",', "--api-key={} x", "api_key>{}</"),
        *("- name: API_KEY\n  value: {}", '{{"Name": "API_KEY", "Value": "{}"}}'),
        *('<add key="API_KEY" value="{}"/>', "[{{name=API_KEY,value={}}}]"),
        *("name: MLFLOW_TRACKING_PASSWORD\n  value: '{}'", "api_key: |\n  {}", "api_key = \\\n {}"),
        *('"headers": {{"Authorization": "Bearer {}"}}', "x-api-key: Token {}"),
    ],
)
def test_a_value_that_looks_generated(form: str, value: str, is_secret: bool) -> None:
    assert has_assigned_secret("a.cfg", f"a\n {form.format(value)}\n".encode()) is is_secret


@pytest.mark.parametrize(
    ("name", "content", "is_secret"),
    [
        ("api_key.bin", HEX, True),
        ("api_key", f"\n {HEX} \n", True),
        ("api_key", f"{HEX} {HEX}", False),
        ("notes", HEX, False),
        ("a.cfg", f"digest={HEX}", False),
        ("a.cfg", f"digest={HEX}\napi_key={HEX}", True),
        ("a.cfg", f"api_key=${{{HEX}}}", False),
        ("a.cfg", f"api_key={HEX}(", False),
        ("a.yaml", f"- name: digest\n  value: {HEX}\n- name: API_KEY\n  valueFrom: {HEX}", False),
    ],
)
def test_the_name_of_a_value(name: str, content: str, is_secret: bool) -> None:
    assert has_assigned_secret(name, content.encode()) is is_secret
