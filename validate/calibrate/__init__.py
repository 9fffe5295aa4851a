"""Fits a transport and a machine's layer times on measurements, and states the errors.

Some of the measured collectives are fitted on, the others are held out. `measurement` needs torch
and the testbed; all else reads records.
"""

__all__: list[str] = []
