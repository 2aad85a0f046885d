# SPDX-License-Identifier: Apache-2.0
"""What is judged of the control loop alone."""
