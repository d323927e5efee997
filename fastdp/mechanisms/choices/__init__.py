"""Choices among candidates, quantiles, and statistics of low sensitivity."""
