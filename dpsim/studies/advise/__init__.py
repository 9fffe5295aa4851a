"""What to change in a program whose step was traced: its buckets, or how it shards."""

from dpsim.studies.advise.advice import Advice, advise

__all__ = ["Advice", "advise"]
