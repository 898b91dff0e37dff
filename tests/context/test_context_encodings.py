"""Encodings without a network: files on this machine, or an estimate that says so. Nothing waits, nothing leaks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from context_toys import hits

from umi_common.context.assemble import assemble
from umi_common.context.budget import TokenBudget
from umi_common.context.tokens import counter as tokens
from umi_common.context.tokens import encodings
from umi_common.context.tokens.counter import counter_for

NOWHERE = (Path("/nonexistent-folder"),)
ENGLISH = "Mira's cousin started in accounting at Acme; she might help with 3 mortgage papers before 12,500 is due."


@pytest.fixture
def encoding():
    if counter_for("cl100k_base").approximate:
        pytest.skip("no file of cl100k_base on this machine")
    return encodings.load_encoding("cl100k_base")


@pytest.fixture
def no_files(monkeypatch):
    """A machine without any encoding file and without a network."""

    def blocked(*args, **kwargs):
        raise AssertionError("the network was asked")

    from tiktoken import registry

    monkeypatch.setattr(encodings, "_places", lambda: NOWHERE)
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setattr(socket, "socket", blocked)
    monkeypatch.setattr(socket, "create_connection", blocked)
    monkeypatch.setattr(tokens, "_warned", set())
    tokens._exact.cache_clear()
    yield
    tokens._exact.cache_clear()


class TestOffline:
    def test_without_files_and_network_it_estimates_and_says_so_once(self, no_files):
        with pytest.warns(UserWarning, match="estimated, not counted"):
            counter = counter_for("gpt-4o")
        assert counter.approximate
        assert counter.name == "approximation of gpt-4o"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            counter_for("gpt-4o")

    def test_a_context_says_that_its_tokens_are_estimates(self, no_files):
        with pytest.warns(UserWarning):
            stats = assemble(hits("alpha beta", "gamma"), budget=TokenBudget()).stats
        assert stats.approximate
        assert stats.counter == "approximation of cl100k_base"

    def test_a_refused_download_ends_in_an_estimate(self, no_files, monkeypatch):
        def refused(url, timeout):
            assert timeout == 0.5
            raise TimeoutError

        monkeypatch.setattr("urllib.request.urlopen", refused)
        with pytest.warns(UserWarning, match="download failed with TimeoutError"):
            assert counter_for("cl100k_base", allow_download=True, timeout_seconds=0.5).approximate

    def test_a_download_with_other_content_is_not_used(self, no_files, monkeypatch):
        class Reply:
            blocks = [b"not an encoding", b""]  # noqa: RUF012

            def __enter__(self):
                return self

            def __exit__(self, *exc_info):
                pass

            def read(self, size):
                return self.blocks.pop(0)

        monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Reply())
        with pytest.warns(UserWarning, match="does not have the content"):
            assert counter_for("cl100k_base", allow_download=True).approximate

    def test_a_fresh_process_with_its_cache_elsewhere_opens_no_socket_and_keeps_its_environment(self, tmp_path):
        code = (
            "import socket, os, sys, warnings\n"
            "def no(*a, **k): raise SystemExit('network')\n"
            "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
            "warnings.simplefilter('ignore')\n"
            "before = dict(os.environ)\n"
            "from umi_common.context.tokens.counter import counter_for\n"
            "c = counter_for('o200k_base'); assert c.count('hello world') == 2, c\n"
            "assert dict(os.environ) == before\n"
            "assert 'llama_index' not in sys.modules\n"
            "print(c.name)"
        )
        env = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path / "empty")}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() in ("tiktoken:o200k_base", "approximation of o200k_base")
        assert not (tmp_path / "empty").exists()


class TestFiles:
    def test_a_damaged_file_is_neither_used_nor_deleted(self, encoding, tmp_path, monkeypatch):
        url = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
        damaged = tmp_path / encodings.cache_key(url)
        damaged.write_bytes(b"damaged")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(encodings, "_bundled", lambda: iter(()))
        from tiktoken import registry

        monkeypatch.setattr(registry, "ENCODINGS", {})
        with pytest.raises(encodings.EncodingUnavailable):
            encodings.load_encoding("cl100k_base")
        assert damaged.read_bytes() == b"damaged"

    def test_a_copy_in_tiktokens_cache_folder_is_found(self, encoding, tmp_path, monkeypatch):
        bundle = next(iter(encodings._bundled()), None)
        if bundle is None or not bundle.is_dir():
            pytest.skip("llama-index-core, whose copies this test needs, is not installed")
        shutil.copytree(bundle, tmp_path / "cache")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setattr(encodings, "_bundled", lambda: iter(()))
        found = encodings._built("o200k_base", encodings._places(), None)
        assert len(found.encode_ordinary("hello world")) == 2

    def test_an_encoding_made_from_another_one_is_found_through_it(self, encoding):
        import tiktoken

        if "o200k_harmony" not in tiktoken.list_encoding_names():
            pytest.skip("this tiktoken has no o200k_harmony")
        assert counter_for("o200k_harmony").count("hello world") == 2

    def test_tiktoken_itself_is_left_as_it_was(self, encoding):
        from tiktoken import load
        from tiktoken_ext import openai_public

        encodings._built.cache_clear()
        before = {**vars(load)}, {**vars(openai_public)}
        encodings._built("cl100k_base", encodings._places(), None)
        assert ({**vars(load)}, {**vars(openai_public)}) == before

    def test_what_is_built_is_tiktokens_own_encoding(self, encoding):
        import tiktoken

        assert encoding.name == "cl100k_base"
        assert encoding.encode("<|endoftext|>", allowed_special="all") == [100257]
        assert isinstance(encoding, tiktoken.Encoding)
        assert encoding.decode(encoding.encode_ordinary(ENGLISH)) == ENGLISH
