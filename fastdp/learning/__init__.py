"""Private models by scikit-learn's conventions, from exact sums and exact noise.

An estimator needs public bounds, the unit with its neighboring relation, and a budget;
none of them has a default. Its `event()` is known before `fit`. Records reach a model
only through exact sums, counts and votes: no float is summed before the noise, so
privacy does not depend on a solver's rounding errors. scikit-learn is not needed. See
docs/learning.md.
"""

from fastdp import _public
from fastdp.learning._kmeans import KMeans
from fastdp.learning._linear import LinearRegression
from fastdp.learning._logistic import LogisticRegression
from fastdp.learning._mwem import MWEM
from fastdp.learning._pate import PATE
from fastdp.learning._pca import PCA

__all__ = ["MWEM", "PATE", "PCA", "KMeans", "LinearRegression", "LogisticRegression"]

_public.show(globals())
