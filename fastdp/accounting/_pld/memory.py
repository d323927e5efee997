"""How much memory one question may take, and the sizes that follow from it."""

from __future__ import annotations

#: Bytes that the accountant of privacy losses may hold at once.
CAP = 1 << 30


def numbers(arrays: int) -> int:
    """Return how many doubles each of so many arrays may have."""
    return CAP // (8 * arrays)
