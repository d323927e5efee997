"""Lemmas of docs/proofs, each proved by a machine, and each shown to be able to fail.

`python -m tools.lemmas` proves all: statements about machine integers and floats by
an SMT solver (z3), about real functions by ball arithmetic (python-flint), about the
rounding errors of expressions by intervals (gappa, where it is installed).
"""
