"""Renyi curves of mechanisms, and readings of their sums."""
