"""Rehearsals call nothing beyond this machine."""

from tests.targets.managed.emulator.conftest import bare_environment as bare_environment
