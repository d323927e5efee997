"""diffprivlib: its mechanisms over our noise. docs/howto/diffprivlib.md."""

from fastdp.adapters.diffprivlib import mechanisms as mechanisms

__all__ = ["mechanisms"]
