// SPDX-License-Identifier: MIT
// What a model's config.json or GGUF file says of its rotary encoding, and how two of them differ.
#include "../tour/error.hpp"
#include "../tour/files.hpp"
#include "../tour/gnuplot.hpp"
#include "describe.hpp"
#include "picture.hpp"
#include <posenc/core/build_info.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr auto usage = R"(posenc_inspect FILE [--compare OTHER] [options]

FILE and OTHER are a config.json of Hugging Face or a GGUF file.
  --compare OTHER    show what differs; the exit status is 3 if anything does
  --length N         the length of the sequence, for rules that depend on it
  --pairing KIND     interleaved or half, for models that posenc does not know
  --picture FOLDER   draw the wavelengths with gnuplot into FOLDER
)";

struct Options {
  std::filesystem::path file, other, pictures;
  std::optional<posenc::Index> length;
  std::optional<posenc::PairingKind> pairing;
};

posenc::Index length_from(const std::string& text) {
  posenc::Index length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size() || length < 1) {
    throw tour::UsageError("--length needs a positive number, not " + text);
  }
  return length;
}

posenc::PairingKind pairing_from(const std::string& text) {
  if (text == "interleaved") return posenc::PairingKind::Interleaved;
  if (text == "half") return posenc::PairingKind::HalfRotate;
  throw tour::UsageError("--pairing needs interleaved or half, not " + text);
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.rfind("--", 0) != 0) {
      if (!options.file.empty()) throw tour::UsageError("one FILE, not " + argument + " as well");
      options.file = argument;
      continue;
    }
    if (i + 1 == arguments.size()) throw tour::UsageError(argument + " needs a value");
    const std::string& value = arguments[++i];
    if (argument == "--compare") {
      options.other = value;
    } else if (argument == "--length") {
      options.length = length_from(value);
    } else if (argument == "--pairing") {
      options.pairing = pairing_from(value);
    } else if (argument == "--picture") {
      options.pictures = value;
    } else {
      throw tour::UsageError("unknown option " + argument);
    }
  }
  if (options.file.empty()) throw tour::UsageError("no FILE is given");
  return options;
}

bool is_gguf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof magic);
  return std::string(magic, sizeof magic) == "GGUF";
}

posenc::ModelSettings read(const std::filesystem::path& path, const Options& options) {
  if (is_gguf(path)) return posenc::read_gguf(path, {.pairing = options.pairing});
  return posenc::read_hf_config(tour::read_file(path), {.pairing = options.pairing});
}

int run(const Options& options) {
  const auto model = read(options.file, options);
  const auto length = inspect::length_for(model, options.length);
  std::cout << inspect::report(model, length);

  if (!options.pictures.empty()) {
    const tour::Gnuplot gnuplot(options.pictures);
    const std::string name = options.file.stem().string() + "-wavelengths";
    const bool drawn = !gnuplot.draw(inspect::wavelength_figure(model, name, length)).empty();
    const auto picture = options.pictures / (name + (drawn ? ".svg" : ".gp"));
    std::cout << "\n"
              << (drawn ? "picture: " : "no gnuplot; its script: ") << picture.string() << '\n';
  }
  if (options.other.empty()) return EXIT_SUCCESS;

  const auto other = read(options.other, options);
  std::cout << '\n' << options.other.string() << ": " << inspect::report(other, length) << '\n';
  const std::string differences = inspect::comparison(model, other, length);
  if (differences.empty()) {
    std::cout << "Both rotate alike.\n";
    return EXIT_SUCCESS;
  }
  std::cout << "They differ, first | second:\n" << differences;
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::clog << posenc::build_info() << '\n';
    return run(parse({argv + 1, argv + argc}));
  } catch (const tour::UsageError& error) {
    std::cerr << "posenc_inspect: " << error.what() << "\n\n" << usage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "posenc_inspect: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
