"""fastdp: exact, cryptographically secure, timing-safe noise at hardware speed."""

__version__ = "0.1.0"
