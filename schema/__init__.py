# SPDX-License-Identifier: Apache-2.0
"""What `experiments` and `analysis` agree on, owned by neither: bounds of values, the bundle's form, how text is shown.

A bundle is data from a stranger: everything that is taken from one goes through `schema.reading` first.
"""
