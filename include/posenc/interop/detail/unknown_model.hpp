// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// Statements that the file or the options of an unknown model must make: everything that a known
/// model's code defines.
class RequiredStatements {
 public:
  /// Adds an option to those that are missing, unless the file or the options state it.
  void need(std::string_view option, bool is_stated) {
    if (!is_stated) missing_.append(missing_.empty() ? "" : ", ").append(option);
  }

  /// Adds a key of the file that is neither understood nor named by the caller.
  void add_foreign_key(std::string_view key) {
    if (++foreign_count_ > max_shown) return;
    foreign_.append(foreign_.empty() ? "'" : ", '").append(key).append("'");
  }

  /// Throws ConfigError if anything is missing, with all of it.
  ///   kind, name: of the model, for example "model_type" and "llama"
  void check(const char* function, const char* kind, std::string_view name) const {
    if (missing_.empty() && foreign_.empty()) return;
    std::string advice = missing_.empty() ? "" : "set in the options: " + missing_;
    if (!foreign_.empty()) {
      advice += std::string(missing_.empty() ? "" : "; ") +
                "name in ignored_keys, if they change neither positions nor scores: " + foreign_;
    }
    if (foreign_count_ > max_shown) {
      advice += " and " + std::to_string(foreign_count_ - max_shown) + " more";
    }
    fail<ConfigError>(function, "the ", kind, " '", name,
                      "' is unknown; to read it as a plain rotary model, ", advice);
  }

 private:
  static constexpr std::size_t max_shown = 16;  ///< foreign keys that a message lists

  std::string missing_, foreign_;
  std::size_t foreign_count_ = 0;
};

/// Rejects an option that states what the code of a known model defines. `option` is null if no
/// option does; `kind` and `name` are those of RequiredStatements.
POSENC_COLD inline void check_no_statement(const char* function, const char* option,
                                           const char* kind, std::string_view name) {
  if (option == nullptr) return;
  fail<ConfigError>(function, option, " must not be set for the known ", kind, " '", name, "'");
}

/// Rejects a name in ignored_keys whose key has an effect, or that the file lacks.
POSENC_COLD inline void check_ignored_key(const char* function, std::string_view name,
                                          bool is_in_file, bool is_read) {
  if (is_in_file && !is_read) return;
  fail<ConfigError>(function, "ignored_keys names '", name, "', which ",
                    is_in_file ? "has an effect" : "the file does not have");
}

}  // namespace detail
POSENC_END
