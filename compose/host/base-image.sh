#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Debian base image without a registry: base-image.sh TAG [ARCHITECTURE]. Needs root on Debian or Ubuntu; for another
# architecture than this machine's also qemu-user-static. The engine that gets it may be on another machine.
set -euo pipefail
tag=$1
architecture=${2:-$(dpkg --print-architecture 2>/dev/null || true)}
suite=trixie

refuse() { printf 'base-image: %s\n' "$*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || refuse "no registry answers, and building a base image from Debian packages needs root"
command -v apt-get >/dev/null || refuse "no registry answers, and this host has no Debian packages to build a base image from"
command -v mmdebstrap >/dev/null || { apt-get update -qq; apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null; }

# What tells mmdebstrap that this machine can run, or emulate, the other architecture.
[ "$architecture" = "$(dpkg --print-architecture)" ] || command -v arch-test >/dev/null ||
  apt-get install -y -qq --no-install-recommends arch-test qemu-user-static binfmt-support >/dev/null

mirror=$(bash "$(dirname "$0")/debian-mirror.sh" || true)
[ -n "$mirror" ] || refuse "no Debian mirror in this host's apt sources"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --architectures="$architecture" --variant=minbase --include=ca-certificates "$suite" "$work/base.tar" "$mirror"
docker import --platform "linux/$architecture" "$work/base.tar" "$tag" >/dev/null
