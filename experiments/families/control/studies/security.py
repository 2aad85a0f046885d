# SPDX-License-Identifier: Apache-2.0
"""What a password and TLS cost."""

from experiments.families import Study
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "security",
    Study(
        "What do a password and TLS cost the loop?",
        ("1",),
        {security: {"SECURITY": security} for security in ("none", "password", "tls")},
        common={"INTERVALS": "20"},
        headline=("O.p50",),
    ),
)
