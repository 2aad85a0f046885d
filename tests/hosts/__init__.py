# SPDX-License-Identifier: Apache-2.0
"""`make host-test HOST=…`: a machine that is not this one, and the project in it as a stranger would run it."""
