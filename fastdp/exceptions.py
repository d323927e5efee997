"""The error tree of fastdp; every error that the package raises is one of these.

Each class also derives from the closest built-in, so that callers who know
only Python's own errors still catch what they expect. Messages name the
argument, the rule and the public value; they never contain data.
"""

__all__ = [
    "BudgetExceededError",
    "CalibrationError",
    "CertificateError",
    "DTypeError",
    "EntropyError",
    "ExhaustedError",
    "FastDPError",
    "FileError",
    "InsecureStreamWarning",
    "LabelConflictError",
    "LabelUsedError",
    "LedgerError",
    "LedgerRolledBackError",
    "LedgerUnavailableError",
    "ParameterError",
    "UnitMismatchError",
    "UnsupportedEventError",
]


class FastDPError(Exception):
    """Base class of all errors raised by fastdp."""


class ParameterError(FastDPError, ValueError):
    """A public parameter has a value outside its domain."""


class UnitMismatchError(ParameterError):
    """The budget and the release have different privacy units; nothing was spent."""


class DTypeError(FastDPError, TypeError):
    """An argument has a type, dtype or layout that is not accepted."""


class EntropyError(FastDPError, OSError):
    """The operating system returned no randomness; nothing was released."""


class FileError(FastDPError, OSError):
    """A file, or another input or output, cannot be read or written."""


class ExhaustedError(FastDPError, MemoryError):
    """Memory or disk ran out; nothing was released."""


class CalibrationError(FastDPError, ArithmeticError):
    """No noise parameter in the supported range meets the target."""


class CertificateError(FastDPError, ArithmeticError):
    """Two proved bounds contradict each other: a mistake in fastdp, to be reported."""


class UnsupportedEventError(FastDPError, NotImplementedError):
    """No valid bound is known for this event under this notion of privacy."""


class BudgetExceededError(FastDPError, RuntimeError):
    """The privacy budget does not cover the request; nothing was released."""


class LedgerError(FastDPError, OSError):
    """The ledger is missing, damaged or cannot be reached; nothing was released."""


class LabelConflictError(LedgerError):
    """The label already belongs to another transaction; nothing was spent."""


class LabelUsedError(LedgerError):
    """The label was already spent, and the ledger does not have its answer."""


class LedgerRolledBackError(LedgerError):
    """The ledger lacks entries that a witness or a receipt proves."""


class LedgerUnavailableError(LedgerError):
    """The ledger is locked or cannot be reached now: retry with the same label."""


class InsecureStreamWarning(UserWarning):
    """Noise comes from a fixed stream: repeatable, and therefore not private."""
