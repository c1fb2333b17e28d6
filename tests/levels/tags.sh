#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two values of -march must give POSENC_INSTRUCTION_SETS the same value if and only if the compiler predefines the same
# instruction sets for both: tests/levels/tags.sh <compiler> <posenc's include directory>. Units are only preprocessed.
set -euo pipefail
export LC_ALL=C
compiler="$1"
include="$2"

# Processors and flags. Those that this compiler does not support are skipped.
x86=(x86-64 x86-64-v2 x86-64-v3 x86-64-v4 native nocona core2 penryn nehalem westmere sandybridge ivybridge haswell broadwell
  skylake skylake-avx512 cascadelake cannonlake cooperlake icelake-client icelake-server rocketlake tigerlake alderlake
  sapphirerapids graniterapids emeraldrapids sierraforest arrowlake lunarlake clearwaterforest diamondrapids knl knm bonnell
  silvermont goldmont goldmont-plus tremont k8 k8-sse3 amdfam10 btver1 btver2 bdver1 bdver2 bdver3 bdver4 znver1 znver2 znver3
  znver4 znver5)
x86_flags=(-msse3 -mssse3 -msse4.1 -msse4.2 -msse4a -mpopcnt -mlzcnt -mbmi -mbmi2 -mmovbe -mcx16 -msahf -mprfchw -madx -mrtm -maes
  -mpclmul -msha -mgfni -mavx -mavx2 -mf16c -mfma -mfma4 -mxop -mtbm -mvaes -mvpclmulqdq -mavxvnni -mavx512f -mavx512cd -mavx512bw
  -mavx512dq -mavx512vl -mavx512ifma -mavx512vbmi -mavx512vbmi2 -mavx512vnni -mavx512bitalg -mavx512vpopcntdq
  -mavx512vp2intersect -mavx512bf16 -mavx512fp16 -mamx-tile -mamx-int8 -mamx-bf16 -mfpmath=387)
arm=(armv8-a armv8.1-a armv8.2-a armv8.3-a armv8.4-a armv8.5-a armv8.6-a armv8.7-a armv9-a armv8-a+crc armv8-a+lse armv8-a+aes
  armv8-a+sha2 armv8.2-a+sha3 armv8.2-a+sm4 armv8.2-a+fp16 armv8.2-a+fp16fml armv8.2-a+dotprod armv8.2-a+bf16 armv8.2-a+i8mm
  armv8.2-a+sve armv8.2-a+sve+i8mm armv8.2-a+sve+f64mm armv8.2-a+sve+bf16 armv8.5-a+rng armv8.5-a+memtag armv8.5-a+sve2
  armv9-a+sve2-bitperm armv9-a+sve2-aes armv9-a+sve2-sha3 armv9-a+sve2-sm4 armv8.7-a+ls64)

predefined() { "$compiler" "$@" -E -dM -x c++ /dev/null 2>/dev/null; }

case "$("$compiler" -dumpmachine)" in
  x86_64*) flags=("${x86[@]/#/-march=}" "${x86_flags[@]}") ;;
  aarch64*) flags=("${arm[@]/#/-march=}" -msve-vector-bits=256) ;;
  *) echo "no list of flags for $("$compiler" -dumpmachine)"; exit 0 ;;
esac

# Macros that do not count: instructions that the compiler never emits by itself, consequences of
# other macros, names of processors, and values that depend on these.
left_out='__(tune_.*|.*_ATOMIC_.*|ABM|CLDEMOTE|CLFLUSHOPT|CLWB|CLZERO|ENQCMD|FSGSBASE|HRESET|INVPCID|KL|WIDEKL|LWP|MOVDIR64B|MOVDIRI'
left_out+='|MWAITX|PCONFIG|PKU|PTWRITE|RDPID|RDPRU|RDRND|RDSEED|SERIALIZE|SGX|SHSTK|TSXLDTRK|UINTR|USER_MSR|USERMSR|PREFETCHI|WAITPKG'
left_out+='|WBNOINVD|XSAVE|XSAVEC|XSAVEOPT|XSAVES|FP_FAST_FMA.*|FLT_EVAL_METHOD.*|FLT16_.*|SSE_MATH|HLE|ARM_NEON_SVE_BRIDGE'
left_out+='|ARM_FEATURE_SVE_VECTOR_OPERATORS|ARM_FEATURE_CRYPTO|ARM_BF16_FORMAT_ALTERNATIVE|ARM_FEATURE_QBIT)(__)?'

declare -A tag_of=() flag_of=() sets_of=()
tried=0
for flag in "${flags[@]}"; do
  macros="$(predefined "$flag")" || continue
  sets="$(sed -nE 's/^#define ([A-Za-z0-9_]+) (.*)$/\1=\2/p' <<<"$macros" | grep -vE "^$left_out=" |
    grep -E '^(__[A-Z0-9]|_ARCH|__3d)' | sort | tr '\n' ' ')"
  tag="$(printf '#include <posenc/core/detail/instruction_sets.hpp>\nname POSENC_INSTRUCTION_SETS\n' |
    "$compiler" "$flag" -std=c++20 -I "$include" -E -P -x c++ - 2>/dev/null | sed -n 's/^name //p')"
  [[ "$tag" =~ ^[a-z0-9_]+$ ]] || { echo "$flag gives the tag '$tag'"; exit 1; }
  tried=$((tried + 1))
  if [[ -v tag_of["$sets"] && "${tag_of["$sets"]}" != "$tag" ]]; then
    echo "$flag has the instruction sets of ${flag_of["$tag"]:-another} but the tag $tag, not ${tag_of["$sets"]}"; exit 1
  fi
  if [[ -v sets_of["$tag"] && "${sets_of["$tag"]}" != "$sets" ]]; then
    echo "$flag and ${flag_of["$tag"]} share the tag $tag but differ in"
    comm -3 <(tr ' ' '\n' <<<"$sets") <(tr ' ' '\n' <<<"${sets_of["$tag"]}"); exit 1
  fi
  tag_of["$sets"]="$tag"; sets_of["$tag"]="$sets"; flag_of["$tag"]="$flag"
done
echo "$tried flags, ${#sets_of[@]} tags"

# Prints whether bfloat16 products use bfloat16 instructions: by default where they are fast,
# otherwise as configured, under another tag.
products_of() {
  printf '#include <posenc/core/config.hpp>\nis POSENC_BFLOAT16_PRODUCTS POSENC_ABI_TAG\n' |
    "$compiler" "$@" -std=c++20 -I "$include" -E -P -x c++ - 2>/dev/null | sed -n 's/^is //p'
}
expect_products() {
  local wanted="$1" found
  shift
  predefined "$@" >/dev/null || return 0
  found="$(products_of "$@")"
  [[ "${found% *}" == "$wanted" ]] || { echo "$* gives POSENC_BFLOAT16_PRODUCTS '${found% *}', not '$wanted'"; exit 1; }
}
if [[ "$("$compiler" -dumpmachine)" == x86_64* ]]; then
  expect_products 1 -march=cooperlake
  expect_products 1 -march=znver4
  expect_products 0 -march=skylake-avx512
  expect_products 0 -march=sapphirerapids
  expect_products 0 -march=cooperlake -DPOSENC_BFLOAT16_PRODUCTS=0
  expect_products 1 -march=sapphirerapids -DPOSENC_BFLOAT16_PRODUCTS=1
  [[ "$(products_of -march=cooperlake)" != "$(products_of -march=cooperlake -DPOSENC_BFLOAT16_PRODUCTS=1)" ]] ||
    { echo "units with and without -D POSENC_BFLOAT16_PRODUCTS share a tag"; exit 1; }
  ! products_of -march=skylake-avx512 -DPOSENC_BFLOAT16_PRODUCTS=1 >/dev/null ||
    { echo "POSENC_BFLOAT16_PRODUCTS=1 is taken without AVX512_BF16"; exit 1; }
fi
if [[ "$("$compiler" -dumpmachine)" == *linux* ]]; then
  [[ "$(products_of)" != "$(products_of -DPOSENC_HUGE_PAGES=0)" ]] ||
    { echo "units with and without -D POSENC_HUGE_PAGES=0 share a tag"; exit 1; }
fi
((tried > 1))
