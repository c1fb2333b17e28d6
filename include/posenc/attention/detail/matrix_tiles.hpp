// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

// x86-64 compilers of GNU's kind on Linux, whose assembler and permission are used here.
#if defined(POSENC_DETAIL_AMX_TILE) && defined(POSENC_DETAIL_AMX_BF16) && defined(__linux__) && \
    defined(__x86_64__) && defined(__GNUC__)
#define POSENC_HAS_AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#else
#define POSENC_HAS_AMX 0
#endif

// The stage of matrix tiles: eight registers of up to 16 rows of 64 bytes each, and products of such
// matrices of bfloat16, as AMX has them. Tests have a class with the same functions in plain C++.
POSENC_BEGIN
namespace detail {

/// How many rows of how many bytes each register has.
struct TileShapes {
  std::array<std::uint8_t, 8> rows{};
  std::array<std::uint16_t, 8> bytes{};

  constexpr void set(std::size_t tile, Index tile_rows, Index row_bytes) noexcept {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }
};

#if POSENC_HAS_AMX
/// The processor's registers, from construction to destruction the calling thread's.
// Written as instructions, for g++ takes numbers of registers as text alone, and compilers must not move
// stores to memory across them.
class AmxTiles {
 public:
  explicit AmxTiles(const TileShapes& shapes) noexcept {
    alignas(64) std::array<std::uint8_t, 64> palette{1};
    std::memcpy(palette.data() + 16, shapes.bytes.data(), sizeof(shapes.bytes));
    std::memcpy(palette.data() + 48, shapes.rows.data(), sizeof(shapes.rows));
    __asm__ volatile("ldtilecfg %0" : : "m"(palette));
  }
  ~AmxTiles() { __asm__ volatile("tilerelease" : : : "memory"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int Tile>
  void zero() noexcept {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  template <int Tile>
  void load(const void* from, Index stride) noexcept {
    __asm__ volatile("{tileloadd (%0,%1,1), %%tmm%c2|tileloadd %%tmm%c2, [%0+%1*1]}"
                     :
                     : "r"(from), "r"(stride), "i"(Tile)
                     : "memory");
  }
  template <int Tile>
  void store(void* to, Index stride) const noexcept {
    __asm__ volatile("{tilestored %%tmm%c2, (%0,%1,1)|tilestored [%0+%1*1], %%tmm%c2}"
                     :
                     : "r"(to), "r"(stride), "i"(Tile)
                     : "memory");
  }
  template <int Sum, int A, int B>
  void add_products() noexcept {
    __asm__ volatile(
        "{tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0|tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2}"
        :
        : "i"(Sum), "i"(A), "i"(B));
  }
};

/// Whether the system lets this process use the registers, which it has to be asked for once.
inline bool amx_is_permitted() noexcept {
  static const bool permitted = [] {
    constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
  }();
  return permitted;
}
#endif

}  // namespace detail
POSENC_END
