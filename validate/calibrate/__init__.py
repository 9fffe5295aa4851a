"""Fits a transport and a machine's layer times on measurements, and states the errors.

Some of the measured collectives are fitted on, the others are held out. `measurement` needs torch
and the testbed; all else reads records and run files.
"""

__all__: list[str] = []
