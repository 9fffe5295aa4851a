"""Puts this folder where tests in the folders below find what they share: ``gone``."""
