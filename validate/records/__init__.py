"""What ranks measured and dpsim predicted, case by case, in files."""

from validate.records.run_record import (
    RunRecord,
    RunRecords,
    load_run_records,
    records_of,
    save_run_records,
)

__all__ = [
    "RunRecord",
    "RunRecords",
    "load_run_records",
    "records_of",
    "save_run_records",
]
