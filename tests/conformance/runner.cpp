// SPDX-License-Identifier: MIT
#include "conformance/runner.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

namespace conformance {
namespace {

namespace fs = std::filesystem;

/// Case before it is read; it may be malformed.
struct Found {
  std::string name;
  std::function<Case()> open;
};

enum class Outcome { Passed, Failed, NotSupported };

struct Result {
  Outcome outcome;
  std::string reason;
};

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(directory)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw Malformed(path.filename().string() + " cannot be opened");
  return Json::parse(file);
}

Found in_directory(const fs::path& directory) {
  return {directory.filename().string(), [directory] {
            for (const char* name : {"case.json", "attributes.json"}) {
              if (fs::exists(directory / name)) {
                return Case(directory.filename().string(), read_json(directory / name), directory);
              }
            }
            throw Malformed("there is neither a case.json nor an attributes.json");
          }};
}

/// Returns the cases of a JSON file. A file that cannot be read is a failed case.
std::vector<Found> in_file(const fs::path& path) {
  const std::string file = path.filename().string();
  std::vector<Found> found;
  const auto add = [&](const std::string& name, Json description) {
    found.push_back(
        {name, [name, description = std::move(description)] { return Case(name, description); }});
  };
  try {
    const Json content = read_json(path);
    if (content.contains("cases")) {
      for (const Json& description : content.at("cases")) {
        const Json name = description.is_object() ? description.value("name", Json()) : Json();
        add(name.is_string() ? name.get<std::string>() : file, description);
      }
    } else if (content.contains("slopes")) {
      for (const auto& [heads, slopes] : content.at("slopes").items()) {
        add("slopes of " + heads + " heads", {{"feature", "slopes"}, {"slopes", slopes}});
      }
    } else {
      found.push_back({file, []() -> Case { throw NotSupported("a file without cases"); }});
    }
  } catch (const std::exception& error) {
    found.push_back(
        {file, [what = std::string(error.what())]() -> Case { throw Malformed(what); }});
  }
  return found;
}

std::vector<Found> cases_of(const fs::path& category) {
  std::vector<Found> found;
  for (const fs::path& path : entries_of(category)) {
    if (fs::is_directory(path)) {
      found.push_back(in_directory(path));
    } else if (path.extension() == ".json") {
      for (Found& entry : in_file(path)) found.push_back(std::move(entry));
    }
  }
  return found;
}

Result run(const Found& found, const Handler& handler, std::vector<Check>& checks) {
  std::optional<Case> opened;
  std::string not_supported, error;
  try {
    opened.emplace(found.open());
    handler(*opened);
  } catch (const NotSupported& reason) {
    not_supported = reason.what();
  } catch (const std::exception& reason) {
    error = reason.what();
  }
  if (!opened) {
    return not_supported.empty() ? Result{Outcome::Failed, error}
                                 : Result{Outcome::NotSupported, not_supported};
  }
  checks = opened->checks();
  std::string wrong = opened->failures();
  if (!error.empty()) wrong += (wrong.empty() ? "" : "; ") + error;
  if (!wrong.empty()) {
    const std::string unknown = opened->unknown();
    if (unknown.empty()) return {Outcome::Failed, wrong};
    return {Outcome::NotSupported, unknown + "; without it, " + wrong};
  }
  if (!not_supported.empty()) return {Outcome::NotSupported, not_supported};
  if (const std::string rest = opened->left_over(); !rest.empty()) {
    return {Outcome::NotSupported, rest};
  }
  if (checks.empty()) return {Outcome::Failed, "nothing was compared"};
  return {Outcome::Passed, ""};
}

}  // namespace

Counts run_all(const fs::path& directory, const std::map<std::string, Handler>& handlers,
               bool verbose, std::ostream& out) {
  Counts total;
  for (const fs::path& category : entries_of(directory)) {
    if (!fs::is_directory(category)) continue;
    const std::string name = category.filename().string();
    const auto handler = handlers.find(name);
    Counts counts;
    std::string details;
    for (const Found& found : cases_of(category)) {
      std::vector<Check> checks;
      const Result result = run(
          found,
          handler != handlers.end() ? handler->second
                                    : [](Case&) { throw NotSupported("the category is unknown"); },
          checks);
      if (result.outcome == Outcome::Passed) {
        ++counts.passed;
        if (verbose) details += "  passed " + found.name + "\n";
      } else if (result.outcome == Outcome::Failed) {
        ++counts.failed;
        details += "  FAILED " + found.name + ": " + result.reason + "\n";
      } else {
        ++counts.not_supported;
        details += "  not supported " + found.name + ": " + result.reason + "\n";
      }
      if (!verbose) continue;
      for (const Check& check : checks) {
        details += std::string("    ") + (check.passed ? "" : "FAILED ") + in_words(check) + "\n";
      }
    }
    out << "conformance " << name << ": " << counts.passed << " passed, " << counts.failed
        << " failed, " << counts.not_supported << " not supported\n"
        << details << std::flush;
    total.passed += counts.passed;
    total.failed += counts.failed;
    total.not_supported += counts.not_supported;
  }
  return total;
}

}  // namespace conformance
