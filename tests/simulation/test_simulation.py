"""A store through seeded schedules of writes, searches, copies, faults and crashes: the laws of `world` hold."""

from __future__ import annotations

import os

import pytest
import sqlite_files
from simulate import run_seeds

SEEDS = int(os.environ.get("UMI_SIMULATION_SEEDS", "100"))
"""Some twenty seconds, and the same on every machine; UMI_SIMULATION_SEEDS=3000 runs the long form."""
FIRST = int(os.environ.get("UMI_SIMULATION_SEED", "0"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sqlite_files.usable(), reason="SQLite's files cannot be watched on this machine"),
]


def test_the_laws_hold_through_every_schedule():
    failed = run_seeds(SEEDS, FIRST)
    assert failed is None, f"\n{failed}"
