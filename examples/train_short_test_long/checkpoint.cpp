// SPDX-License-Identifier: MIT
#include "checkpoint.hpp"

#include "../tour/error.hpp"
#include "../tour/files.hpp"
#include "../tour/numbers.hpp"

#include <cstddef>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <vector>

namespace study {
namespace {

constexpr const char* heading = "posenc train_short_test_long 1\n";

template <class T>
void append(std::string& bytes, const T* values, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

template <class T>
bool take(const std::string& bytes, std::size_t& at, T* values, std::size_t count) {
  if (count > (bytes.size() - at) / sizeof(T)) return false;
  if (count > 0) std::memcpy(values, bytes.data() + at, count * sizeof(T));
  at += count * sizeof(T);
  return true;
}

}  // namespace

void save(const std::filesystem::path& path, const std::string& settings,
          const TrainingState& state) {
  std::string bytes = heading + settings + '\n';
  const std::size_t count = state.parameters.size();
  append(bytes, &state.step, 1);
  append(bytes, &count, 1);
  for (const auto* values : {&state.parameters, &state.mean, &state.variance}) {
    append(bytes, values->data(), count);
  }
  // Written under another name first, so that a run that is stopped here keeps its old checkpoint.
  auto beside = path;
  beside += ".new";
  tour::write_file(beside, bytes);
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) throw tour::FileError(tour::cat("cannot write the file ", path.string()));
}

std::optional<TrainingState> load(const std::filesystem::path& path, const std::string& settings) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const std::string bytes = tour::read_file(path), begin = heading + settings + '\n';
  if (!bytes.starts_with(begin)) {
    throw tour::FileError(
        tour::cat(path.string(),
                  " belongs to a run with other settings, another text or another "
                  "version; without --resume it is replaced"));
  }
  TrainingState state;
  std::size_t at = begin.size(), count = 0;
  bool complete = take(bytes, at, &state.step, 1) && take(bytes, at, &count, 1) &&
                  count <= bytes.size() / sizeof(float);
  for (auto* values : {&state.parameters, &state.mean, &state.variance}) {
    if (!complete) break;
    values->resize(count);
    complete = take(bytes, at, values->data(), count);
  }
  if (!complete || at != bytes.size()) {
    throw tour::FileError(
        tour::cat(path.string(), " is not complete; without --resume it is replaced"));
  }
  return state;
}

}  // namespace study
