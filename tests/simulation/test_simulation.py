"""The laws of `world` hold for a store during seeded schedules of writes, searches, copies, faults and crashes."""

from __future__ import annotations

import os

import pytest
import sqlite_files
from simulate import run_seeds

SEEDS = int(os.environ.get("UMI_SIMULATION_SEEDS", "100"))
"""Takes about twenty seconds, with the same steps on every machine; UMI_SIMULATION_SEEDS=3000 runs more."""
FIRST = int(os.environ.get("UMI_SIMULATION_SEED", "0"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sqlite_files.usable(), reason="SQLite's files cannot be watched on this machine"),
]


def test_the_laws_hold_through_every_schedule():
    failed = run_seeds(SEEDS, FIRST)
    assert failed is None, f"\n{failed}"
