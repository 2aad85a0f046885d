# SPDX-License-Identifier: Apache-2.0
"""Clean and persistent sessions over the death of the broker."""

from experiments.families import Study
from experiments.families.control.scenarios import RECOVERY
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "sessions",
    Study(
        "Does a persistent session shorten the recovery from a broker that is killed?",
        ("1",),
        {session: {"SESSION": session} for session in ("clean", "persistent")},
        common={"INTERVALS": "20", "QOS": "0,1,2", "MESSAGES": "450", "FAULT": "broker:kill"},
        headline=(RECOVERY, "lost.share_percent"),
    ),
)
