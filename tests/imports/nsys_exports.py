"""A small SQLite export of Nsight Systems, as nsys writes it."""

import sqlite3

PROCESS = 4242
THREAD = PROCESS * 2**24 + 7

SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
    globalPid INTEGER, correlationId INTEGER, bytes INTEGER, copyKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT,
    textId INTEGER, globalTid INTEGER);
"""


class Export:
    """Writes an export; times in microseconds."""

    def __init__(self, path):
        self.path = path
        self.file = sqlite3.connect(path)
        self.file.executescript(SCHEMA)
        self.file.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3')")
        self.calls = 0

    def string(self, text):
        self.calls += 1
        self.file.execute("INSERT INTO StringIds VALUES (?, ?)", (self.calls, text))
        return self.calls

    def kernel(self, name, start, duration, launched, thread=THREAD, process=PROCESS):
        self.calls += 1
        call, named = self.calls, self.string(name)
        times = (round(1e3 * start), round(1e3 * (start + duration)))
        self.file.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?, ?)",
            (*times, call, process * 2**24, named, named),
        )
        at = round(1e3 * launched)
        self.file.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 0)",
            (at, at + 500, thread, call),
        )

    def copy(self, start, duration, kind):
        times = (round(1e3 * start), round(1e3 * (start + duration)))
        self.file.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, 0, 1000, ?)",
            (*times, PROCESS * 2**24, kind),
        )

    def range(self, name, start, duration, thread=THREAD, by_id=False):
        times = (round(1e3 * start), round(1e3 * (start + duration)))
        text = (None, self.string(name)) if by_id else (name, None)
        self.file.execute(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)", (*times, *text, thread)
        )

    def done(self):
        self.file.commit()
        self.file.close()
        return self.path


def as_nsys(export, trace):
    """The operators and kernels of a Kineto trace, as emit_nvtx and nsys write them."""
    operators = {}
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        thread = THREAD + (event.get("tid") or 0)
        if event.get("cat") == "cpu_op":
            name = event["name"]
            if "Sequence number" in args:
                name += f", seq = {args['Sequence number']}"
            name += f", op_id = {args['External id']}"
            if "Input Dims" in args:
                name += f", sizes = {args['Input Dims']}"
            export.range(name, event["ts"], event["dur"], thread)
            operators[args["External id"]] = (event["ts"] + 0.5, thread)
        elif event.get("cat") == "user_annotation":
            export.range(event["name"], event["ts"], event["dur"], THREAD + 1)
        elif event.get("cat") == "kernel":
            launched, thread = operators[args["External id"]]
            export.kernel(event["name"], event["ts"], event["dur"], launched, thread)
    return export
