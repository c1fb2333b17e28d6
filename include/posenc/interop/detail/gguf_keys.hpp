// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/gguf_file.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Reader of the keys <architecture>.<name> of a file.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + ".") {}

  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  std::optional<Index> integer(std::string_view name) const { return file_.integer(full(name)); }
  std::optional<double> real(std::string_view name) const { return file_.real(full(name)); }
  std::optional<bool> flag(std::string_view name) const { return file_.flag(full(name)); }
  std::optional<std::string> text(std::string_view name) const { return file_.text(full(name)); }
  std::optional<std::vector<Index>> integers(std::string_view name) const {
    return file_.integers(full(name));
  }
  bool has(std::string_view name) const { return file_.has(full(name)); }
  const GgufFile& file() const noexcept { return file_; }

  template <class... Parts>
  [[noreturn]] void reject(std::string_view name, Parts... why) const {
    fail<ConfigError>(function, std::string_view(full(name)), " ", why...);
  }

  static constexpr const char* function = "read_gguf";

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace detail
POSENC_END
