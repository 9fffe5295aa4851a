"""One ring all-reduce by dpsim's flows and by other simulators, and the ratio of run times."""
