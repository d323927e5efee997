"""Slow, exact samplers: the specification that the kernels are tested against."""
