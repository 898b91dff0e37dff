"""Whatever counts tokens can be given; special tokens, truncation and threads do no harm."""

from __future__ import annotations

import hashlib
import random
import threading

import numpy as np
import pytest
from context_toys import CL100K_FOLDER

from umi_common.context.tokens.counter import CACHE_SIZE, Counter, counter_for
from umi_common.context.tokens.encodings import EncodingUnavailable, cached_encoding
from umi_common.errors import ConfigError

ENGLISH = "Mira's cousin started in accounting at Acme; she might help with 3 mortgage papers before 12,500 is due."


@pytest.fixture
def encoding(monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(CL100K_FOLDER))
    try:
        return cached_encoding("cl100k_base")
    except EncodingUnavailable:
        pytest.skip("llama-index-core ships no cl100k_base here")


@pytest.fixture
def embedded(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return counter_for()


class TestSpecs:
    def test_a_model_name_means_its_encoding(self, encoding):
        assert counter_for("gpt-4").name == "tiktoken:cl100k_base"
        assert counter_for("gpt-4") is counter_for("cl100k_base") is counter_for(None)

    def test_an_unknown_model_is_an_error_that_says_what_to_give(self):
        with pytest.raises(ConfigError, match="no such model or encoding; give the model's tokenizer"):
            counter_for("llama-77b")

    def test_special_tokens_in_a_text_are_plain_text(self, encoding):
        assert counter_for("cl100k_base").count("<|endoftext|>") == 7
        assert counter_for(encoding).count("<|endoftext|>") == 7
        assert counter_for(encoding.encode).count("<|endoftext|>") == 7  # as LlamaIndex's docs set Settings.tokenizer

    def test_an_object_with_count(self):
        class Mine:
            name = "mine"

            def count(self, text):
                return len(text)

        counter = counter_for(Mine())
        assert (counter.name, counter.count("abc"), counter.approximate) == ("mine", 3, False)

    def test_a_function_to_a_number_and_one_to_a_list(self):
        assert counter_for(len).count("abcd") == 4
        assert counter_for(str.split).count("two words") == 2

    def test_a_langchain_model(self):
        fake = pytest.importorskip("langchain_core.language_models.fake")

        class Model(fake.FakeListLLM):
            def get_num_tokens(self, text):
                return len(text.split()) + 1

        model = Model(responses=["x"])
        assert counter_for(model).count("a b") == 3
        assert counter_for(model.get_num_tokens).count("a b") == 3

    def test_llamaindexs_tokenizer(self):
        llama_utils = pytest.importorskip("llama_index.core.utils")
        assert counter_for(llama_utils.get_tokenizer()).count("hello world") == 2

    def test_a_tokenizer_that_is_set_to_cut_still_counts_everything(self):
        tokenizers = pytest.importorskip("tokenizers")
        own = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
        own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        own.enable_truncation(max_length=3)
        assert counter_for(own).count("a b c d e") == 5
        assert own.truncation is not None, "the caller's tokenizer was changed"

    def test_a_transformers_tokenizer_without_the_special_tokens_it_adds(self):
        class Fast:
            name_or_path = "some/model"

            def encode(self, text, add_special_tokens=True):
                return [0] * (len(text.split()) + 2 * add_special_tokens)

        counter = counter_for(Fast())
        assert (counter.name, counter.count("a b c")) == ("some/model", 3)

    def test_a_transformers_call_gives_input_ids(self):
        assert counter_for(lambda text: {"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]}).count("x") == 3

    def test_a_counter_that_raises_is_named_and_its_error_is_the_cause(self):
        def words(text):
            raise KeyError(text)

        with pytest.raises(ConfigError, match="words failed with KeyError on 6 characters") as caught:
            counter_for(words).count("secret")
        assert isinstance(caught.value.__cause__, KeyError) and "secret" not in str(caught.value)

    @pytest.mark.parametrize("spec", [3, [], object()])
    def test_anything_else_is_refused(self, spec):
        with pytest.raises(ConfigError, match="a token counter of type"):
            counter_for(spec)


class TestCounts:
    def test_a_text_is_counted_once(self):
        asked = []
        counter = Counter(lambda text: asked.append(text) or len(text), "mine")
        assert [counter.count("abc") for _ in range(5)] == [3] * 5
        assert asked == ["abc"]

    def test_the_memory_of_counts_is_bounded(self):
        asked = []
        counter = Counter(lambda text: asked.append(text) or len(text), "mine")
        for i in range(CACHE_SIZE + 1):
            counter.count(str(i))
        assert (counter.count(str(CACHE_SIZE)), counter.count("0")) == (5, 1)
        assert asked[CACHE_SIZE:] == [str(CACHE_SIZE), "0"]

    def test_threads_may_share_a_counter(self):
        counter = Counter(len, "mine")
        words = [str(random.Random(i).random()) for i in range(3_000)]
        wrong = []

        def work():
            wrong.extend(word for word in words if counter.count(word) != len(word))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    @pytest.mark.parametrize("kind", ["encoding", "embedded"])
    def test_the_quick_bound_never_says_more_than_there_is(self, kind, request):
        request.getfixturevalue(kind)
        counter = counter_for()
        for text in (ENGLISH, " a  b\n\nc ", "x" * 50, "👍 👍", "", " " * 40):
            for limit in range(60):
                assert not counter.surely_exceeds(text, limit) or counter.count(text) > limit

    def test_lines_of_one_space_are_not_words(self, encoding):
        text = "a" + " \n" * 100 + "b"  # 52 tokens: a run of white space is split into few
        counter = counter_for("cl100k_base")
        assert not counter.surely_exceeds(text, counter.count(text))


class TestEmbeddedTokenizer:
    """Its margin: `docs/context.md` has the table over 5,000 texts."""

    @pytest.mark.parametrize(
        "text", [ENGLISH, "def f(a, b=3):\n        return a[b]  # x\n", "今天天气很好。", "สวัสดีชาวโลก", "👍🏽 👩‍👩‍👧‍👦"]
    )
    def test_english_code_and_other_scripts_are_not_undercounted(self, encoding, text, monkeypatch, tmp_path):
        theirs = len(encoding.encode_ordinary(text))
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        assert theirs <= counter_for().count(text) <= 2 * theirs

    def test_lone_surrogates_do_not_break_it(self, embedded):
        assert embedded.count("a\ud800b") >= 2


def test_counts_are_kept_by_a_hash_and_not_by_the_text():
    counter = Counter(len, "mine")
    counter.count("abc")
    key = hashlib.blake2b(b"abc", digest_size=16).digest()
    assert counter._counts.get([key, "abc"]) == {key: 3}


def test_a_function_that_returns_an_array_without_a_length_is_refused():
    with pytest.raises(ConfigError, match="failed with TypeError on 5 characters"):
        counter_for(lambda text: np.array(5)).count("a b c")
