"""Executions on eight virtual devices, which the answers of drills are compared with."""

from tests.hlo.conftest import execute as execute
