"""How workers train together: what meets, when, beside what, and how it is packed.

Depends on workload and network, not on scenarios.
"""

from dpsim.strategy.combinations import RULES, Rule, refusal, rule_against
from dpsim.strategy.config import StrategyConfig

__all__ = [
    "RULES",
    "Rule",
    "StrategyConfig",
    "refusal",
    "rule_against",
]
