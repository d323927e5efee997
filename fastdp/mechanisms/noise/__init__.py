"""Noise for numbers: on integers, on a grid of reals, and in shares that add up."""
