"""Bound a user's contributions: the number of keys and of records per key."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp import _validate
from fastdp import random as fdp_random
from fastdp._doorway import one_index
from fastdp._stream import Stream, check_stream
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._keys import codes, key_column

_Array = np.ndarray[Any, Any]


def bound_contributions(
    users: Any,
    keys: Any = None,
    *,
    keys_per_user: int | None = None,
    records_per_key: int | None = None,
    records_per_user: int | None = None,
    stream: Stream | None = None,
) -> _Array:
    """Return a mask of the records that are kept under limits for each user.

    A uniform subset of a user's distinct keys is kept, and a uniform subset of the
    records of each kept key, for every order and all values of the records.

    Parameters
    ----------
    users : column of integers or strings, shape (n,)
        User of each record: a list, ndarray, or pandas, polars or pyarrow column. A
        record without a user (None, NaN) is dropped.
    keys : column of integers or strings, shape (n,), optional
        The record's group. A record without a key is dropped.
    keys_per_user, records_per_key : int
        With keys: maximum number of keys per user, and of records per key.
    records_per_user : int
        Without keys: maximum number of records per user.
    stream : Stream, optional
        None draws a fresh key from the operating system; use
        `fastdp.testing.FixedStream` for repeatable tests.

    Returns
    -------
    ndarray of bool, shape (n,)
        Private, because it depends on the data. Pass `x[mask]` to later releases.

    Raises
    ------
    DTypeError, ParameterError
        A wrong dtype or shape, pandas columns with different indexes, or a missing
        bound. Never raised for a value.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    None by itself. For users added or removed (the neighboring relation), datasets
    that differ in one user become datasets that differ in at most `keys_per_user` keys
    with at most `records_per_key` records each: the kept records of a user depend only
    on that user's records and on fresh randomness. All later events then protect users.
    Exact. Timing class T0.

    References
    ----------
    Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson, "Differentially private
    SQL with bounded user contribution", PoPETs 2020. docs/proofs/keys.md.

    Examples
    --------
    >>> import fastdp
    >>> users = ["ann", "ann", "ann", "bob"]
    >>> mask = fastdp.bound_contributions(users, records_per_user=1)
    >>> int(mask[:3].sum()), bool(mask[3])
    (1, True)
    """
    check_stream(stream)
    one_index(users=users, keys=keys)
    owner, known = key_column("users", users)
    if keys is None:
        if keys_per_user is not None or records_per_key is not None:
            raise ParameterError("keys_per_user and records_per_key require keys")
        most = _validate.integer("records_per_user", records_per_user, 1)
        chosen = np.flatnonzero(known)
        group, _ = codes(owner[chosen])
        return _kept(len(owner), chosen[_least(group, most, stream)])
    if records_per_user is not None:
        raise ParameterError(
            "records_per_user must be left out with keys: use records_per_key"
        )
    most_keys = _validate.integer("keys_per_user", keys_per_user, 1)
    most = _validate.integer("records_per_key", records_per_key, 1)
    listed, present = key_column("keys", keys)
    if len(listed) != len(owner):
        raise ParameterError(
            f"keys must have shape ({len(owner)},), got {listed.shape}"
        )
    chosen = np.flatnonzero(known & present)
    user, _ = codes(owner[chosen])
    key, base = codes(listed[chosen])
    pair, place = _pairs(user, key, base)
    stays = np.zeros(len(pair), bool)
    stays[_least(pair // np.uint64(base), most_keys, stream)] = True
    chosen, place = chosen[stays[place]], place[stays[place]]
    return _kept(len(owner), chosen[_least(place.astype(np.uint64), most, stream)])


def _pairs(user: _Array, key: _Array, base: int) -> tuple[_Array, _Array]:
    """Return the distinct pairs as user * base + key, and each record's place."""
    if int(user.max(initial=0)) >= 2**63 // base:
        user, key = np.unique(user, return_inverse=True)[1].astype(np.uint64), key
    distinct, place = np.unique(user * np.uint64(base) + key, return_inverse=True)
    return distinct, place


def _least(group: _Array, most: int, stream: Stream | None) -> _Array:
    """Return the places of a uniform subset of at most `most` records of each group.

    The records are put in a uniformly random order; each group keeps its first records.
    """
    n = len(group)
    order = fdp_random.permutation(n, stream=stream)
    shift = np.uint64(max(n - 1, 1).bit_length())
    if int(group.max(initial=0)).bit_length() + int(shift) > 64:
        group = np.unique(group, return_inverse=True)[1].astype(np.uint64)
    # Sort by group and then by the random order, packed into one integer for speed.
    packed = np.sort((group[order] << shift) | np.arange(n, dtype=np.uint64))
    found = packed >> shift
    first = np.ones(n, bool)
    first[1:] = found[1:] != found[:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    stays = np.arange(n) - starts < most
    places = (packed[stays] & ((np.uint64(1) << shift) - np.uint64(1))).astype(np.int64)
    result: _Array = order[places]
    return result


def _kept(n: int, places: _Array) -> _Array:
    mask = np.zeros(n, bool)
    mask[places] = True
    return mask
