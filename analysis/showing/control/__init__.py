# SPDX-License-Identifier: Apache-2.0
"""What is shown of the control loop alone: the published figures beside ours, its story, its path."""
