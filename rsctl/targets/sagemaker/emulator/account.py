"""STS and ECR: the identity of the account, and a registry without content.

ECR answers which images there are, for checks before a submission; nothing can be pushed.
"""

from __future__ import annotations

import base64
import secrets
import time

from rsctl.targets.managed.emulator.nodes import NodeRunner
from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Parameters, Service

_TOKEN_SECONDS = 12 * 3600


class Account:
    """STS and ECR. Images are those that the runner can start."""

    def __init__(self, emulator: AwsEmulator, runner: NodeRunner) -> None:
        self._emulator = emulator
        self._runner = runner
        emulator.add(Service("sts", "ValidationError", {"GetCallerIdentity": self._identity}))
        operations = {
            "GetAuthorizationToken": self._token,
            "DescribeRepositories": self._repositories,
            "DescribeImages": self._images,
        }
        emulator.add(Service("ecr", "InvalidParameterException", operations))

    def _identity(self, wanted: Parameters) -> Parameters:
        account = self._emulator.account
        return {
            "Arn": f"arn:aws:iam::{account}:user/rehearsal",
            "UserId": "AIDAREHEARSAL",
            "Account": account,
        }

    def _token(self, wanted: Parameters) -> Parameters:
        token = base64.b64encode(f"AWS:{secrets.token_urlsafe(30)}".encode()).decode()
        entry = {
            "authorizationToken": token,
            "expiresAt": time.time() + _TOKEN_SECONDS,
            "proxyEndpoint": f"https://{self._host}",
        }
        return {"authorizationData": [entry]}

    def _repositories(self, wanted: Parameters) -> Parameters:
        return {"repositories": [self._repository(n) for n in wanted.get("repositoryNames", [])]}

    def _repository(self, name: str) -> Parameters:
        scope = f"{self._emulator.region}:{self._emulator.account}"
        return {
            "repositoryArn": f"arn:aws:ecr:{scope}:repository/{name}",
            "registryId": self._emulator.account,
            "repositoryName": name,
            "repositoryUri": f"{self._host}/{name}",
        }

    def _images(self, wanted: Parameters) -> Parameters:
        name = wanted["repositoryName"]
        found = [
            {
                "registryId": self._emulator.account,
                "repositoryName": name,
                **({"imageDigest": each["imageDigest"]} if "imageDigest" in each else {}),
                **({"imageTags": [each["imageTag"]]} if "imageTag" in each else {}),
            }
            for each in wanted.get("imageIds", [])
            if self._runner.has_image(f"{self._host}/{name}{_suffix(each)}")
        ]
        if not found:
            message = f"The image does not exist within the repository with name '{name}'"
            raise self._emulator.refuse(400, "ImageNotFoundException", message)
        return {"imageDetails": found}

    @property
    def _host(self) -> str:
        return f"{self._emulator.account}.dkr.ecr.{self._emulator.region}.amazonaws.com"


def _suffix(image: Parameters) -> str:
    return f"@{image['imageDigest']}" if "imageDigest" in image else f":{image.get('imageTag', '')}"
