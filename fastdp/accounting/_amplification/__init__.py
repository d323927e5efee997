"""The numerics behind shuffled reports and noisy iterations."""
