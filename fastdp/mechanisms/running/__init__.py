"""Sums over time and over intervals: many answers at one privacy cost."""
