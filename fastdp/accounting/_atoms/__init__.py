"""Composition in positive numbers: laws of the privacy loss as lists of atoms."""
