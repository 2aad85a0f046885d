# SPDX-License-Identifier: Apache-2.0
"""What may be concluded: comparisons, verdicts, the answer, gates and warnings."""
