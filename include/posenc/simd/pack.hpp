// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack_avx2.hpp>
#include <posenc/simd/pack_avx512.hpp>
#include <posenc/simd/pack_neon.hpp>
#include <posenc/simd/pack_scalar.hpp>
#include <posenc/simd/pack_sse2.hpp>
#include <posenc/simd/tier.hpp>

// Pack<T, Tier>: `width` lanes of float or double. Kernels are written once over it; a tier is these
// operations and nothing else. All are noexcept, and no address needs alignment.
//
//   broadcast(x)  zero()
//   load(p)  a.store(p)                       width values
//   load_partial(p, n)  a.store_partial(p, n) the first n, 0 <= n <= width; the other lanes are zero
//                                             and their memory is not touched
//   a.scatter(p, stride)                      lane u to p[u * stride], stride an int32; where a tier has it: AVX-512
//                                             (float)
//   load_doubled(p)                           width / 2 values, each twice; where width > 1
//   load_near(p, places)                      lane u: p[places[u] - places[0]], int32 places that lie
//                                             0 .. width - 1 apart; where a tier has it: AVX2 (float),
//                                             AVX-512
//   lanes_from(n, a, b)                       lanes n .. n + width - 1 of a and, behind it, b; 0 <= n <= width;
//                                             where a tier has it: AVX-512
//   a + b  a - b  a * b  a / b  -a            rounded once, as the scalar operators are
//   mul_add(a, b, c)  mul_sub(a, b, c)        a b + c, a b - c; fused wherever POSENC_HAS_FMA
//   larger(a, b)  smaller(a, b)               b where a lane of either is NaN
//   a & b  a ^ b  add_bits(a, b)              the lanes' bits, as unsigned integers
//   shift_left<N>(a)
//   select_by_sign(s, a, b)                   a where the sign bit of s is set, else b
//   swap_pairs(a)                             lanes 2i and 2i + 1 exchanged; where width > 1
//   split_pairs(low, high, even, odd)         of 2 width neighbours: the even and the odd ones, in
//   join_pairs(even, odd, low, high)          the tier's pair order; and back
//   pair_order(a)  natural_order(a)           lanes brought from natural into pair order; and back
//   interleave(a, b, low, high)               a0 b0 a1 b1 ...: its first width lanes, and the rest
//   transpose(rows)                           rows[i] lane j <-> rows[j] lane i, of width packs; where a tier
//                                             has a faster way than interleave: AVX-512 (float)
//   sum(a)  maximum(a)                        over the lanes; in which order is the tier's choice
//
// Pack<float> alone, 16 bits in memory, p without type (rounded to nearest even, denormals kept, NaN
// stays NaN):
//   load_half(p)      a.store_half(p)
//   load_bfloat16(p)  a.store_bfloat16(p)
//   load_bfloat16_pairs(p, even, odd)         2 width neighbours, both in natural order
//   store_bfloat16_pairs(p, even, odd)        also of two p one after the other, where that is faster
//   scatter_bfloat16_pairs(p, stride, a, b)   of 2 width neighbours, a and then b, the pair 2u + 1, 2u to the
//                                             u-th of p, `stride` pairs apart; where scatter() is
// and where the processor multiplies bfloat16 by bfloat16 quickly (POSENC_BFLOAT16_PRODUCTS), of packs
// whose lanes hold two of them each:
//   load_pairs(p)  broadcast_pair(p)          2 width neighbours; the two at p in every lane
//   add_pair_products(sum, a, b)              fma(a0, b0, fma(a1, b1, sum)), the second of a pair
//                                             first, but what is below 2^-126 is zero: numbers, and
//                                             sums once they are rounded to 24 bits
//
// Pack<double> alone:
//   a.store_rounded(p)  a.store_rounded_partial(p, n)   to float
//   rounded(low, high)                        both to one Pack<float>; where width > 1
