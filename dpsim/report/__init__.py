"""Results for people: tables for the terminal here; figures, pages and traces are in modules of their own, loaded when needed."""

from dpsim.report.batch_study import batch_study_notes, batch_study_table
from dpsim.report.catalogue import CATALOGUES
from dpsim.report.replay import fates_table, replay_notes, replay_table
from dpsim.report.tables import catalogue_table, collective_table, compare_table, run_notes, run_table
from dpsim.report.to_target import to_target_notes

__all__ = [
    "CATALOGUES",
    "batch_study_notes",
    "batch_study_table",
    "catalogue_table",
    "collective_table",
    "compare_table",
    "fates_table",
    "replay_notes",
    "replay_table",
    "run_notes",
    "run_table",
    "to_target_notes",
]
