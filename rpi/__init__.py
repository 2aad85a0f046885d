# SPDX-License-Identifier: Apache-2.0
"""The bridge on the Raspberry Pi: MQTT on one side, the board's serial port on the other."""
