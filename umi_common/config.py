"""Every setting and its default: one frozen model per stage.

From code: `UmiConfig(fusion=FusionConfig(method="rrf"))`. From a TOML file and the environment:
`UmiConfig.load("umi.toml")`, where `UMI_FUSION__METHOD=rrf` beats the file. Unknown names are errors.
The defaults are measured: see the tables in `docs/decisions.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from umi_common.errors import ConfigError, ReindexRequired

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=0)]

ENVIRONMENT_PREFIX = "UMI_"
REWRITE_TEMPLATE = """Rewrite this search query into 2-3 variations that would help find relevant memories.

Query: {query}

Return as JSON array of strings. Example: ["variation 1", "variation 2", "variation 3"]
Only return the JSON array, nothing else."""
"""ADR-015, word for word."""


class Frozen(BaseModel):
    """Immutable; unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_first_fault(type(self).__name__, error)) from error


class AnalyzerConfig(Frozen):
    """How a text becomes terms. Part of the store's fingerprint, so a change needs a reindex."""

    language: str = "english"
    """A Snowball language ("english", "german", ...) or "none" for no stemming."""
    stop_words: frozenset[str] = frozenset()
    """Words dropped before stemming; lower-case. Empty by default, because they carry meaning in short chats."""


class LexicalConfig(Frozen):
    """BM25. No change needs a reindex."""

    variant: Literal["lucene", "okapi", "l", "plus"] = "lucene"
    k1: float = Field(default=1.2, ge=0.0, le=10.0)
    b: Share = 0.75
    delta: float = Field(default=0.5, ge=0.0, le=10.0)
    """Only L and Plus (rank_bm25: 0.5 for L, 1.0 for Plus)."""
    epsilon: float = Field(default=0.25, ge=0.0, le=1.0)
    """Only Okapi: floor of a negative idf as a share of the mean idf."""
    function_word_weight: Share = 0.5
    """Weight of a query's function words ("what", "is", "the"); every other word has 1. 1: no difference is made."""


class RecallConfig(Frozen):
    """How many candidates a search ranks, and how long it waits for the embedder."""

    depth: int = Field(default=200, ge=10, le=10_000)
    """Candidates from each arm and variation."""
    around: int = Field(default=1, ge=0, le=10)
    """Chunks to each side of a candidate, in its source, that join the pool."""
    embedder_timeout_seconds: Positive = 5.0
    """Seconds that a search waits for the embedder; then the lexical arm answers alone. A service replies within one
    second; a model that loads at its first call may take a few."""


class EmbedderConfig(Frozen):
    """Which model embeds, and how it is called. The embedded model, which never waits, uses `batch_texts` alone."""

    model: str | None = None
    """"minilm", "fastembed:MODEL" or "sentence-transformers:MODEL", read when a store is opened without an embedder.
    None: the model that made the store if that is "minilm", else the embedded model."""
    concurrency: int = Field(default=64, ge=1, le=1_000)
    """Calls for queries at a time, where one call embeds one query; half as many where a call takes several."""
    batch_texts: int = Field(default=256, ge=1, le=100_000)
    """Most texts in one call."""
    batch_bytes: int = Field(default=300_000, ge=1)
    """Most UTF-8 bytes in one call, so fewer than 100,000 tokens of most tokenizers; a longer text goes alone."""
    document_calls: int = Field(default=4, ge=1, le=100)
    """Calls for documents at a time; more than one only where the model waits for a service during most of a call."""
    retry_seconds: float = Field(default=60.0, ge=0.0)
    """Seconds from the first call for a batch of documents to the last retry after rate limits, timeouts and failures
    of the service. Queries are retried within `recall.embedder_timeout_seconds`."""
    cached_queries: Count = 4_096
    """Query vectors kept in memory; the one that was used longest ago is dropped first. 0: none."""
    cached_documents: Count = 200_000
    """Vectors of documents kept in the store's directory, so that an `add` that failed, or the same text under another
    id, costs no second call; the oldest is dropped first. An `add` of fewer than 16 texts keeps none. A store
    in memory, and a model without a name, keep at most 20,000 in memory. 0: none."""


class RoutingConfig(Frozen):
    """When the LLM is asked."""

    mode: Literal["heuristic", "evidence", "always", "never"] = "evidence"
    weakness: Share = 0.56
    """evidence: the LLM is asked when the evidence's weakness (0 strong .. 1 weak) is at least this."""


class RewriteConfig(Frozen):
    """How the LLM is asked for variations of a query."""

    template: str = REWRITE_TEMPLATE
    """Must hold {query}; may hold {history}; other braces are literal."""
    variations_max: int = Field(default=3, ge=1, le=10)
    variation_bytes_max: int = Field(default=1_000, ge=10, le=10_000)
    timeout_seconds: Positive = 4.0
    retries: int = Field(default=0, ge=0, le=3)
    keep_replies: bool = False
    """Keep the cache in the store's directory too, so that the next process finds these replies."""
    cache_size: Count = 1_024
    """Replies kept in memory; the least recently used is dropped first. 0: no cache."""
    breaker_failures: int = Field(default=5, ge=1)
    """Failures in a row after which the LLM is not called for a while."""
    breaker_seconds: Positive = 30.0
    """Length of that while; then one call tries again."""

    @field_validator("template")
    @classmethod
    def _holds_query(cls, template: str) -> str:
        if "{query}" not in template:
            raise ValueError("the template has no {query}; put it where the user's query belongs")
        return template


class WhenConfig(Frozen):
    """Time phrases in the query: "in March 2023", "last week"."""

    enabled: bool = True
    mode: Literal["lift", "filter"] = "lift"
    """lift: chunks in the period, by event_time or by a date in their text, score higher; every chunk stays.
    filter: a phrase beside a word for a record ("messages from March 2023") leaves out chunks whose event_time is not
    in the period, and those without one; other phrases lift."""
    boost: float = Field(default=1.0, ge=0.0, le=5.0)
    """A chunk in the period scores (1 + boost) times as much."""
    dated_boost: float = Field(default=1.5, ge=0.0, le=5.0)
    """The boost of a phrase that names its year and so has one meaning only."""


class FusionConfig(Frozen):
    """How the scores of two arms and all query variations become one score."""

    method: Literal["convex", "rrf"] = "convex"
    normalizer: Literal["bound", "minmax", "zscore", "logistic", "none"] = "bound"
    lexical_weight: float = Field(default=0.45, ge=0.0)
    dense_weight: float = Field(default=0.55, ge=0.0)
    adaptive: bool = True
    """With "convex": add up each arm's evidence instead of its normalised scores; `normalizer` is then not used."""
    rrf_k: Positive = 60.0
    variation_weight: float = Field(default=1.0, ge=0.0)
    """Weight of each LLM variation; the original has 1."""


class NeighboursConfig(Frozen):
    """Chunks gain from the chunks beside them and from their source."""

    enabled: bool = True
    previous: float = Field(default=0.6, ge=0.0)
    """Gain from the chunk before. The larger of the two, because answers follow questions."""
    following: float = Field(default=0.3, ge=0.0)
    """Gain from the chunk after."""
    source: float = Field(default=0.5, ge=0.0)
    """Gain from the match of the whole source."""
    adaptive: bool = True
    """Reduce the gains to what positions and sources of this corpus are worth, down to 0."""


class ReferencesConfig(Frozen):
    """Chunks gain from the best candidates that refer to them and leave out what they say of the query."""

    enabled: bool = True
    share: float = Field(default=0.7, ge=0.0, le=1.0)
    """Most that a chunk gains, in shares of the best score."""


class DecayConfig(Frozen):
    """Exponential decay: floor + (1 - floor) * 2 ** (-age / half_life)."""

    half_life_hours: Positive | None = None
    """Age at which the factor has fallen halfway to `floor`; None: no decay."""
    floor: Share = 0.5
    """Smallest factor."""


class LateInteractionConfig(Frozen):
    """The best candidates gain by how well their own words match the query's, by token vectors of the embedded model.

    A built-in reranker, which needs no other model and no service.
    """

    enabled: bool = True
    pool: int = Field(default=50, ge=1, le=1_000)
    """Best candidates that are compared."""
    weight: float = Field(default=0.16, ge=0.0)
    """Gain, in shares of the score, of a candidate one standard deviation better than the mean; at 3, 9 times that."""
    adaptive: bool = True
    """Reduce the gain to how far positions carry in this corpus, down to 0 where chunks have none."""


class DuplicatesConfig(Frozen):
    """Folding of hits that repeat a better one; `Hit.duplicates` lists them. Contexts show equal text once in any case.

    Texts are duplicates if they are equal (case, white space, Unicode form and punctuation aside), or near: with a
    cosine of at least `similarity`, and one is the other with plain words added. Another number, name, negation or word
    order is another fact. Another source, event_time or metadata is another place.
    """

    enabled: bool = False
    similarity: float = Field(default=0.98, ge=0.5, le=1.0)
    """Smallest cosine of near texts."""
    across_sources: bool = False
    """Whether equal texts of different places are duplicates, too. Near texts of different places never are."""


class MmrConfig(Frozen):
    """Maximal marginal relevance, for diversity. Off because it costs recall."""

    enabled: bool = False
    trade_off: Share = 0.7
    """lambda: 1 is relevance alone, 0 is diversity alone."""
    pool: int = Field(default=50, ge=1)


class RelevanceConfig(Frozen):
    """What is done with the relevance of the hits (`Hit.relevance`)."""

    minimum: Share | None = None
    """Hits of a lower relevance are left out; None: none is."""
    answerable: Share = 0.1
    """`SearchResult.answerable`: whether the first hit's relevance is at least this. At 0.1, 5 % of the questions about
    foreign matter pass, and 94 % of the others."""


class RerankConfig(Frozen):
    """The reranker, if the retriever has one."""

    pool: int = Field(default=50, ge=1, le=1_000)
    """Best candidates that it scores."""
    timeout_seconds: Positive = 10.0


class ExtraArmsConfig(Frozen):
    """The extra arms, if the retriever has some."""

    depth: int = Field(default=50, ge=1, le=1_000)
    """Candidates from each."""
    timeout_seconds: Positive = 4.0
    """Seconds that a search waits for an arm; then it goes on without the arm."""


class AssemblyConfig(Frozen):
    """Contexts, where a call gives no `TokenBudget` or no `AssemblyPolicy` of its own; see there."""

    max_total: int = Field(default=4_096, ge=1)
    """Tokens of the whole text."""
    per_source_max: int = Field(default=2_048, ge=1)
    """Tokens of one source."""
    per_chunk_max: int = Field(default=1_024, ge=1)
    """Tokens of one chunk."""
    order: Literal["score", "source", "chronological", "edges-first"] = "score"
    format: str = "plain"
    pack: Literal["score", "density"] = "score"
    neighbours: int = Field(default=0, ge=0, le=10)
    """Chunks on each side of a strong hit that compete for the budget, too."""
    header: str = ""
    separator: str = "\n\n"
    citation: str = "[{number}] {source} {date}"
    """Template of a source's line at the end; "": no list."""


class UmiConfig(Frozen):
    """All stages, in the order of a search."""

    analyzer: AnalyzerConfig = AnalyzerConfig()
    lexical: LexicalConfig = LexicalConfig()
    recall: RecallConfig = RecallConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    extra_arms: ExtraArmsConfig = ExtraArmsConfig()
    routing: RoutingConfig = RoutingConfig()
    rewrite: RewriteConfig = RewriteConfig()
    when: WhenConfig = WhenConfig()
    fusion: FusionConfig = FusionConfig()
    neighbours: NeighboursConfig = NeighboursConfig()
    references: ReferencesConfig = ReferencesConfig()
    decay: DecayConfig = DecayConfig()
    duplicates: DuplicatesConfig = DuplicatesConfig()
    late_interaction: LateInteractionConfig = LateInteractionConfig()
    rerank: RerankConfig = RerankConfig()
    mmr: MmrConfig = MmrConfig()
    relevance: RelevanceConfig = RelevanceConfig()
    assembly: AssemblyConfig = AssemblyConfig()

    @classmethod
    def load(cls, path: str | Path | None = None) -> UmiConfig:
        """Defaults, overlaid by a TOML file, overlaid by `UMI_<STAGE>__<FIELD>` in the environment.

        Raises:
            ConfigError: If the file is missing or not TOML, or names or values are wrong.
        """
        from umi_common._settings import read_settings  # pydantic-settings costs import time

        return cls(**read_settings(cls, path))

    def replaced(self, **changes: Any) -> UmiConfig:
        """A copy with fields changed: `replaced(fusion={"method": "rrf"})` keeps fusion's other fields.

        Raises:
            ConfigError: If a name or value is wrong.
        """
        values = self.model_dump()
        for name, change in changes.items():
            if isinstance(change, BaseModel):
                values[name] = change.model_dump()
            elif isinstance(change, dict) and isinstance(values.get(name), dict):
                values[name] = {**values[name], **change}
            else:
                values[name] = change
        return type(self)(**{name: values[name] for name in values if name in self.model_fields_set | changes.keys()})

    def check_live_change(self, new: UmiConfig) -> None:
        """Raise if the change to `new` needs another index.

        Raises:
            ReindexRequired: If the analyzer differs; names the call that rebuilds.
        """
        if new.analyzer != self.analyzer:
            raise ReindexRequired(
                "the analyzer is part of the index: reopen with HybridStore.open(path, config=new) "
                "after HybridStore.reindex(path, config=new)"
            )


def _first_fault(model: str, error: ValidationError) -> str:
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"]) or "value"
    inner = fault.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # the stage's own message: "LexicalConfig.k1: ..."
        return f"{model}.{place}.{str(inner).split('.', 1)[1]}"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{model}.{place}: {fault['msg']}; got {fault.get('input')!r:.80}{more}"
