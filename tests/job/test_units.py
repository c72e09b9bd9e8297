"""What the values of a job say of themselves, in the units that others reckon in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.job.image import Image
from rsctl.job.job import Limits
from rsctl.job.tracking import Tracking, WandbLocation
from rsctl.job.units import (
    Accelerator,
    Count,
    Duration,
    LocalPath,
    Location,
    Money,
    Rate,
    Regex,
    Regression,
    Size,
    Warmup,
)
from rsctl.targets.sagemaker.options import SageMakerOptions
from rsctl.targets.vertex.options import VertexOptions


@pytest.mark.parametrize(
    ("text", "is_relative", "amount"),
    [
        *(("5%", True, 0.05), ("99.9 %", True, 0.999), ("0.2", False, 0.2), ("100", False, 100.0)),
        *(("1e-3", False, 0.001), ("2.5E+1", False, 25.0)),  # YAML's numbers
    ],
)
def test_a_regression_is_a_part_or_an_amount(text: str, is_relative: bool, amount: float) -> None:
    found = Regression.parse(text)
    assert (found.is_relative, found.amount) == (is_relative, pytest.approx(amount))
    assert " " not in found


@pytest.mark.parametrize("text", ["100%", "250 %", "-1", "%", "5 % ", "", "e3", "1e", "1e100"])
def test_what_is_no_regression(text: str) -> None:
    with pytest.raises(ValueError, match="a percentage of the baseline such as 5%"):
        Regression.parse(text)


@pytest.mark.parametrize(
    ("text", "steps", "seconds"),
    [
        ("auto", None, None),
        ("20 steps", 20, None),
        ("1 step", 1, None),
        ("0 steps", 0, None),
        ("30s", None, 30.0),
        ("1m30s", None, 90.0),
    ],
)
def test_a_warmup_is_steps_or_seconds(text: str, steps: int | None, seconds: float | None) -> None:
    found = Warmup.parse(text)
    assert (found.steps, found.seconds) == (steps, seconds)


@pytest.mark.parametrize("text", ["", "20", "20  steps", "steps", "none", "1s" * 51, "400d"])
def test_what_is_no_warmup(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        Warmup.parse(text)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Size, {"1B": 1, "2KB": 2000, "2KiB": 2048, "3MB": 3 * 10**6, "3MiB": 3 * 2**20}),
        (Size, {"1.5GB": 15 * 10**8, "2GiB": 2**31, "4TB": 4 * 10**12, "1TiB": 2**40}),
        (Rate, {"3bit": 3, "2kbit": 2000, "200Mbit": 2 * 10**8, "1.5Gbit/s": 15 * 10**8}),
        (Rate, {"1Tbit": 10**12}),
        (Count, {"12": 12, "2K": 2000, "340M": 34 * 10**7, "1.5B": 15 * 10**8, "2T": 2 * 10**12}),
    ],
)
def test_a_number_with_its_unit(kind: type[Size | Rate | Count], values: dict[str, int]) -> None:
    assert {text: int(kind.parse(text)) for text in values} == values


def test_a_duration_with_its_units() -> None:
    seconds = {"90s": 90, "5m": 300, "2h": 7200, "1d": 86400, "1h30m": 5400, "1d2h3m4s": 93784}
    assert {text: float(Duration.parse(text)) for text in seconds} == seconds


@pytest.mark.parametrize(
    ("text", "amount", "written"),
    [("50 USD", 50.0, "50 USD"), ("0.5USD", 0.5, "0.5 USD"), ("100USD", 100.0, "100 USD")],
)
def test_money(text: str, amount: float, written: str) -> None:
    found = Money.parse(text)
    assert (found, str(found)) == (amount, written)


@pytest.mark.parametrize("text", ["50", "50 EUR", "0 USD", "-1 USD", "50  USD"])
def test_what_is_no_money(text: str) -> None:
    with pytest.raises(ValueError, match="an amount of US dollars"):
        Money.parse(text)


@pytest.mark.parametrize(
    ("text", "kind", "count", "ranks", "is_neuron"),
    [
        ("t4", "t4", 1, 1, False),
        ("a100-40gb:8", "a100-40gb", 8, 8, False),
        ("trainium:16", "trainium", 16, 32, True),
        ("trainium2:16", "trainium2", 16, 64, True),
        ("trainium2", "trainium2", 1, 4, True),
    ],
)
def test_an_accelerator(text: str, kind: str, count: int, ranks: int, is_neuron: bool) -> None:
    found = Accelerator.parse(text)
    assert (found.type, found.per_node) == (kind, count)
    assert (found.ranks_per_node, found.is_neuron) == (ranks, is_neuron)


@pytest.mark.parametrize(
    ("text", "where", "scheme"),
    [
        ("gs://bucket/a", "gs://bucket/a", "gs"),
        ("s3://bucket", "s3://bucket", "s3"),
        ("a/../b", "/base/b", "file"),
        ("/a", "/a", "file"),
    ],
)
def test_a_location(text: str, where: str, scheme: str) -> None:
    found = Location.parse(text, "/base")
    assert (found, found.scheme) == (where, scheme)


def test_a_path_in_the_users_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell reads a job file, and none replaces `~` within --set KEY=~/data."""
    monkeypatch.setenv("HOME", "/home/me")
    for text, where in (("~/a", "/home/me/a"), ("~", "/home/me"), ("./~/a", "/base/~/a")):
        assert Location.parse(text, "/base") == LocalPath.parse(text, "/base") == where
    assert Location.parse("~a/~", "/base") == "/base/~a/~"


def test_what_is_no_location_names_buckets_where_it_is_one() -> None:
    for text, arguments in (("http://a/b", 1), ("gs://B/a", 2), ("", 1), ("x://a", 1)):
        with pytest.raises(ValueError, match="gs://BUCKET/PATH") as caught:
            Location.parse(text, "/")
        assert len(caught.value.args) == arguments
    with pytest.raises(ValueError, match="a path relative"):
        LocalPath.parse("gs://bucket/a", "/")
    assert LocalPath.parse("a", "/base") == "/base/a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "it has no group in ( ) for the number"),
        ("step=(?P<step>[0-9]+)", "its only group is the step; add one for the number"),
        ("(", "missing ), unterminated subpattern at position 0"),
        ("(a)" * 700, None),
    ],
)
def test_a_regex_needs_a_group_and_an_end(text: str, reason: str | None) -> None:
    with pytest.raises(ValueError, match="regular expression") as caught:
        Regex.parse(text)
    assert caught.value.args[1:] == ((reason,) if reason else ())
    assert Regex.parse("(" + "a" * 1998 + ")")


def test_the_restarts_of_a_job() -> None:
    assert Limits(retries=3).most_restarts == 3
    assert Limits(retries=3, restarts=5).most_restarts == 5
    assert Limits(restarts="never").most_restarts == 0
    assert Limits(restarts="platform").most_restarts is None
    assert Limits().most_restarts == 0


def test_the_first_of_several_regions() -> None:
    for options in (VertexOptions, SageMakerOptions):
        assert options().first_region is None
        assert options(region="us-east1").first_region == "us-east1"
        assert options(region=["us-east1", "us-west1"]).first_region == "us-east1"


def test_trackers(tmp_path: Path) -> None:
    assert Tracking(mlflow="https://host").given == ["mlflow"]
    assert Tracking().given == []
    for text in ("me/project", "https://host.example/a/me/project", "http://h/me/p"):
        assert WandbLocation.parse(text) == text
    for text in ("project", "/project", "ftp://host/me/p", "me/", "me/a b", "me/" + "a" * 129):
        with pytest.raises(ValueError, match="PROJECT"):
            WandbLocation.parse(text)


def test_an_image_is_built_unless_it_is_there() -> None:
    assert not Image(uri="a/b:1").is_built
    assert not Image().is_built
    assert Image(base="a").is_built
    assert Image(dockerfile="a").is_built
    assert not Image(uri="a/b:1", base="a").is_built
