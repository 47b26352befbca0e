#!/usr/bin/env bash
# Packs what Reprise builds with, beyond CUDA, CMake, Ninja, g++ and Python, into one folder (default: .offline), for
# a machine that reaches no package registry. tools/gpu_report.sh looks there.
#
#   tools/pack_offline_deps.sh [FOLDER]     on a Debian machine with a network
#   tools/gpu_report.sh                     on the other one, with the folder copied along
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${1:-.offline}
packages=(
  libgtest-dev
  libpcre2-dev libpcre2-8-0 libpcre2-posix3 libpcre2-16-0 libpcre2-32-0
  libjpeg62-turbo-dev libjpeg62-turbo libpng-dev libpng16-16 zlib1g-dev zlib1g
  libgmock-dev libcli11-dev libtomlplusplus-dev libtomlplusplus3 libfmt-dev libfmt9 libbenchmark-dev libbenchmark1debian
  pkgconf-bin libpkgconf3
)

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "pack_offline_deps: needs Debian's apt-get and dpkg-deb" >&2
  exit 1
}
rm -rf "$folder"
mkdir -p "$folder/packages"
(cd "$folder/packages" && apt-get download -qq "${packages[@]}")
for package in "$folder"/packages/*.deb; do
  dpkg-deb -x "$package" "$folder"
done
# What building does not need.
rm -rf "$folder/packages" "$folder/usr/share/doc" "$folder/usr/share/man" "$folder/usr/src"
# Links to absolute paths would not survive the copy.
find "$folder" -type l -lname '/*' -delete
echo "packed $(du -sh "$folder" | cut -f1) into $folder"
