"""Objects whose names no file can have."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rsctl.emulators.aws.s3_objects import ObjectFiles
from rsctl.emulators.bucket_folders import BucketFolders
