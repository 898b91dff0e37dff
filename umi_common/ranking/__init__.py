"""Ranking: from raw scores to an order. Pure functions over arrays; no stage changes its input."""
