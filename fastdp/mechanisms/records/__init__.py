"""Sums, means and groups of records, with a limit on each user's contribution."""
