// SPDX-License-Identifier: MIT
// Rules of the conformance test's runner, on generated cases.
#include "conformance/runner.hpp"

#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

namespace runner_test {

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using conformance::Array;
using conformance::Case;
using conformance::Counts;
using conformance::Index;

/// Data directory of one category, "sums", removed by the destructor.
class Data {
 public:
  Data() {
    // Test cases may run concurrently, so the name is random.
    const std::string name = "posenc_conformance_" + std::to_string(std::random_device{}());
    root_ = fs::temp_directory_path() / name;
    fs::create_directories(root_ / "sums");
  }
  ~Data() { fs::remove_all(root_); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  /// Writes a file of the category.
  void write(const fs::path& name, const std::string& content) const {
    fs::create_directories((root_ / "sums" / name).parent_path());
    std::ofstream(root_ / "sums" / name) << content;
  }
  void write_cases(const std::string& cases) const {
    write("cases.json", R"({"cases": [)" + cases + "]}");
  }

  /// Runs all cases with a handler that adds its parameter "more" to "positions", or rejects the
  /// case.
  Counts run(std::string& output) const {
    std::ostringstream out;
    const auto handler = [](Case& c) {
      c.knows({"sum"}, {"more"});
      if (!c.is_about("sum")) throw conformance::NotSupported("no sums");
      auto values = c.read<double>("positions");
      values.data += c.parameter<double>("more", 0);
      c.check("sum", values);
    };
    const Counts counts = conformance::run_all(root_, {{"sums", handler}}, false, out);
    output = out.str();
    return counts;
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("conformance data: a case passes, fails, or is not supported") {
  const Data data;
  std::string output;
  const auto outcome_of = [&](const std::string& description) {
    data.write_cases(description);
    const Counts counts = data.run(output);
    REQUIRE(counts.passed + counts.failed + counts.not_supported == 1);
    return std::string(counts.passed == 1   ? "passed"
                       : counts.failed == 1 ? "failed"
                                            : "not supported");
  };
  const auto sum = [](const std::string& rest) {
    return R"({"name": "one", "feature": "sum", "positions": [1, 2], )" + rest + "}";
  };

  CHECK(outcome_of(sum(R"("sum_f64": [1, 2])")) == "passed");
  CHECK(output == "conformance sums: 1 passed, 0 failed, 0 not supported\n");
  CHECK(outcome_of(sum(R"("sum_f64": [2, 3], "params": {"more": 1})")) == "passed");
  CHECK(outcome_of(sum(R"("sum_f64": [1, 2], "params": {"comment": "none"})")) == "passed");

  CHECK(outcome_of(sum(R"("sum_f64": [1, 2.5])")) == "failed");
  CHECK_THAT(output, ContainsSubstring("FAILED one: sum_f64: max error 0.5, tolerance 2.5e-11"));
  CHECK(outcome_of(sum(R"("sum_f64": [1, 2, 3])")) == "failed");
  CHECK(outcome_of(sum(R"("sum_f64": [[1], [2, 3]])")) == "failed");
  CHECK_THAT(output, ContainsSubstring("ragged"));
  CHECK(outcome_of(sum(R"("sum_f64": [1, 2], "params": {"more": "much"})")) == "failed");
  CHECK(outcome_of(sum(R"("sum_f64": "1, 2")")) == "failed");
  CHECK_THAT(output, ContainsSubstring("nothing was compared"));
  CHECK(outcome_of(R"({"name": "one", "feature": "sum"})") == "failed");
  CHECK_THAT(output, ContainsSubstring("there is no tensor positions"));
  CHECK(outcome_of("17") == "failed");

  CHECK(outcome_of(R"({"name": "one", "feature": "product", "product": [2]})") == "not supported");
  CHECK_THAT(output, ContainsSubstring("not supported one: no sums"));
  CHECK(outcome_of(sum(R"("sum_f64": [5, 6], "params": {"less": 1})")) == "not supported");
  CHECK_THAT(output, ContainsSubstring("parameter 'less'; without it, sum_f64"));
  CHECK(outcome_of(sum(R"("sum_f64": [1, 2], "grad_f64": [1, 1])")) == "not supported");
  CHECK_THAT(output, ContainsSubstring("nothing computes grad_f64"));
}

TEST_CASE("conformance data: files that cannot be read fail by name") {
  const Data data;
  std::string output;
  data.write("no_json/readme.txt", "");
  data.write("no_tensor/case.json", R"({"feature": "sum", "tensors": {"positions": {
      "file": "x.npy", "dtype": "float64", "shape": [2], "role": "input"}}})");
  data.write("torn/attributes.json", R"({"feature": "su)");
  data.write("cases.json", "[1, 2");
  const Counts counts = data.run(output);
  CHECK(counts.failed == 4);
  for (const char* name :
       {"FAILED no_json: ", "FAILED no_tensor: ", "FAILED torn: ", "FAILED cases.json: "}) {
    CHECK_THAT(output, ContainsSubstring(name));
  }
}

TEST_CASE("conformance data: every category has its line, unknown ones too") {
  const Data data;
  std::string output;
  fs::create_directories(data.root() / "empty");
  fs::create_directories(data.root() / "other" / "case");
  std::ofstream(data.root() / "other" / "case" / "case.json") << R"({"feature": "sum"})";
  data.run(output);
  CHECK(output ==
        "conformance empty: 0 passed, 0 failed, 0 not supported\n"
        "conformance other: 0 passed, 0 failed, 1 not supported\n"
        "  not supported case: the category is unknown\n"
        "conformance sums: 0 passed, 0 failed, 0 not supported\n");
}

}  // namespace runner_test
