"""The text of a job file as it is kept with runs: variables as written, secrets not at all."""

from __future__ import annotations

import pytest

from rsctl.job.kept_text import kept_text

GOOD = """\
# a job
name: j
run:
  script: train.py  # ours
  args: {lr: 0.1, api-key: 'abcdef'}
  env:
    HF_TOKEN: ${HF_TOKEN}
    PASSWORD: "hunter22"
    SECRET: ${S:-a default}
    CREDENTIAL: |
      line one of it
      line two of it

    PLAIN: value  # it was --password hunter44
    # DB_PASSWORD: hunter33
    # HF_TOKEN: ${HF_TOKEN}
matrix: {run.env.MY_TOKEN: [first, second]}
x-hub: hf_abcdefghijklmnopqrstuvwxyz
tracking: [{mlflow: https://me:passw0rd@host}]
x-url: "https://host?v=1&token=abcdef"
x-shell: bash -c 'train --token=${TOKEN}'
"""
SHOWN = """\
# a job
name: j
run:
  script: train.py  # ours
  args: {lr: 0.1, api-key: '***'}
  env:
    HF_TOKEN: ${HF_TOKEN}
    PASSWORD: "***"
    SECRET: ***
    CREDENTIAL: ***
    PLAIN: value  # it was --password ***
    # DB_PASSWORD: ***
    # HF_TOKEN: ${HF_TOKEN}
matrix: {run.env.MY_TOKEN: [***, ***]}
x-hub: ***
tracking: [{mlflow: https***}]
x-url: "***"
x-shell: bash -c 'train --token=${TOKEN}'
"""


def test_all_but_secrets_is_kept_as_written() -> None:
    shown = kept_text(GOOD)
    assert shown == SHOWN


@pytest.mark.parametrize(
    "text",
    [
        '{name: j, run: {env: {TOKEN: "over\nlines\nof text"}}}',
        "run: {env: {A: same-text, TOKEN: same-text}}",
        "{",
        f"name: {'x' * 300_000}",
    ],
)
def test_a_text_whose_secrets_cannot_be_told_apart_is_not_kept(text: str) -> None:
    assert kept_text(text) is None


def test_an_anchor_of_a_secret_is_hidden_where_its_text_stands() -> None:
    text = "x-t: &t secret-text\nrun: {env: {TOKEN: *t}}\n"
    shown = kept_text(text)
    assert shown is None or "secret-text" not in shown


def test_names_of_build_secrets_and_metrics_are_kept_as_written() -> None:
    """`image.secrets` has names of variables, which may stand in run.env too."""
    text = "image: {secrets: [HF_TOKEN]}\nrun: {env: {HF_TOKEN: '${HF_TOKEN}'}}\n"
    text += "metrics: {nll_token: {regex: 'nll=(.*)', goal: min}}\n"
    text += "gate: {max_regression: {nll_token: 5%}}\n"
    assert kept_text(text) == text


def test_a_secret_is_hidden_below_a_key_metrics_of_another_block() -> None:
    text = "targets: {vertex: {overlay: {metrics: {token: hunter22}}}}\n"
    assert kept_text(text) == text.replace("hunter22", "***")
