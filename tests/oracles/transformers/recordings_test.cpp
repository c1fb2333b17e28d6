// SPDX-License-Identifier: MIT
// Settings that are read from config.json, compared with what the models of transformers did when they ran.
#include "oracles/transformers/recording.hpp"
#include "support/catch.hpp"
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/hf_text_config.hpp>
#include <posenc/interop/detail/hf_unsupported_types.hpp>
#include <posenc/interop/detail/hf_vision_types.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace recordings_test {

using oracle::Json;
namespace detail = posenc::detail;

namespace {

const std::string folder = POSENC_TRANSFORMERS_ORACLE;

std::string text_of(const std::string& name) {
  std::ifstream file(folder + "/" + name);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the recordings by type.
const std::map<std::string, Json>& recordings() {
  static const auto all = [] {
    std::map<std::string, Json> result;
    std::istringstream lines(text_of("recordings.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json recording = Json::parse(line);
      const auto type = recording.at("type").get<std::string>();
      result.emplace(type, std::move(recording));
    }
    return result;
  }();
  return all;
}

/// A known difference, or a refusal of a type that is supported.
struct Known {
  std::string type, text, reason;
  bool is_used = false;
};

/// Returns the lines of differences.tsv.
std::vector<Known> known_differences() {
  std::vector<Known> result;
  std::istringstream lines(text_of("differences.tsv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream cells(line);
    Known known;
    std::getline(cells, known.type, '\t');
    std::getline(cells, known.text, '\t');
    std::getline(cells, known.reason, '\t');
    INFO(line);
    REQUIRE(!known.reason.empty());
    result.push_back(known);
  }
  return result;
}

bool was_run(const Json& recording) {
  return recording.contains("kinds") && !recording.at("kinds").empty();
}

/// True if a layer rotates, or does something that is not explained.
bool has_rotation(const Json& recording) {
  const auto& kinds = recording.at("kinds");
  return std::any_of(kinds.begin(), kinds.end(), [](const Json& kind) {
    return !kind.contains("rotation") || !kind.at("rotation").is_null();
  });
}

/// Result of reading the file of a recording.
struct Outcome {
  bool is_read = false;
  std::vector<std::string> texts;  ///< the refusal, or the differences
};

Outcome outcome(const Json& recording, const Json& file, bool is_lenient) {
  try {
    const auto model = posenc::read_hf_config(file);
    return {true, oracle::compare(recording, model, is_lenient)};
  } catch (const posenc::ConfigError& error) {
    const std::string text = error.what();
    constexpr auto prefix = "posenc::read_hf_config: ";
    return {false, {text.starts_with(prefix) ? text.substr(std::string(prefix).size()) : text}};
  }
}

/// True if a text says that the type is unknown, or in the table of unsupported types.
bool is_refusal_of_type(const std::string& text) {
  return text.find("' is unknown") != std::string::npos ||
         text.find("' is not supported: it has") != std::string::npos ||
         text.find("has no rotary encoding") != std::string::npos ||
         text.find("has no model_type") != std::string::npos;
}

std::string reason_of(std::vector<Known>& all, const std::string& type, const std::string& text) {
  for (Known& known : all) {
    if (known.type == type && text.find(known.text) != std::string::npos) {
      known.is_used = true;
      return known.reason;
    }
  }
  return {};
}

/// Names of the tables, with a text of those that are not supported.
std::map<std::string, const detail::UnsupportedModel*> table_names() {
  std::map<std::string, const detail::UnsupportedModel*> result;
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) {
      detail::for_each_name(row.names,
                            [&](std::string_view name) { result[std::string(name)] = nullptr; });
    }
  };
  add(detail::hf_plain_types);
  add(detail::hf_layered_types);
  add(detail::hf_custom_types);
  for (const auto& model : detail::hf_text_models) result[std::string(model.name)] = nullptr;
  for (const auto& row : detail::hf_unsupported_types) {
    detail::for_each_name(row.names,
                          [&](std::string_view name) { result[std::string(name)] = &row; });
  }
  return result;
}

/// Returns a row of status.tsv: status, release and note.
std::string status(const std::string& type, const detail::UnsupportedModel* unsupported,
                   bool is_in_tables, std::vector<Known>& known, const std::string& release) {
  const auto at = recordings().find(type);
  const bool is_recorded = at != recordings().end() && was_run(at->second);
  const std::string run = is_recorded ? release : "";
  if (unsupported != nullptr) {
    const std::string has = "it has " + std::string(unsupported->has);
    return (unsupported->has_rotary ? "refused\t" : "none\t") + run + "\t" + has;
  }
  if (!is_recorded) {
    const std::string why =
        at == recordings().end()
            ? "no class of transformers has this name"
            : "its class was not run: " + at->second.value("failed", std::string("no attention"));
    return "code\t\t" + why;
  }
  const Outcome result = outcome(at->second, at->second.at("config"), false);
  std::set<std::string> reasons;
  for (const std::string& text : result.texts) {
    const auto reason = reason_of(known, type, text);
    if (!reason.empty()) reasons.insert(reason);
  }
  std::string note;
  for (const std::string& reason : reasons) note += (note.empty() ? "" : "; ") + reason;
  if (result.is_read) return "compared\t" + run + "\t" + note;
  if (!note.empty()) return (is_in_tables ? "code\t" : "refused\t") + run + "\t" + note;
  if (!has_rotation(at->second)) return "none\t" + run + "\tits attention does not rotate";
  return "refused\t" + run + "\tits attention rotates, and the library has no row of it";
}

}  // namespace

TEST_CASE("config.json is read as the models of transformers run") {
  auto known = known_differences();
  REQUIRE(recordings().size() > 150);
  for (const auto& [type, recording] : recordings()) {
    if (!was_run(recording)) continue;
    INFO(type);
    for (const bool is_lenient : {false, true}) {
      const Json file = is_lenient ? oracle::given_file(recording) : recording.at("config");
      const Outcome result = outcome(recording, file, is_lenient);
      if (!result.is_read && is_lenient) continue;  // a file of these keys alone may be refused
      for (const std::string& text : result.texts) {
        INFO(text);
        if (!result.is_read && is_refusal_of_type(text)) continue;
        CHECK(!reason_of(known, type, text).empty());
      }
    }
  }
  for (const Known& one : known) {
    INFO("differences.tsv: " << one.type << ": " << one.text);
    CHECK(one.is_used);
  }
}

TEST_CASE("a type without rotation in the tables does not rotate when it runs") {
  for (const auto& [name, unsupported] : table_names()) {
    const auto at = recordings().find(name);
    if (unsupported == nullptr || unsupported->has_rotary || at == recordings().end() ||
        !was_run(at->second))
      continue;
    INFO(name);
    const auto& kinds = at->second.at("kinds");
    CHECK(std::none_of(kinds.begin(), kinds.end(), [](const Json& kind) {
      return kind.contains("rotation") && !kind.at("rotation").is_null();
    }));
  }
}

// Renewed by POSENC_RENEW_STATUS=1.
TEST_CASE("status.tsv has a row of each model type") {
  auto known = known_differences();
  const std::string release =
      "transformers " + Json::parse(text_of("versions.json")).at("transformers").get<std::string>();
  auto names = table_names();
  const auto in_tables = names;
  for (const auto& [type, recording] : recordings()) {
    if (was_run(recording)) names.emplace(type, nullptr);
  }
  std::string text;
  for (const auto& [name, unsupported] : names) {
    if (name.find(' ') != std::string::npos) continue;  // a version of another type
    text += "config.json\t" + name + "\t" +
            status(name, unsupported, in_tables.contains(name), known, release) + "\n";
  }
  for (const auto& row : detail::hf_vision_types) {
    detail::for_each_name(row.names, [&](std::string_view name) {
      text += "vision_config\t" + std::string(name) + "\tcode\t\t\n";
    });
  }
  for (const auto& row : detail::hf_unsupported_towers) {
    detail::for_each_name(row.names, [&](std::string_view name) {
      text += "vision_config\t" + std::string(name) + "\trefused\t\tit has " +
              std::string(row.has) + "\n";
    });
  }
  if (std::getenv("POSENC_RENEW_STATUS") != nullptr) {
    std::ofstream(folder + "/status.tsv") << text;
  }
  CHECK(text_of("status.tsv") == text);
}

}  // namespace recordings_test
