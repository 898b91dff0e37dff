"""Simulated LLMs, clocks and embedders, with and without faults, for umi's tests and for yours.

They are deterministic and need no network. The exception is a `CassetteLLM` that records: it calls a real model.

    llm = ScriptedLLM({"who": ["Acme", "works at Acme"]})       # prompt contains "who" -> a JSON array as reply
    llm = CassetteLLM("replies.jsonl", llm=real_model)          # records each reply once, then replays it
    llm = FaultyLLM("hangs")                                    # fails in one of the ways that FAULTS lists
    clock = VirtualClock()                                      # for DualRetriever(store, clock=clock)
    clock.run(umi.asearch("..."))                               # sleeps and timeouts take virtual time only
    embedder = FaultyEmbedder(HashEmbedder(), fail_on="poison") # fails on texts that contain "poison"
    model = RemoteModel(seconds=0.2, calls_per_second=20, failures=0.01)   # a paid embedding service
"""

from __future__ import annotations

from umi_common.sim.clock import VirtualClock
from umi_common.sim.embedders import (
    CountingEmbedder,
    FaultyEmbedder,
    HashEmbedder,
    RateLimited,
    RemoteModel,
    ServiceDown,
)
from umi_common.sim.llms import FAULTS, CassetteLLM, CassetteMiss, FaultyLLM, ScriptedLLM, SimLLM, SimulatedFault

__all__ = [
    "FAULTS",
    "CassetteLLM",
    "CassetteMiss",
    "CountingEmbedder",
    "FaultyEmbedder",
    "FaultyLLM",
    "HashEmbedder",
    "RateLimited",
    "RemoteModel",
    "ScriptedLLM",
    "ServiceDown",
    "SimLLM",
    "SimulatedFault",
    "VirtualClock",
]
