// SPDX-License-Identifier: MIT
// Hashes of the bits of results, compared with those of a file.
//   posenc_bits            prints a line "<case> <hash>" for each case
//   posenc_bits <HASHES>   compares, on one thread and on eight. Exits with 77 without FMA
#include "../support/processor_can.hpp"
#include "sample.hpp"
#include "seeded.hpp"
#include <posenc/simd/tier.hpp>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace bits {

void report_all_attention();
void report_all_caches();
void report_all_encodings();
void report_all_modules();

namespace {

/// Hash of each case on this tier.
std::map<std::string, std::string> recorded;
bool compares = false;
int cases = 0, differences = 0;

/// Reads lines "<case> <hash>" and "<case> <tier>=<hash> ...", where tiers differ.
void read(std::istream& file) {
  const std::string tier = std::string(posenc::tier::Best::name) + "=";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, word;
    words >> name;
    while (words >> word) {
      if (word.starts_with(tier)) recorded[name] = word.substr(tier.size());
      if (word.find('=') == std::string::npos) recorded[name] = word;
    }
  }
}

void report_all() {
  report_all_attention();
  report_all_caches();
  report_all_modules();
  report_all_encodings();
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
  const auto found = recorded.find(name);
  if (found != recorded.end() && found->second == hexadecimal) return;
  ++differences;
  std::cout << name << " gives " << hexadecimal << " on " << Threads::count
            << " threads, the file has " << (found == recorded.end() ? "nothing" : found->second)
            << '\n';
}

}  // namespace bits

int main(int count, char** arguments) {
  constexpr int skipped = 77;
  if (!support::processor_can()) {
    std::cout << "skipped: this processor lacks what the program was compiled for\n";
    return skipped;
  }
  if (count == 1) {
    bits::report_all();
    return 0;
  }
#if !POSENC_HAS_FMA
  std::cout << "skipped: without FMA no bits are promised\n";
  return skipped;
#endif
  std::ifstream file(arguments[1]);
  bits::read(file);
  bits::compares = true;
  int cases = 0;
  for (const int threads : {1, 8}) {
    bits::Threads::count = threads;
    bits::cases = 0;
    bits::report_all();
    cases = bits::cases;
  }
  const int recorded = static_cast<int>(bits::recorded.size());
  std::cout << bits::differences << " of 2 * " << cases << " hashes differ on "
            << posenc::tier::Best::name << ", the file has " << recorded << " cases\n";
  const bool is_complete = bits::is_sample ? cases > 0 : cases == recorded;
  return bits::differences == 0 && is_complete ? 0 : 1;
}
