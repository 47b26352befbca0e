#!/usr/bin/env bash
# Installs the Debian packages that Reprise needs and that are missing. Says nothing when there are none.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config libpcre2-dev      # the library
  libjpeg62-turbo-dev libpng-dev zlib1g-dev          # its images
  libcli11-dev libtomlplusplus-dev libfmt-dev        # the programs
  bible-kjv bible-kjv-text                           # the default corpus
  dataset-fashion-mnist                              # the default images
  libgtest-dev libbenchmark-dev python3              # tests and benchmarks
)
# Ranks that are processes, and on several machines; texts in normal form, NumPy's archives; a yardstick, a style check, shared objects, the reference, what gdb prints: it builds and
# the tests pass without.
extras=(libgloo-dev libssl-dev libutf8proc-dev libzip-dev libopenblas-dev clang-format ccache doxygen gdb)
packages+=("${extras[@]}")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not a Debian system; install what these Debian packages hold: ${packages[*]}" >&2
  exit 0  # configuring tells what is really missing
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    needed=$(comm -23 <(printf '%s\n' "${missing[@]}" | sort) <(printf '%s\n' "${extras[@]}" | sort))
    [[ -n $needed ]] || exit 0
    echo "setup: not root and there is no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq || true  # an old list may do; if not, installing says so
failed=()
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
    --no-install-recommends "$@" >/dev/null
}
if ! install "${missing[@]}"; then
  # One package that this release does not have must not keep the others out.
  for package in "${missing[@]}"; do
    install "$package" || failed+=("$package")
  done
fi
for package in "${failed[@]}"; do
  [[ " ${extras[*]} " == *" $package "* ]] || {
    echo "setup: could not install $package" >&2
    exit 1
  }
  echo "setup: going on without $package" >&2
done
