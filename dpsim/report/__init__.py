"""Results for people: tables for the terminal."""

from dpsim.report.catalogue import CATALOGUES
from dpsim.report.tables import catalogue_table, collective_table, compare_table, run_notes, run_table

__all__ = ["CATALOGUES", "catalogue_table", "collective_table", "compare_table", "run_notes", "run_table"]
