"""Stand-ins for the parts that cost money, time or luck: LLMs, clocks, embedders and their faults.

Public, for your own tests too. All are deterministic, need no network and record what they were asked.

    llm = ScriptedLLM({"who": ["Acme", "works at Acme"]})       # prompt holds "who" -> a JSON array of these
    llm = CassetteLLM("replies.jsonl", llm=real_model)          # records once, replays for ever
    llm = FaultyLLM("hang")                                     # every way in which a model fails: see FAULTS
    clock = VirtualClock()                                      # DualRetriever(store, clock=clock)
    clock.run(umi.asearch("..."))                               # sleeps and timeouts pass at once, in virtual time
    embedder = FaultyEmbedder(HashEmbedder(), fail_on="poison")
"""

from __future__ import annotations

from umi_common.sim.clock import VirtualClock
from umi_common.sim.embedders import CountingEmbedder, FaultyEmbedder, HashEmbedder
from umi_common.sim.faults import FAULTS, FaultyLLM, SimulatedFault
from umi_common.sim.llms import CassetteLLM, CassetteMiss, ScriptedLLM, SimLLM

__all__ = [
    "FAULTS",
    "CassetteLLM",
    "CassetteMiss",
    "CountingEmbedder",
    "FaultyEmbedder",
    "FaultyLLM",
    "HashEmbedder",
    "ScriptedLLM",
    "SimLLM",
    "SimulatedFault",
    "VirtualClock",
]
