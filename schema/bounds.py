# SPDX-License-Identifier: Apache-2.0
"""What a value may be: the same on the command line and in a bundle. A range is (least, most), both allowed."""

Range = tuple[int, int]

INTERVAL_MS: Range = (1, 60_000)
QOS: Range = (0, 2)
MESSAGES: Range = (1, 1_000_000)
REPETITIONS: Range = (1, 10_000)
WARMUP: Range = (0, 10_000)
TIMEOUT_MS: Range = (1, 60_000)
DEADLINE_MS: Range = (1, 60_000)
FAULT_AT_MS: Range = (1, 86_400_000)
SEED: Range = (0, 2**32 - 1)

COUNT: Range = (0, 2**40)
"""Of cycles, repetitions, bytes and other things that are counted, not chosen."""

NANOSECONDS: Range = (0, 2**63 - 1)
"""Of a clock."""

CELLS: Range = (0, 1000)
PLANNED: Range = (0, 1_000_000)
"""Repetitions of all cells together."""

SESSIONS = ("clean", "persistent")
PLACEMENTS = ("docker", "host")
STATUSES = ("complete", "partial", "refused")
VALIDITIES = ("valid", "noisy", "refused", "interrupted")

NAME = r"[A-Za-z0-9][A-Za-z0-9 ._+:@-]{0,79}"
"""Of runs, scenarios, services and knobs: what is safe in a file's name, too."""

COLUMN = r"[a-z][a-z0-9_]{0,39}"
"""Of axes and of columns of samples."""
SYMBOL = r"[A-Za-z][A-Za-z0-9_]{0,19}"
"""Of metrics."""
SAMPLE_COLUMNS = (
    "scenario", "arm", "repetition", "sequence", "warmup", "intended_ns", "sent_ns", "received_ns", "status", "cause",
)  # fmt: skip
"""What samples of every family have, beside its axes and the columns of its metrics."""
DERIVED_COLUMNS = ("at_ns", "cell", "holds", "late_us")
DERIVED_METRICS = ("lost", "missed", "recovery")
"""What `analysis` derives from any family's samples: no axis or metric of its own has such a name."""

IMAGE_ID = r"sha256:[0-9a-f]{64}"
LINE_LENGTH = 4096
TEXT_LENGTH = 100_000
DEPTH = 32
"""Of objects and lists inside each other, in all of bundle.json."""

DOCUMENT_BYTES = 128 << 20
SAMPLES = 50_000_000
"""Rows of a table: more than any run of a day gives."""
