// SPDX-License-Identifier: MIT
// Settings that are read from config.json, compared with what the models of transformers did when they ran.
#include "oracles/transformers/recording.hpp"
#include "oracles/transformers/vision_recording.hpp"
#include "support/catch.hpp"
#include <posenc/interop/detail/hf_read.hpp>
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

/// Recordings by type.
struct Recordings {
  std::map<std::string, Json> plain, yarn;
};

const Recordings& all_recordings() {
  static const auto all = [] {
    Recordings result;
    std::istringstream lines(text_of("recordings.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json recording = Json::parse(line);
      const auto type = recording.at("type").get<std::string>();
      if (!recording.contains("patch")) {
        result.plain.emplace(type, std::move(recording));
      } else if (!recording.contains("failed")) {
        result.yarn.emplace(type, oracle::with_patch(result.plain.at(type), recording));
      }
    }
    return result;
  }();
  return all;
}

const std::map<std::string, Json>& recordings() { return all_recordings().plain; }

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

/// True for a text model with a layer that rotates: its file was kept.
bool has_file(const Json& recording) {
  return was_run(recording) && recording.contains("config") && !oracle::has_patches(recording);
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
    if (!was_run(recording)) return {true, {}};
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
  add(detail::hf_window_types);
  add(detail::hf_layered_types);
  add(detail::hf_custom_types);
  for (const auto& model : detail::hf_text_models) result[std::string(model.name)] = nullptr;
  for (const auto& row : detail::hf_unsupported_types) {
    detail::for_each_name(row.names,
                          [&](std::string_view name) { result[std::string(name)] = &row; });
  }
  return result;
}

/// Returns the note of a refusal that says what a type has; "" for another text.
std::string note_of_refusal(const std::string& text) {
  const auto at = text.find(": it has");
  return at == std::string::npos ? std::string() : text.substr(at + 2);
}

/// Returns status and note of a type whose class did not run.
std::string status_of_code(const Json& recording, bool is_in_tables) {
  const auto failed = recording.value("failed", std::string("it has no attention"));
  const std::string why = "its class was not run: " + failed.substr(0, failed.find('\n'));
  if (is_in_tables) return "code\t\t" + why;
  const auto code = recording.value("code", std::string("none"));
  if (code == "none") return "none\t\tits class has no rotary module";
  if (code == "absent") return "none\t\ttransformers has no model of its own for it";
  if (recording.contains("config")) {
    const Outcome result = outcome(recording, recording.at("config"), false);
    if (result.is_read) return "code\t\t" + why;
    const auto note = note_of_refusal(result.texts.at(0));
    if (!note.empty()) return "refused\t\t" + note;
  }
  return "refused\t\tits class has a rotary module, and the library has no row of it";
}

/// Returns a row of status.tsv: status, release and note.
std::string status(const std::string& type, const detail::UnsupportedModel* unsupported,
                   bool is_in_tables, std::vector<Known>& known, const std::string& release) {
  const auto at = recordings().find(type);
  const bool is_recorded = at != recordings().end() && was_run(at->second);
  const std::string run = is_recorded ? release : "";
  const auto is_read = [&] {  // some types are refused in one of their two forms
    return is_recorded && has_file(at->second) &&
           outcome(at->second, at->second.at("config"), false).is_read;
  };
  if (unsupported != nullptr && !is_read()) {
    const std::string has = "it has " + std::string(unsupported->has);
    return (unsupported->has_rotary ? "refused\t" : "none\t") + run + "\t" + has;
  }
  if (at == recordings().end()) return "code\t\tno class of transformers has this name";
  if (at->second.contains("failed")) return status_of_code(at->second, is_in_tables);
  if (at->second.at("kinds").empty()) return "none\t" + release + "\tit ran without attention";
  if (!has_rotation(at->second)) return "none\t" + run + "\tits attention does not rotate";
  const bool is_tower = oracle::has_patches(at->second);
  if (is_tower && !is_in_tables) {
    return "refused\t" + run +
           "\tits attention rotates by rows and columns, and the library has no row of it";
  }
  if (is_tower) return "compared\t" + run + "\t";
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
  note = note_of_refusal(result.texts.at(0));
  if (!note.empty()) {
    const bool is_none = result.texts[0].find("no rotary encoding") != std::string::npos;
    return (is_none ? "none\t" : "refused\t") + run + "\t" + note;
  }
  const auto& kinds = at->second.at("kinds");
  const bool is_explained = std::none_of(
      kinds.begin(), kinds.end(), [](const Json& kind) { return kind.contains("unexplained"); });
  return "refused\t" + run +
         (is_explained ? "\tits attention rotates, and the library has no row of it"
                       : "\tits attention depends on positions in a way that no rotation explains");
}

/// Returns the recording of a vision tower that ran, or nullptr.
const Json* tower_recording(const std::string& name) {
  for (const std::string& type : {name + "_vision", name}) {
    const auto at = recordings().find(type);
    if (at != recordings().end() && was_run(at->second) && at->second.contains("given"))
      return &at->second;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("read_hf_config: agrees with the running models of transformers") {
  auto known = known_differences();
  REQUIRE(recordings().size() > 800);
  for (const auto* all : {&recordings(), &all_recordings().yarn}) {
    const bool is_yarn = all != &recordings();
    for (const auto& [type, recording] : *all) {
      if (!has_file(recording)) continue;
      INFO(type << (is_yarn ? " with YaRN" : ""));
      for (const bool is_lenient : {false, true}) {
        if (is_lenient && !recording.contains("given"))
          continue;  // its text model is a type itself
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
  }
  for (const Known& one : known) {
    INFO("differences.tsv: " << one.type << ": " << one.text);
    CHECK(one.is_used);
  }
}

TEST_CASE("read_hf_config: vision towers agree with the running models of transformers") {
  auto known = known_differences();
  int compared = 0;
  for (const auto& row : detail::hf_vision_types) {
    detail::for_each_name(row.names, [&](std::string_view name) {
      const Json* recording = tower_recording(std::string(name));
      if (recording == nullptr) return;
      ++compared;
      INFO(name);
      for (const std::string& text : oracle::compare_tower(*recording)) {
        INFO(text);
        CHECK(!reason_of(known, std::string(name), text).empty());
      }
    });
  }
  CHECK(compared > 10);
  CHECK(oracle::compare_dinov3(recordings().at("dinov3_vit")).empty());
}

TEST_CASE("read_hf_config: a type without rotation in the tables does not rotate when it runs") {
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
TEST_CASE("read_hf_config: status.tsv has a row of each model type") {
  auto known = known_differences();
  const std::string release =
      "transformers " + Json::parse(text_of("versions.json")).at("transformers").get<std::string>();
  auto names = table_names();
  const auto in_tables = names;
  for (const auto& [type, recording] : recordings()) {
    const bool is_tower = detail::find_hf_vision_type(type) != nullptr ||
                          find_row(detail::hf_unsupported_towers, type) != nullptr;
    if (!is_tower) names.emplace(type, nullptr);
  }
  std::string text;
  for (const auto& [name, unsupported] : names) {
    if (name.find(' ') != std::string::npos) continue;  // a version of another type
    text += "config.json\t" + name + "\t" +
            status(name, unsupported, in_tables.contains(name), known, release) + "\n";
  }
  for (const auto& row : detail::hf_vision_types) {
    detail::for_each_name(row.names, [&](std::string_view name) {
      const bool is_recorded = tower_recording(std::string(name)) != nullptr;
      text += "vision_config\t" + std::string(name) +
              (is_recorded ? "\tcompared\t" + release : std::string("\tcode\t")) + "\t\n";
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
