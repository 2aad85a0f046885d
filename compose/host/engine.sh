#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make engine: a current Docker Engine with Compose v2 and Buildx on Debian and Ubuntu, running.
# Asks nothing, changes nothing when all three already answer, and says what to do where it cannot help.
set -euo pipefail

say() { printf 'engine: %s\n' "$*"; }
refuse() { printf 'engine: %s\n' "$*" >&2; exit 2; }

answers() { docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1; }

report() {
  say "Docker Engine $(docker version --format '{{.Server.Version}}'), Compose $(docker compose version --short)," \
    "Buildx $(docker buildx version | cut -d' ' -f2) answer"
}

# Debian 12 has no Compose v2. Debian 13's packages run on its libc: take just these from there,
# pinned below everything else so that nothing of the host moves to the next release.
add_trixie() {
  local mirror
  mirror=$(bash "$(dirname "$0")/debian-mirror.sh" || true)
  [ -n "$mirror" ] || refuse "no Debian mirror in this host's apt sources; add one, or install Docker Engine by hand"
  printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$mirror" >/etc/apt/sources.list.d/testbed-trixie.sources
  printf 'Package: *\nPin: release n=trixie\nPin-Priority: 90\n' >/etc/apt/preferences.d/testbed-trixie
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  local packages=(docker.io docker-cli docker-buildx docker-compose iptables)
  case "$ID:${VERSION_ID%%.*}" in
    # NAME/trixie takes these four (and containerd, which they ask for) from there; -t trixie would move libc and dpkg.
    debian:12) add_trixie; packages=("${packages[@]/%//trixie}"); packages[-1]=iptables ;;
    debian:*) ;;
    ubuntu:*) packages=(docker.io docker-buildx docker-compose-v2) ;;
  esac
  say "installing ${packages[*]} on $PRETTY_NAME"
  apt-get update -qq
  # --force-confdef: a question from dpkg would hang a run without a terminal.
  apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Use-Pty=0 \
    "${packages[@]}" >/dev/null
}

start_daemon() {
  if [ -d /run/systemd/system ]; then
    systemctl enable --now docker >/dev/null 2>&1
  else
    # No init system: the daemon is ours to start, detached from this shell.
    setsid dockerd >>/var/log/dockerd.log 2>&1 </dev/null &
  fi
  for _ in $(seq 150); do
    # A distribution's client may be hidden behind an older one on PATH: forget what bash remembers.
    hash -r
    answers && return
    sleep 0.2
  done
  refuse "dockerd does not answer after 30 s; see /var/log/dockerd.log or: journalctl -u docker"
}

if answers; then report; exit 0; fi
if docker version 2>&1 >/dev/null | grep -qi 'permission denied while trying to connect'; then
  refuse "the engine is there but you may not use it: join group docker (sudo usermod -aG docker \$USER, then log in again)"
fi
[ "$(uname -s)" = Linux ] || refuse "this is $(uname -s): install Docker Desktop, start it, then: make doctor"
# shellcheck source=/dev/null
. /etc/os-release
case "$ID" in
  debian | ubuntu) ;;
  *) refuse "$PRETTY_NAME is not Debian or Ubuntu: install Docker Engine with the Compose and Buildx plugins by its own packages, then: make doctor" ;;
esac
[ "$(id -u)" = 0 ] || refuse "installing or starting the engine needs root: sudo make engine (or ask to be put in the group docker)"

command -v dockerd >/dev/null && docker compose version >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1 || install_packages
start_daemon
report
