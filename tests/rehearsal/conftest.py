"""Rehearsals call nothing beyond this machine."""

from tests.emulators.conftest import bare_environment as bare_environment
