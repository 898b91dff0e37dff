"""Understand: should the LLM be asked, what does it propose, which time does the query mean."""

from __future__ import annotations

from umi_common.query.rewriting.models import as_rewriter
from umi_common.query.rewriting.reply import parse_reply
from umi_common.query.rewriting.rewrite import Rewrites, Rewriting
from umi_common.query.routing import Decision, needs_deep_search, route

__all__ = ["Decision", "Rewrites", "Rewriting", "as_rewriter", "needs_deep_search", "parse_reply", "route"]
