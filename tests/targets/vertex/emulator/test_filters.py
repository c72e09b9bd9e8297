"""The filter language of Google's list calls, as entries and jobs are found by it."""

from __future__ import annotations

import re

import pytest

from rsctl.targets.vertex.emulator.job_filter import JobFilter
from rsctl.targets.vertex.emulator.log_entries import StoredLogEntry
from rsctl.targets.vertex.emulator.log_filter import LoggingFilter, normal_time
from rsctl.targets.vertex.emulator.log_store import LogRange

AT = "2026-11-21T10:00:00.123456Z"
PAYLOAD = '{"message": "lost a peer", "n": {"a": 1}}'
ENTRY = StoredLogEntry(AT, "e5", "7", "workerpool1-0", "WARNING", PAYLOAD, True, 0.0)
TEXT = StoredLogEntry(AT, "e6", "7", "service", "INFO", "Job is running.", False, 0.0, "RUNNING")


@pytest.mark.parametrize(
    ("text", "takes_entry", "takes_text"),
    [
        ("", True, True),
        ('resource.type="ml_job" AND resource.labels.job_id="7"', True, True),
        ('resource.type="ml_job" resource.labels.job_id="8"', False, False),
        ('resource.labels.task_name="service"', False, True),
        ('resource.labels.task_name=("service" OR "workerpool1-0")', True, True),
        ("resource.labels.task_name!=service", True, False),
        ("NOT resource.labels.task_name=service", True, False),
        ("-resource.labels.task_name=service", True, False),
        ("resource.labels.task_name:workerpool", True, False),
        ('resource.labels.task_name=~"^workerpool[01]-"', True, False),
        ('resource.labels.task_name!~"^workerpool[01]-"', False, True),
        ("severity>=WARNING", True, False),
        ("severity=info", False, True),
        ("severity<ERROR -- a remark\nAND severity>INFO", True, False),
        (f'timestamp>="{AT}"', True, True),
        (f'timestamp>"{AT}"', False, False),
        ('timestamp>"2026-11-21T10:00:00.1234561Z"', False, False),
        ('timestamp<"2026-11-21T10:00:00.1234561Z"', True, True),
        ('timestamp>"2026-11-21T10:00:00Z" AND timestamp<"2026-11-21T10:00:01Z"', True, True),
        ('timestamp>="2026-11-21T11:00:00.123456+01:00"', True, True),
        (f'((timestamp="{AT}" AND insertId>"e5") OR timestamp>"{AT}")', False, True),
        ("jsonPayload.n.a=1", True, False),
        ("jsonPayload.n.b:*", False, False),
        ("jsonPayload.message:*", True, False),
        ('labels."ml.googleapis.com/job_state"="RUNNING"', False, True),
        ('"is RUNNING"', False, True),
        ("peer OR running", True, True),
        # OR binds more tightly than AND: severity=INFO AND (... OR ...).
        ("severity=INFO AND severity=INFO OR severity=WARNING", False, True),
        ("(severity=INFO AND insertId=e6) OR severity=WARNING", True, True),
        ('logName="projects/p/logs/service"', False, False),
        ('logName="projects/p/logs/ml.googleapis.com%2F7"', False, True),
        ('log_id("ml.googleapis.com/7")', False, True),
    ],
)
def test_which_entries_a_filter_takes(text: str, takes_entry: bool, takes_text: bool) -> None:
    query = LoggingFilter(text, "p")
    assert (query.takes(ENTRY), query.takes(TEXT)) == (takes_entry, takes_text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(severity=INFO", "syntax error at the end"),
        ("severity=INFO)", 'syntax error at token ")"'),
        ("a = = b", 'syntax error at token "="'),
        ('severity="LOUD"', '"LOUD" is not a severity'),
        ('timestamp>"yesterday"', 'timestamp "yesterday" is not RFC 3339'),
        ('a="unfinished', "syntax error at column 3"),
        ('textPayload=~"("', "regular expression"),
        ("AND a=b", 'syntax error at token "AND"'),
        ("a=AND", 'syntax error at token "AND"'),
        ("(" * 60 + "a=b" + ")" * 60, "too many parentheses"),
        ("a=" + "b" * 20_000, "more than 20000 characters"),
    ],
)
def test_a_filter_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LoggingFilter(text, "p")


def test_where_to_look() -> None:
    one, two = normal_time("2026-11-21T10:00:00Z"), normal_time("2026-11-21T11:00:00Z")
    text = f'resource.labels.job_id="7" ((timestamp="{one}" insertId>"e") OR timestamp>"{two}")'
    assert LoggingFilter(text, "p").span == LogRange("7", one, "~")
    text = f'resource.labels.job_id="7" timestamp>="{one}" timestamp<"{two}" severity=INFO'
    assert LoggingFilter(text, "p").span == LogRange("7", one, two)
    text = 'resource.labels.job_id="7" OR resource.labels.job_id="8"'
    assert LoggingFilter(text, "p").span == LogRange()
    assert LoggingFilter('NOT resource.labels.job_id="7"', "p").span == LogRange()


JOB = {
    "displayName": "bert_1",
    "state": "JOB_STATE_RUNNING",
    "createTime": AT,
    "labels": {"rsctl-run": "bert-abc123"},
}


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ('state="JOB_STATE_RUNNING" AND display_name:"bert_*"', True),
        ('state!="JOB_STATE_RUNNING" OR display_name="bert_1"', True),
        ('NOT display_name="bert_1"', False),
        ('display_name:"*ert"', False),
        ('create_time>"2026-11-21T09:00:00Z"', True),
        ('create_time<="2026-11-21T09:00:00Z"', False),
        ("labels.rsctl-run=bert-abc123", True),
        ("labels.rsctl-run=bert", False),
        ("labels.rsctl-run:*", True),
        ("labels.team:*", False),
    ],
)
def test_which_jobs_a_filter_takes(text: str, takes: bool) -> None:
    assert JobFilter(text).takes(JOB) is takes


@pytest.mark.parametrize("text", ["bert", "name=x", "state>JOB", "labels=x", "create_time>today"])
def test_what_jobs_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(ValueError, match="filter"):
        JobFilter(text)
