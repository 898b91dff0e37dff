"""tiktoken counts where its cache has the file; else the embedded tokenizer. Nothing waits, nothing leaks."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings

import pytest
from context_toys import CL100K_FOLDER, hits

from umi_common.context.assemble import assemble
from umi_common.context.budget import TokenBudget
from umi_common.context.tokens import encodings
from umi_common.context.tokens.counter import counter_for
from umi_common.errors import MissingExtra

KEY = encodings.cache_key(encodings.URL.format(name="cl100k_base"))
needs_file = pytest.mark.skipif(not (CL100K_FOLDER / KEY).exists(), reason="llama-index-core ships no cl100k_base here")


@pytest.fixture
def no_files(monkeypatch, tmp_path):
    """A machine whose tiktoken has no file, and without a network."""

    def blocked(*args, **kwargs):
        raise OSError("the network was asked")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(socket, "getaddrinfo", blocked)
    monkeypatch.setattr(socket, "create_connection", blocked)


class TestOffline:
    def test_no_warning_greets_a_newcomer_whose_tokens_are_counted_by_the_embedded_tokenizer(self, no_files):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stats = assemble(hits("alpha beta", "gamma"), budget=TokenBudget()).stats
        assert stats.approximate
        assert stats.counter == "embedded tokenizer for cl100k_base"

    def test_who_names_a_model_is_told_once_that_another_tokenizer_counts(self, no_files):
        with pytest.warns(UserWarning, match=r"tiktoken's cache has no file of o200k_base; the embedded tokenizer"):
            counter = counter_for("gpt-4o")
        assert counter.approximate
        assert counter.name == "embedded tokenizer for o200k_base"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            counter_for("gpt-4o")

    def test_a_refused_download_is_told_and_the_embedded_tokenizer_counts(self, no_files):
        with pytest.warns(UserWarning, match="the download failed with ConnectionError"):
            assert counter_for("p50k_base", allow_download=True).approximate

    def test_a_download_that_hangs_is_left_after_its_time(self, no_files, monkeypatch):
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: time.sleep(1) or [])
        with pytest.warns(UserWarning, match=r"the download took longer than 0.2 s"):
            assert counter_for("r50k_base", allow_download=True, timeout_seconds=0.2).approximate

    def test_without_tiktoken_a_named_model_is_refused_with_the_pip_line_and_the_default_counts(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "tiktoken", None)
        with pytest.raises(MissingExtra, match=r"pip install 'umi-retrieval\[tiktoken\]'"):
            counter_for("gpt-4o")
        assert counter_for().count("hello world") == 2

    def test_a_fresh_process_with_its_cache_elsewhere_opens_no_socket_and_keeps_its_environment(self, tmp_path):
        code = (
            "import socket, os, sys, warnings\n"
            "def no(*a, **k): raise SystemExit('network')\n"
            "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
            "warnings.simplefilter('error')\n"
            "before = dict(os.environ)\n"
            "from umi_common.context.tokens.counter import counter_for\n"
            "assert counter_for().count('hello world') == 2\n"
            "assert dict(os.environ) == before\n"
            "assert not {'llama_index', 'tiktoken'} & set(sys.modules)\n"
        )
        env = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path / "empty")}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "empty").exists()


class TestFiles:
    def test_a_damaged_file_is_neither_used_nor_deleted(self, no_files, tmp_path):
        damaged = tmp_path / "empty" / KEY
        damaged.parent.mkdir()
        damaged.write_bytes(b"damaged")
        assert counter_for().approximate
        assert damaged.read_bytes() == b"damaged"

    def test_without_a_folder_for_temporary_files_tokens_are_estimated(self, no_files, monkeypatch):
        def gettempdir() -> str:  # as in a container with a read-only file system
            raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

        for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
        assert counter_for().approximate

    @needs_file
    def test_a_file_in_tiktokens_cache_folder_is_used_through_tiktoken(self, monkeypatch):
        import tiktoken

        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(CL100K_FOLDER))
        counter = counter_for("gpt-4")
        assert (counter.name, counter.approximate) == ("tiktoken:cl100k_base", False)
        own = tiktoken.get_encoding("cl100k_base")
        for text in ("<|endoftext|> it's  1234567\r\n\n x", "Да, 今天天气很好。 👩\u200d👩 สวัสดี", "\t\ta  b "):
            assert counter.count(text) == len(own.encode_ordinary(text))

    @needs_file
    def test_an_encoding_made_from_another_one_is_found_through_it(self, monkeypatch):
        import tiktoken

        if "o200k_harmony" not in tiktoken.list_encoding_names():
            pytest.skip("an older tiktoken")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(CL100K_FOLDER))
        assert counter_for("o200k_harmony").count("hello world") == 2
