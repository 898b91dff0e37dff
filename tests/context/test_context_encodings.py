"""Encodings without a network: files on this machine, or an estimate that says so. Nothing waits, nothing leaks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import warnings

import pytest
from context_toys import hits

from umi_common.context.assemble import assemble
from umi_common.context.budget import TokenBudget
from umi_common.context.tokens import encodings
from umi_common.context.tokens.counter import counter_for

ENGLISH = "Mira's cousin started in accounting at Acme; she might help with 3 mortgage papers before 12,500 is due."
URL = encodings.URL.format(name="cl100k_base")


@pytest.fixture
def encoding():
    if counter_for("cl100k_base").approximate:
        pytest.skip("no file of cl100k_base on this machine")
    return encodings.load_encoding("cl100k_base", encodings.encoding_folders())


@pytest.fixture
def no_files(monkeypatch, tmp_path):
    """A machine without any encoding file, without LlamaIndex and without a network."""

    def blocked(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "llama_index", None)
    monkeypatch.setattr(socket, "socket", blocked)
    monkeypatch.setattr(socket, "create_connection", blocked)


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
        with pytest.warns(UserWarning, match="does not have the published content"):
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
    def test_a_damaged_file_is_neither_used_nor_deleted(self, no_files, tmp_path):
        damaged = tmp_path / "empty" / encodings.cache_key(URL)
        damaged.parent.mkdir()
        damaged.write_bytes(b"damaged")
        with pytest.warns(UserWarning, match="no file of tiktoken's cl100k_base"):
            assert counter_for("cl100k_base").approximate
        assert damaged.read_bytes() == b"damaged"

    def test_a_copy_in_tiktokens_cache_folder_is_found(self, encoding, tmp_path, monkeypatch):
        sources = [folder / encodings.cache_key(URL) for folder in encodings.encoding_folders()]
        shutil.copy(next(path for path in sources if path.exists()), tmp_path)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        monkeypatch.setitem(sys.modules, "llama_index", None)
        assert not counter_for("cl100k_base").approximate

    def test_an_encoding_made_from_another_one_is_found_through_it(self, encoding):
        import tiktoken

        if "o200k_harmony" not in tiktoken.list_encoding_names():
            pytest.skip("this tiktoken has no o200k_harmony")
        assert counter_for("o200k_harmony").count("hello world") == 2

    def test_tokens_are_those_of_tiktokens_own_encoding(self, encoding, monkeypatch):
        import tiktoken

        folder = next(path for path in encodings.encoding_folders() if (path / encodings.cache_key(URL)).exists())
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        own = tiktoken.get_encoding("cl100k_base")
        for text in (ENGLISH, "<|endoftext|> it's  1234567\r\n\n x", "Да, 今天天气很好。 👩\u200d👩 สวัสดี", "\t\ta  b "):
            assert encoding.encode_ordinary(text) == own.encode_ordinary(text)
