#!/usr/bin/env bash
# Builds the tests, the benchmarks and the programs for one GPU architecture, on a machine that needs no GPU, and packs what a
# machine with one needs to run them into .offline/gpu_build.tar.xz: stripped programs, the shared libraries they were linked
# to and ctest's lists. tools/gpu_report.sh takes them from there instead of building.
#
#   tools/pack_gpu_build.sh [ARCHITECTURE]     90a, of Hopper, if none is given
#   tools/gpu_report.sh                        on the machine with the GPU, with the tree and .offline copied along
#
# Tests find their files by the path of the tree, so it has to lie, or be linked, at the same path there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}

build=build/gpu_build
packed=build/gpu_packed
offline=${REPRISE_OFFLINE:-.offline}
programs=(kernels_tests core_tests autograd_tests ops_tests nn_tests distributed_tests train_tests cuda_bench gpt_bench
          vision_bench reprise-gpt reprise-vit reprise-recompute)
cmake --preset cuda -B "$build" -DREPRISE_CUDA_ARCHITECTURES="${1:-90a}"
cmake --build "$build" --target "${programs[@]}"

rm -rf "$packed"
mkdir -p "$packed/lib"
(cd "$build" && find . -name CTestTestfile.cmake -o -path './tests/*_tests.cmake*' ! -name '*.json') |
  tar -C "$build" -cf - -T - | tar -C "$packed" -xf -
mkdir "$packed/bin"
for program in "${programs[@]}"; do
  strip -o "$packed/bin/$program" "$build/bin/$program"
done
# All that the loader finds, but for what belongs to the C library, the compiler and the driver.
ldd "$packed"/bin/* | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -Ev '/(libc|libm|libdl|libpthread|librt|libstdc[+][+]|libgcc_s|libcuda|ld-linux.*)\.so' | xargs -I{} cp -L {} "$packed/lib/"
git describe --always --dirty > "$packed/commit"
mkdir -p "$offline"
tar -C "$packed" -cf - . | xz --lzma2=preset=2,dict=256MiB > "$offline/gpu_build.tar.xz"
rm -rf "$packed"
echo "packed $(du -h "$offline/gpu_build.tar.xz" | cut -f1) into $offline/gpu_build.tar.xz"
