"""diffprivlib: its mechanisms with our noise. See docs/howto/diffprivlib.md."""

from fastdp.adapters.diffprivlib import mechanisms as mechanisms

__all__ = ["mechanisms"]
