// SPDX-License-Identifier: MIT
// Runs the library on inputs of other projects and compares with their results. The data are
// outside the repository and are read in place, from POSENC_CONFORMANCE_DIR of the environment or
// of the build. POSENC_CONFORMANCE_VERBOSE=1 prints every comparison.
#include "conformance/categories.hpp"
#include "conformance/runner.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace conformance_test {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path data_directory() {
  const std::string named = environment("POSENC_CONFORMANCE_DIR");
  if (!named.empty()) return named;
#ifdef POSENC_CONFORMANCE_DIR
  return POSENC_CONFORMANCE_DIR;
#else
  return {};
#endif
}

}  // namespace

TEST_CASE("conformance data: the library agrees with other projects") {
  using namespace conformance;
  const auto directory = data_directory();
  if (!std::filesystem::is_directory(directory)) {
    // If a directory is given, it must exist.
    REQUIRE(environment("POSENC_CONFORMANCE_DIR").empty());
    std::cout << "skipped: no conformance data; POSENC_CONFORMANCE_DIR names their directory\n";
    return;
  }
  const Counts counts = run_all(directory,
                                {{"alibi", run_alibi},
                                 {"hf_apply", run_hf_apply},
                                 {"hf_rope", run_hf_rope},
                                 {"lucidrains", run_lucidrains},
                                 {"onnx", run_onnx},
                                 {"torch", run_torch},
                                 {"truth", run_truth},
                                 {"yarn_repo", run_yarn_repo}},
                                !environment("POSENC_CONFORMANCE_VERBOSE").empty(), std::cout);
  CHECK(counts.failed == 0);
  CHECK(counts.passed > 0);
}

}  // namespace conformance_test
