# SPDX-License-Identifier: Apache-2.0
"""What runs in the client's container: the control loop, and what it shares with the Pi (wire format, connection)."""
