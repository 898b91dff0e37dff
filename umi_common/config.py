"""Every setting and its default: one frozen model for each section, such as fusion or the analyzer.

In code: `UmiConfig(fusion=FusionConfig(method="rrf"))`. From a TOML file: `UmiConfig.load("umi.toml")`; an environment
variable, such as `UMI_FUSION__METHOD=rrf`, overrides the file. Unknown names are errors.

An arm is a way to find chunks: the lexical arm (BM25), the dense arm (vectors) or an extra arm. The pool of a search
holds its candidates. A gain is added to a candidate's score. The measurements behind the defaults are in
`docs/decisions.md`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from typing_extensions import Self

from umi_common.errors import ConfigError, ReindexRequired

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Similarity = Annotated[float, Field(ge=0.5, le=1.0)]
Count = Annotated[int, Field(ge=0)]
OneOrMore = Annotated[int, Field(ge=1)]

ENVIRONMENT_PREFIX = "UMI_"
REWRITE_TEMPLATE = """Rewrite this search query into 2-3 variations that would help find relevant memories.

Query: {query}

Return as JSON array of strings. Example: ["variation 1", "variation 2", "variation 3"]
Only return the JSON array, nothing else."""
"""The default prompt. umi's specification prescribes its wording: do not change it."""


class Frozen(BaseModel):
    """Base of all settings: immutable; an unknown field or a wrong value raises ConfigError."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(first_fault(type(self), error)) from error


class AnalyzerConfig(Frozen):
    """How a text is cut into terms. The index holds the terms, so a change needs a reindex."""

    language: str = "auto"
    """A Snowball language ("english", "german", ...), "none" for no stemming, or "auto": the function words of a text
    show its language; English if it has too few. A word in another script is stemmed by the stemmer of that script."""
    stop_words: frozenset[str] = frozenset()
    """Words that are dropped before stemming, in any case. Empty by default, because function words carry meaning in
    short chats."""

    @field_validator("stop_words")
    @classmethod
    def _lower(cls, words: frozenset[str]) -> frozenset[str]:
        return frozenset(word.lower() for word in words)


class LexicalConfig(Frozen):
    """The variant and the parameters of BM25. Changing them needs no reindex."""

    variant: Literal["lucene", "okapi", "l", "plus"] = "lucene"
    k1: float = Field(default=1.2, ge=0.0, le=10.0)
    """Term saturation: the larger k1 is, the more further occurrences of a term in a chunk raise its score."""
    b: Share = 0.75
    """How much the length of a chunk lowers its score: with 0 not at all, with 1 fully."""
    delta: float = Field(default=0.5, ge=0.0, le=10.0)
    """For "l" and "plus" only: added to the part of the formula that depends on the term's frequency. rank_bm25 uses
    0.5 for L and 1.0 for Plus."""
    epsilon: Share = 0.25
    """For "okapi" only: a negative idf is replaced by this share of the mean idf."""
    function_word_weight: Share = 0.5
    """Weight of a query's function words ("what", "is", "the"); every other word has weight 1."""


class RecallConfig(Frozen):
    """How many candidates a search ranks, and how long it waits for the embedder."""

    depth: int = Field(default=200, ge=10, le=10_000)
    """Largest number of candidates that each arm returns for the query, and for each of its variations."""
    around: int = Field(default=1, ge=0, le=10)
    """Number of chunks before and after each of the best candidates, in its source, that are added to the pool."""
    embedder_timeout_seconds: Positive = 5.0
    """Longest time, in seconds, that a search waits for the embedder; then the lexical arm answers alone. Most services
    reply within one second; a model that loads at its first call may take a few seconds."""


class EmbedderConfig(Frozen):
    """Which model embeds, and how it is called. For umi's built-in model, which calls no service, only `batch_texts`
    counts."""

    model: str | None = None
    """"minilm", "fastembed:MODEL" or "sentence-transformers:MODEL", read when a store is opened without an embedder.
    None: "minilm" if the store was made with it, else the built-in model."""
    concurrency: int = Field(default=64, ge=1, le=1_000)
    """Largest number of concurrent calls that embed queries, for a model that embeds one query per call. For a model
    that embeds several queries per call, the limit is half of this."""
    batch_texts: int = Field(default=256, ge=1, le=100_000)
    """Largest number of documents in one call."""
    batch_bytes: OneOrMore = 300_000
    """Largest total size of the documents in one call, in UTF-8 bytes; the default is under 100,000 tokens of most
    tokenizers. A longer document is sent in a call of its own."""
    document_calls: int = Field(default=4, ge=1, le=100)
    """Largest number of concurrent calls that embed documents. Calls are made one at a time unless the model waits for
    a service during most of a call."""
    retry_seconds: NotNegative = 60.0
    """Seconds from the first call for a batch of documents to the last retry after rate limits, timeouts and failures
    of the service. Queries are retried within `recall.embedder_timeout_seconds`."""
    cached_queries: Count = 4_096
    """Largest number of query vectors cached in memory; the least recently used is dropped first. 0: none."""
    cached_documents: Count = 200_000
    """Largest number of document vectors cached in the store's directory; the oldest is dropped first. The model then
    embeds no text twice if an `add` is repeated after a failure, or if a text is added under another id. An `add` of
    fewer than 16 texts caches none. For a store in memory, or a model whose name does not identify it, at most 20,000
    vectors are cached in memory. 0: none."""


class RoutingConfig(Frozen):
    """For which queries the LLM writes variations."""

    mode: Literal["heuristic", "evidence", "always", "never"] = "evidence"
    """heuristic: for queries with a trigger word such as "who" or "last". evidence: for queries whose first search,
    without the LLM, has weak results. always: for every query. never: for none."""
    weakness: Share = 0.64
    """Mode evidence calls the LLM if the weakness of the first search's results, from 0 (strong) to 1 (weak), is at
    least this."""


class RewriteConfig(Frozen):
    """The calls that ask the LLM for variations of a query."""

    template: str = REWRITE_TEMPLATE
    """The prompt. Must hold {query}; may hold {history}; other braces are literal."""
    variations_max: int = Field(default=3, ge=1, le=10)
    """Largest number of variations of a query that are used."""
    variation_bytes_max: int = Field(default=1_000, ge=10, le=10_000)
    """Largest size, in UTF-8 bytes, of a variation that is used."""
    timeout_seconds: Positive = 4.0
    """Longest time, in seconds, that a search waits for the LLM, retries included; then it uses the query alone."""
    retries: int = Field(default=0, ge=0, le=3)
    """Largest number of further calls after a call that failed or had no usable reply."""
    keep_replies: bool = False
    """Also write the LLM's replies to a file in the store's directory, so that later processes can use them."""
    cache_size: Count = 1_024
    """Largest number of replies cached in memory; the least recently used is dropped first. 0: no cache."""
    breaker_failures: OneOrMore = 5
    """Number of failures in a row after which the LLM is not called for `breaker_seconds`."""
    breaker_seconds: Positive = 30.0
    """Seconds without a call of the LLM after `breaker_failures` failures; then one call tests whether it works."""

    @field_validator("template")
    @classmethod
    def _holds_query(cls, template: str) -> str:
        if "{query}" not in template:
            raise ValueError("the template has no {query}; put it where the user's query belongs")
        return template


class WhenConfig(Frozen):
    """Phrases of the query that name a period: "in March 2023", "last week"."""

    enabled: bool = True
    mode: Literal["lift", "filter"] = "lift"
    """lift: chunks of the period, by event_time or by a date in their text, score higher; no chunk is left out.
    filter: if the query limits records to the period ("messages from March 2023"), chunks whose event_time is outside
    the period, and chunks without event_time, are left out; for all other phrases the same as lift."""
    boost: float = Field(default=1.0, ge=0.0, le=5.0)
    """How much the chunks of the period gain:

    - The score of each is multiplied by 1 + boost, or by 1 + 5 * boost if the query limits records to the period
      ("what did I say yesterday").
    - If the query asks about a past day, week or month ("three days ago"), each gains in addition. The best chunk of
      the period gains boost times the largest score of all chunks; the other chunks of the period gain less.
    - If the query names no other subject ("what happened last week"), all of them come first, whatever boost is.
    """
    dated_boost: float = Field(default=1.5, ge=0.0, le=5.0)
    """Used instead of `boost` if the phrase names a year, because it can then mean only one period."""
    order_boost: float = Field(default=0.5, ge=0.0, le=5.0)
    """Boost for queries that ask for the latest or the first version ("current", "newest", "originally"). The score of
    the latest or first of nearly equal chunks is multiplied by 1 + order_boost. The score of a chunk whose text states
    a change ("moved to Friday") is multiplied by 1 + 3 * order_boost. 0: off."""


class FusionConfig(Frozen):
    """How the scores of both arms for all query variations become one score."""

    method: Literal["convex", "rrf"] = "convex"
    """convex: weighted mean of the arms' evidence, or of their normalised scores if `adaptive` is False. Evidence is
    a score on a scale common to both arms (`umi_common.ranking.evidence`). rrf: sum of weighted reciprocal ranks; the
    arms' scores do not count."""
    normalizer: Literal["bound", "minmax", "zscore", "logistic", "none"] = "bound"
    """How method convex brings the arms' scores to one scale if `adaptive` is False."""
    lexical_weight: NotNegative = 0.45
    """Weight of the lexical arm. With method convex and no extra arms, only the ratio of the two weights matters."""
    dense_weight: NotNegative = 0.55
    """Weight of the dense arm."""
    adaptive: bool = True
    """Whether method convex fuses the arms' evidence or, if False, their normalised scores."""
    rrf_k: Positive = 60.0
    """Rank damping of rrf: an arm adds weight / (rrf_k + rank), rank from 1."""
    variation_weight: NotNegative = 1.0
    """Weight of each variation that the LLM wrote and of each question of a longer query; the query itself has 1."""
    number_pair_weight: NotNegative = 0.3
    """Largest gain of a chunk, as a share of its score, if it holds a number of the query together with the word beside
    it ("revision 7"). A number that tells records apart ("sample 7") adds up to the best score of all chunks, whatever
    the weight is. 0: off."""
    lookup_weight: NotNegative = 1.0
    """Largest gain of a chunk, as a share of its score, if it holds a part of the query verbatim: a code ("error 502"),
    a name ("os.path.join", "GDPR"), a phrase in quotation marks, or the whole of a short query (`search.reorder.lookup`
    lists all). A long number or a full name adds up to the best score of all chunks, whatever the weight is. 0: off.
    Not used in rrf."""
    word_run_weight: NotNegative = 0.5
    """Largest gain of a chunk, as a share of its score, if it holds the query's words in the query's order, such as a
    quotation or an error message. A chunk with a part of the words gains less. 0: off. Not used in rrf."""
    speaker_weight: NotNegative = 0.3
    """Largest gain of a chunk, as a share of its score, if it is a message ("Mira: ...") of the one speaker whom the
    query names. In a chat of more than two speakers, a message that names this speaker gains, too. 0: off. Not used in
    rrf."""
    alike: bool = True
    """Of chunks that are nearly alike, such as rows of a table, put first those that hold more of the query's words, or
    hold them in the query's order. Also put a chunk with just the query's words first, and chunks with words that the
    query excludes ("but not on AWS") last."""


class NeighboursConfig(Frozen):
    """A chunk's score gains from the chunks beside it and from its source; formulas in `ranking.neighbours`. If this is
    enabled, the stages of `search.reorder.sources` also run: a chunk comes directly behind its heading or beside its
    question, and of a document that the query names, chunks with the query's other words come first."""

    enabled: bool = True
    previous: NotNegative = 0.6
    """Factor on the gain from the chunk before. Larger than `following`, because an answer follows its question."""
    following: NotNegative = 0.3
    """Factor on the gain from the chunk after."""
    source: NotNegative = 0.5
    """Factor on the gain from the whole source; the better the source matches the query, the larger the gain."""
    adaptive: bool = True
    """Whether the gains are reduced, down to 0, if adjacent chunks, or chunks of one source, are hardly more alike than
    other chunks."""


class FeedbackConfig(Frozen):
    """A chunk gains if its vector resembles the vectors of the best candidates (pseudo-relevance feedback)."""

    enabled: bool = True
    weight: float = Field(default=0.5, ge=0.0, le=0.5)
    """Largest gain, as a share of the best score. A chunk with a score just above 0 can gain all of it; the higher the
    score of a chunk, the less it can gain; the best chunk gains nothing."""


class ReferencesConfig(Frozen):
    """A chunk gains if the query names it, or if a good candidate refers to it and the chunk holds terms of the query
    that the candidate lacks."""

    enabled: bool = True
    share: Share = 0.7
    """Largest gain of a chunk, as a share of the best score."""


class DecayConfig(Frozen):
    """Exponential decay: floor + (1 - floor) * 2 ** (-age / half_life)."""

    half_life_hours: Positive | None = None
    """Age, in hours, at which the factor has fallen halfway to `floor`; None: no decay."""
    floor: Share = 0.5
    """Smallest factor, 0..1."""


class LateInteractionConfig(Frozen):
    """A built-in reranker: the better a candidate's tokens match the query's tokens, the more it gains.

    Tokens are compared by the token vectors of umi's built-in model, so no other model and no service is needed.
    """

    enabled: bool = True
    pool: int = Field(default=50, ge=1, le=1_000)
    """Number of best candidates that are compared."""
    weight: NotNegative = 0.16
    """A candidate whose match is z > 0 standard deviations above the mean match of the compared candidates gains
    weight * z^2, as a share of its score. A long candidate gains less."""
    adaptive: bool = True
    """Whether the gain is reduced if adjacent chunks are hardly more alike than other chunks; to 0 if chunks have no
    position."""


class DuplicatesConfig(Frozen):
    """Leave out hits that repeat a better hit, and list them in that hit's `duplicates`.

    Two texts are duplicates if they are equal or near. Equal texts may differ in case, white space, Unicode form and
    punctuation. Near texts have a cosine of at least `similarity`, and one of them is the other with words added. Texts
    that differ in a number, a name, a negation or the order of words are never near. Chunks with equal source,
    event_time and metadata form one group; chunks of one group can be near. Contexts show equal text once, whether
    this is enabled or not.
    """

    enabled: bool = False
    similarity: Similarity = 0.98
    """Smallest cosine of near texts."""
    across_sources: bool = False
    """Whether equal texts of different groups are duplicates. Near texts of different groups are never duplicates."""


class MmrConfig(Frozen):
    """Maximal marginal relevance, for diversity. Off by default, because it lowers recall."""

    enabled: bool = False
    trade_off: Share = 0.7
    """lambda of MMR, 0..1: with 1 only relevance counts, with 0 only diversity."""
    pool: OneOrMore = 50
    """Number of best candidates from which MMR chooses."""


class RelevanceConfig(Frozen):
    """How the relevance of the hits (`Hit.relevance`, 0..1) is used."""

    minimum: Share | None = None
    """Hits of a lower relevance are left out; None: no hit is left out."""
    answerable: Share = 0.1
    """`SearchResult.answerable` is True if the relevance of the first hit is at least this. Measured with 0.1: True
    for 94 % of the questions that the store answers, and for 5 % of the questions about other subjects."""


class RerankConfig(Frozen):
    """The reranker, if the retriever has one."""

    pool: int = Field(default=50, ge=1, le=1_000)
    """Number of best candidates that the reranker scores."""
    timeout_seconds: Positive = 10.0
    """Longest time, in seconds, that a search waits for the reranker; then the hits keep their order."""


class ExtraArmsConfig(Frozen):
    """The extra arms, if the retriever has any (`DualRetriever(arms=...)`)."""

    depth: int = Field(default=50, ge=1, le=1_000)
    """Largest number of candidates that each arm returns."""
    timeout_seconds: Positive = 4.0
    """Longest time, in seconds, that a search waits for an arm; then it continues without the arm."""


FORMATS = ("plain", "xml", "json")
"""Names of the formats of a context; any other format is a template for one part of the context."""
PLACEHOLDERS = frozenset({"number", "text", "source", "date", "kind", "score", "ids"})
"""Names that such a template may hold in braces, as in "{text}"; other braces are literal."""
PLACEHOLDERS_OF_SOURCE = PLACEHOLDERS - {"text", "score", "kind"}
"""Names that `AssemblyConfig.citation` may hold in braces."""
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def check_format(owner: str, format: str, header: str, citation: str) -> None:
    """Raise ConfigError if the format, header or citation of a context is wrong.

    Args:
        owner: Name of the class that has these settings, for the message.
    """
    if format not in FORMATS and "{text}" not in format:
        raise ConfigError(f"{owner}.format is {format!r:.80}; expected {FORMATS} or a template with {{text}}")
    if header and format in ("xml", "json"):
        raise ConfigError(f"{owner}.header would break the {format}; put it before context.text")
    for name, template, known in (("format", format, PLACEHOLDERS), ("citation", citation, PLACEHOLDERS_OF_SOURCE)):
        unknown = sorted(set(PLACEHOLDER.findall(template)) - known)
        if unknown:
            raise ConfigError(f"{owner}.{name} names {unknown}; expected only {sorted(known)}")


class AssemblyConfig(Frozen):
    """The defaults of `get_context` for the fields of `TokenBudget` and `AssemblyPolicy`, which describe them."""

    max_total: OneOrMore = 4_096
    """Largest number of tokens of the whole text."""
    per_source_max: OneOrMore | None = None
    """Largest number of tokens of one source; None: only the whole text has a limit."""
    per_chunk_max: OneOrMore | None = None
    """Largest number of tokens of one chunk; None: a quarter of `max_total`, but at least 1,024; more if tokens are
    left."""
    order: Literal["score", "source", "chronological", "edges-first"] = "score"
    format: str = "plain"
    pack: Literal["score", "density"] = "score"
    neighbours: int = Field(default=0, ge=0, le=10)
    """Number of chunks on each side of a hit of high score that are also candidates for the context."""
    header: str = ""
    separator: str = "\n\n"
    citation: str = "[{number}] {source} {date}"
    """Template of each line in the list of sources at the end; "": no list."""

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        check_format("AssemblyConfig", self.format, self.header, self.citation)
        return self


class UmiConfig(Frozen):
    """All settings, by section."""

    analyzer: AnalyzerConfig = AnalyzerConfig()
    lexical: LexicalConfig = LexicalConfig()
    recall: RecallConfig = RecallConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    extra_arms: ExtraArmsConfig = ExtraArmsConfig()
    routing: RoutingConfig = RoutingConfig()
    rewrite: RewriteConfig = RewriteConfig()
    when: WhenConfig = WhenConfig()
    fusion: FusionConfig = FusionConfig()
    feedback: FeedbackConfig = FeedbackConfig()
    neighbours: NeighboursConfig = NeighboursConfig()
    references: ReferencesConfig = ReferencesConfig()
    decay: DecayConfig = DecayConfig()
    duplicates: DuplicatesConfig = DuplicatesConfig()
    late_interaction: LateInteractionConfig = LateInteractionConfig()
    rerank: RerankConfig = RerankConfig()
    mmr: MmrConfig = MmrConfig()
    relevance: RelevanceConfig = RelevanceConfig()
    assembly: AssemblyConfig = AssemblyConfig()

    def __init__(self, **sections: Any) -> None:  # for type checkers: a section may be a dict of its fields
        super().__init__(**sections)

    @classmethod
    def load(cls, path: str | Path | None = None) -> UmiConfig:
        """The defaults, replaced by a TOML file and then by environment variables `UMI_<SECTION>__<FIELD>`.

        Raises:
            ConfigError: If the file is missing or is not TOML, or a name or a value is wrong.
        """
        values = read_settings(cls, path)
        try:
            return cls(**values)
        except ConfigError as error:
            origin = variable_of(str(error)) or path
            if origin is None:
                raise
            raise ConfigError(f"{origin}: {error}") from error

    def replaced(self, **changes: Any) -> UmiConfig:
        """A copy with fields changed: `replaced(fusion={"method": "rrf"})` keeps fusion's other fields.

        Raises:
            ConfigError: If a name or value is wrong.
        """
        values = {name: getattr(self, name) for name in self.model_fields_set}  # others stay out of `model_fields_set`
        for name, change in changes.items():
            present = getattr(self, name, None)
            if isinstance(change, dict) and isinstance(present, BaseModel):
                change = {**present.model_dump(), **change}
            values[name] = change
        return type(self)(**values)

    def checked_live_change(self, new: UmiConfig) -> UmiConfig:
        """`new`, checked as a replacement for the present settings of an open store. If `new` sets no analyzer, it gets
        the present analyzer.

        Raises:
            ConfigError: If `new` is no `UmiConfig`.
            ReindexRequired: If `new` sets another analyzer; the message names the call that rebuilds the index.
        """
        if not isinstance(new, UmiConfig):
            raise _no_config(new)
        if "analyzer" not in new.model_fields_set:
            return new.replaced(analyzer=self.analyzer)
        if new.analyzer != self.analyzer:
            raise ReindexRequired(
                "the analyzer is part of the index: reopen with HybridStore.open(path, config=new) "
                "after HybridStore.reindex(path, config=new)"
            )
        return new


def check_settings(config: object) -> None:
    """Raise ConfigError if `config` is neither None nor a `UmiConfig`."""
    if config is not None and not isinstance(config, UmiConfig):
        raise _no_config(config)


def _no_config(given: object) -> ConfigError:
    return ConfigError(f"config is {type(given).__name__}; expected UmiConfig, for example UmiConfig(fusion={{...}})")


def first_fault(settings: type[BaseModel], error: ValidationError) -> str:
    """The message of a ConfigError: about an unknown name if there is one, else about the first fault.

    Example: "FusionConfig.rrf_k: Input should be greater than 0; got -1".
    """
    faults = error.errors()
    fault = next((each for each in faults if each["type"] == "extra_forbidden"), faults[0])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    path = [str(part) for part in fault["loc"]]
    name = ".".join([settings.__name__, *(path or ["value"])])
    inner = fault.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # raised by a nested model ("LexicalConfig.k1: ...") or a validator of this one
        return f"{name}.{str(inner).split('.', 1)[-1]}" if path else str(inner)
    if fault["type"] == "missing":
        return f"{name} is missing; {settings.__name__}({path[-1]}=...){more}"
    message = fault["msg"]
    if fault["type"] == "extra_forbidden":
        message = f"no such setting; {nearest_name(path[-1], _settings_at(settings, path[:-1]))}"
    elif fault["type"] == "model_type" and len(path) == 1:
        message = f"expected a dict of settings: {', '.join(_settings_at(settings, path))}"
    return f"{name}: {message}; got {fault.get('input')!r:.80}{more}"


def nearest_name(name: str, known: Collection[str]) -> str:
    """Advice for an unknown name: the known name that is spelled most alike, else all known names."""
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"


def _settings_at(settings: type[BaseModel], path: list[str]) -> list[str]:
    """Names of the fields of the model at a path of field names: of `FusionConfig` for ["fusion"] in `UmiConfig`."""
    fields = settings.model_fields
    for name in path:
        fields = getattr(fields[name].annotation, "model_fields", {}) if name in fields else {}
    return list(fields)


def read_settings(model: type[BaseModel], path: str | Path | None) -> dict[str, Any]:
    """The unchecked tables of a TOML file (None: no file), with the fields of `UMI_<SECTION>__<FIELD>` variables.

    Raises:
        ConfigError: If the file cannot be read or parsed, or if a variable names no section of `UmiConfig`, has one
            underscore after the section instead of two, or holds a list or a table that is not valid JSON.
    """
    from pydantic_settings import EnvSettingsSource  # imported here, because it is slow to import
    from pydantic_settings.exceptions import SettingsError

    _check_variable_names(model.model_fields)
    values = _read_toml(path) if path is not None else {}
    source = EnvSettingsSource(
        model,  # type: ignore[arg-type]  # the source reads only the fields, which every model has
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        case_sensitive=False,
    )
    try:
        environment = source()
    except SettingsError as error:
        raise ConfigError(
            f"a {ENVIRONMENT_PREFIX}* variable cannot be read: {error}; write a list or a table as JSON"
        ) from error
    for section, fields in environment.items():
        if isinstance(fields, dict) and isinstance(values.get(section), dict):
            values[section] = {**values[section], **fields}
        else:
            values[section] = fields
    return values


def _check_variable_names(sections: Collection[str]) -> None:
    known = f"(?:{'|'.join(sections)})"
    one_underscore = re.compile(f"({ENVIRONMENT_PREFIX}{known})_(?!_)(.+)", re.IGNORECASE)
    other_section = re.compile(f"{ENVIRONMENT_PREFIX}(?!{known}__)(.+?)__.*", re.IGNORECASE)
    for name in os.environ:
        if found := one_underscore.fullmatch(name):
            raise ConfigError(f"{name} is no setting; write two underscores: {found[1]}__{found[2]}")
        if found := other_section.fullmatch(name):
            section = found[1].lower()
            raise ConfigError(f"{name} is no setting: there is no stage {section}; {nearest_name(section, sections)}")


def variable_of(message: str) -> str | None:
    """The environment variable of the setting that an error's message begins with; None: no variable sets it.

    Example: UMI_FUSION__RRF_K for "UmiConfig.fusion.rrf_k: Input should be greater than 0; got '-1'".
    """
    found = re.match(r"\w+\.(\w+)(?:\.(\w+))?", message)
    if found is None:
        return None
    section, field = found.groups()
    of_field = f"(?:__{field}(?:__.*)?)?" if field else ""
    variable = re.compile(f"{ENVIRONMENT_PREFIX}{section}{of_field}", re.IGNORECASE)
    return next((name for name in os.environ if variable.fullmatch(name)), None)


class WatchedFile:
    """Detects that a settings file has changed.

    Args:
        path: TOML; it need not exist.
        seconds: Smallest number of seconds between two checks of the file.
    """

    def __init__(self, path: str | Path, seconds: float) -> None:
        if not (isinstance(seconds, (int, float, np.number)) and seconds >= 0):
            raise ConfigError(f"seconds is {seconds!r:.80}; expected a number of seconds, at least 0")
        self.path = Path(path).expanduser().absolute()
        self._seconds = seconds
        self._stamp = self._stamp_now()
        self._checked_at = time.monotonic()

    def changed(self) -> bool:
        """Whether the file has changed since the last check; False if the last check was less than `seconds` ago.

        A deleted file counts as changed only when it exists again.
        """
        now = time.monotonic()
        if now - self._checked_at < self._seconds:
            return False
        self._checked_at = now
        before, self._stamp = self._stamp, self._stamp_now()
        return self._stamp not in (before, None)

    def _stamp_now(self) -> tuple[int, int, int] | None:
        """Time of the last change, size and inode of the file; None: there is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _read_toml(file: str | Path) -> dict[str, Any]:
    try:
        path = Path(file)
    except TypeError as error:
        raise ConfigError(f"path is {type(file).__name__}; expected the path of a TOML file, or None") from error
    try:
        # utf-8-sig: Windows editors write a byte-order mark.
        tables: dict[str, Any] = tomllib.loads(path.expanduser().read_text(encoding="utf-8-sig"))
        return tables
    except (OSError, RuntimeError) as error:  # RuntimeError: "~name" where no user has this name
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the settings file {path}: {reason}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML in UTF-8: {error}; correct the file") from error
