"""Pages about a training job: its console and its log. Pure."""

from __future__ import annotations

from urllib.parse import quote

from rsctl.findings import RsctlError
from rsctl.targets.sagemaker.job_address import parse_url

_GROUP = "/aws/sagemaker/TrainingJobs"
_OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")


def pages_of(url: str) -> dict[str, str]:
    """The pages by kind; none for a run that has no job yet, or is not in the public partition."""
    try:
        address = parse_url(url)
    except RsctlError:
        return {}
    if address.region.startswith(_OTHER_PARTITIONS):
        return {}
    home = f"https://{address.region}.console.aws.amazon.com/cloudwatch/home"
    # In CloudWatch's URL the part after the # is encoded twice, with $ in place of %.
    group, stream = (quote(quote(text, ""), "").replace("%", "$") for text in (
        _GROUP, f"{address.name}/"))  # fmt: skip
    name_filter = quote("?logStreamNameFilter=", "").replace("%", "$")
    return {
        "console": address.console,
        "logs": f"{home}?region={address.region}#logsV2:log-groups/log-group/{group}"
        f"{name_filter}{stream}",
    }
