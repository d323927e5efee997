"""The engine of `PLDAccountant`: laws of privacy losses, composed and bounded."""
