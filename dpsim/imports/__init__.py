"""Read other tools' files as nodes, models, scenarios, calibration profiles and step times.

It knows hardware, workload, disturbance, collectives and scenarios, and takes every file to be
hostile.
"""

__all__: list[str] = []
