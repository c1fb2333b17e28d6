// SPDX-License-Identifier: MIT
// Compares the bits of attention with the record.
//   attention_bits            prints a line "<case> <hash>" for each case
//   attention_bits <folder>   compares with <folder>/<tier>.txt; without that file, exits with 77
#include "../../support/processor_can.hpp"
#include "sample.hpp"
#include "seeded.hpp"
#include <posenc/simd/tier.hpp>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

namespace bits {

class Hash;
void report(const std::string& name, const Hash& hash);
void report_all_calls();
void report_all_caches();
void report_all_modules();

namespace {

std::map<std::string, std::string> record;
bool compares = false;
int cases = 0, differences = 0;

/// Returns the name of the record for the flags of this program. Products of bfloat16 have the
/// record of their tier, because they give the same bits. Without FMA there is no record, because
/// the compiler then chooses if products and sums are contracted.
std::string record_name() {
#if !POSENC_HAS_FMA
  return std::string(posenc::tier::Best::name) + "_without_fma";
#else
  return posenc::tier::Best::name;
#endif
}

}  // namespace

void report(const std::string& name, const Hash& hash) {
  char hexadecimal[17];
  std::snprintf(hexadecimal, sizeof(hexadecimal), "%016" PRIx64, hash.value());
  ++cases;
  if (!compares) {
    std::cout << name << ' ' << hexadecimal << '\n';
    return;
  }
  const auto found = record.find(name);
  if (found != record.end() && found->second == hexadecimal) return;
  ++differences;
  std::cout << name << " gives " << hexadecimal << ", on record is "
            << (found == record.end() ? "nothing" : found->second) << '\n';
}

}  // namespace bits

int main(int count, char** arguments) {
  constexpr int skipped = 77;
  if (!support::processor_can()) {
    std::cout << "skipped: this processor lacks what the program was compiled for\n";
    return skipped;
  }
  bits::compares = count > 1;
  if (bits::compares) {
    std::ifstream file(std::string(arguments[1]) + "/" + bits::record_name() + ".txt");
    if (!file) {
      std::cout << "skipped: there is no record for " << bits::record_name() << '\n';
      return skipped;
    }
    std::string name, hash;
    while (file >> name >> hash) bits::record[name] = hash;
  }
  bits::report_all_calls();
  bits::report_all_caches();
  bits::report_all_modules();
  if (!bits::compares) return 0;
  const int recorded = static_cast<int>(bits::record.size());
  if (bits::is_sample ? bits::cases == 0 : bits::cases != recorded) {
    std::cout << bits::cases << " cases, on record are " << recorded << '\n';
    return 1;
  }
  std::cout << bits::differences << " of " << bits::cases << " cases differ, on record are "
            << recorded << '\n';
  return bits::differences == 0 ? 0 : 1;
}
