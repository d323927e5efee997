"""Sums over time and over intervals, all for one price."""
