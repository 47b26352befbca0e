#!/usr/bin/env bash
# One command for a machine with a GPU and no package registry: builds Reprise for that GPU, runs every test on it,
# compares recompute bit by bit, runs compute-sanitizer, measures kernels and training steps against PyTorch, and writes
# build/gpu/report.md and report.json. What it needs beyond CUDA, CMake, Ninja, g++ and Python with PyTorch comes from the
# folder .offline where that is: libraries to build with (tools/pack_offline_deps.sh), or what was built elsewhere
# (tools/pack_gpu_build.sh), which leaves CUDA's libraries, CMake and PyTorch to be there.
#
#   tools/gpu_report.sh [--rehearse] [PART...]     parts: configure build tests recompute kernels train vision profile
#                                                  sanitizer
#
# Each part has its time box; what a part has found is kept, and a part that is done is not run
# again (--again runs it again). --rehearse runs all that can run without a GPU: in the emulator, with tiny sizes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

offline=${REPRISE_OFFLINE:-$PWD/.offline}
if [[ -d $offline ]]; then
  libraries=$offline/usr/lib/x86_64-linux-gnu
  export PATH=$PATH:$offline/usr/bin
  export LD_LIBRARY_PATH=$libraries:$offline/lib/x86_64-linux-gnu:$PWD/build/gpu_build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export CMAKE_PREFIX_PATH=$offline/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export PKG_CONFIG=${PKG_CONFIG:-$(command -v pkg-config || command -v pkgconf)}
  export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$offline/usr/share/pkgconfig
  export PKG_CONFIG_SYSROOT_DIR=$offline
fi
# NVIDIA's libraries as Python packages, where the system has none.
for folder in $("${REPRISE_PYTHON:-python3}" -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null); do
  for library in "$folder"/*/lib; do
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$library
  done
done
exec python3 tools/gpu_report.py "$@"
