#!/usr/bin/env bash
# Makes the virtual environment of the peers that Reprise is compared with: PyTorch from PyPI (CPU use only), NumPy,
# safetensors, for vision Pillow, torchvision and timm, and transformers, in ${REPRISE_PEERS:-$HOME/.cache/reprise-peers}.
# Running it again is harmless. Every wheel is named by version and hash in tools/peers.txt, tools/peers_vision.txt,
# tools/peers_transformers.txt and tools/peers_full.txt: pip refuses any other.
#
# PyPI's torch wheel is linked to CUDA libraries of several gigabytes that a CPU never calls, but does not load without
# them. So torch goes in without its dependencies; three small NVIDIA packages that run code while loading are real;
# the rest become empty libraries that only offer the symbols torch names. Pass --full for the real ones (about 3 GB).
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=${REPRISE_PEERS:-$HOME/.cache/reprise-peers}
base_python=${REPRISE_BASE_PYTHON:-/usr/bin/python3}
[ -x "$base_python" ] || base_python=python3
python=$peers/bin/python

works() {
  "$python" -c 'import numpy, PIL, safetensors.torch, torch; torch.ones(2) + 1; import timm, torchvision, transformers' 2>/dev/null
}

# The strong symbols that torch's libraries take from version $2 of some library, "none" for those without a version
# that neither they nor the real packages define.
wanted() {
  if [ "$2" = none ]; then
    nm -D --defined-only "$1"/libtorch*.so "$1"/libc10*.so "$1"/../../nvidia/*/lib/*.so* |
      awk 'NF == 3 {split($3, s, "@"); print s[1]}' | sort -u > "$work/defined"
    nm -D --undefined-only "$1"/libtorch*.so | awk '$1 == "U" && $2 !~ /@/ {print $2}' | sort -u |
      comm -23 - "$work/defined"
  else
    nm -D --undefined-only "$1"/libtorch*.so |
      awk -v v="$2" '$1 == "U" {split($2, s, "@+"); if (s[2] == v) print s[1]}' | sort -u
  fi
}

# Every library that torch's libraries need and no package has, as an empty one with the symbols torch looks up in it.
write_stubs() {
  local lib=$1 name version paths
  work=$(mktemp -d)
  paths=$(echo "$lib"/../../nvidia/*/lib | tr ' ' ':')
  # LD_LIBRARY_PATH stands in for RPATHs: ldd on one library does not see those of its loader.
  for name in $(LD_LIBRARY_PATH=$lib:$paths ldd "$lib"/*.so* 2>/dev/null |
    awk '/not found/ && $1 !~ /libcuda\.so/ {print $1}' | sort -u); do
    version=$(objdump -p "$lib"/libtorch*.so | awk -v n="$name:" 'hit == 1 {print $4; hit = 2} $NF == n {hit += !hit}')
    wanted "$lib" "${version:-none}" | sed 's/.*/long &[8];/' > "$work/stub.c"
    echo "${version:-$name} { *; };" > "$work/stub.map"
    local flags=("-Wl,-soname,$name")
    [ -z "$version" ] || flags+=("-Wl,--version-script,$work/stub.map")
    "${CC:-cc}" -shared -fPIC -fno-builtin -w "$work/stub.c" "${flags[@]}" -o "$lib/$name"
  done
  rm -rf "$work"
}

if [ -x "$python" ] && works; then
  echo "peers: $("$python" -c 'import torch; print("PyTorch", torch.__version__)') in $peers"
  exit 0
fi
"$base_python" -m venv "$peers" || { echo "peers: a virtual environment needs Debian's python3-venv" >&2; exit 1; }
echo "peers: installing PyTorch in $peers"
pip=("$python" -m pip install -q --no-deps --only-binary :all: --require-hashes)
lists=(-r "$tools/peers.txt" -r "$tools/peers_vision.txt" -r "$tools/peers_transformers.txt")
if [ "${1:-}" = --full ]; then
  "${pip[@]}" "${lists[@]}" -r "$tools/peers_full.txt"
else
  "${pip[@]}" "${lists[@]}"
  works || write_stubs "$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/torch/lib"
fi
works || { echo "peers: PyTorch in $peers does not import; try: $0 --full" >&2; exit 1; }
echo "peers: $("$python" -c 'import torch; print("PyTorch", torch.__version__)') in $peers"
