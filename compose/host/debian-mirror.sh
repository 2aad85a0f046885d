#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the host's own Debian mirror, from either format of apt sources; nothing where there is none. Never a name of ours.
sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+).*/\2/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -E '/debian/?$' | head -n 1
