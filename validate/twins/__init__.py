"""The catalogue's models in torch, to be run for real; sizes are the catalogue's own.

Depends on the workload's models, and needs torch.
"""

from validate.twins.subject import Subject, draw, factory_subject, subject_of
from validate.twins.timed import timed_subject

__all__ = ["Subject", "draw", "factory_subject", "subject_of", "timed_subject"]
