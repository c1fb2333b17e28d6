// SPDX-License-Identifier: MIT
// Prints the rotary settings of a model's config.json or GGUF file, and compares two models.
#include "../tour/error.hpp"
#include "../tour/gnuplot.hpp"
#include "describe.hpp"
#include "file_kind.hpp"
#include "picture.hpp"
#include <posenc/core/build_info.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr auto usage = R"(posenc_inspect FILE [--compare OTHER] [options]
posenc_inspect --presets

Prints the settings of a model's file for its rotary encoding and its scores.

FILE and OTHER are a config.json of Hugging Face, a folder with one, a GGUF file, or - for
standard input.
  --compare OTHER    show every setting that differs
  --length N         the length of the sequence, for rules that depend on it
  --part PATH        the part of a composite config.json, talker_config for example; default: the
                     text model
  --pairing KIND     interleaved or half, for models that posenc does not know; then also, where
                     the file does not state them:
  --mrope-order KIND   chunked or interleaved: order of the axes of M-RoPE
  --rotary-share X     share of a head that is rotated, 1 for all channels
  --softmax-scale X    scale of scores, without soft cap and temperature
  --ignored-keys "A B" keys that change neither positions nor scores
  --attn-factor KIND relative or final: meaning of a GGUF file's attn_factor, if it is ambiguous
  --picture FOLDER   draw the wavelengths with gnuplot into FOLDER
  --presets          list the models with built-in settings, and the sources of these
  --help             this text

The exit status is 0; 1 if something cannot be read or written; 2 if the command line is invalid; 3 if
--compare finds a difference.
)";

struct Options {
  std::string file, other, pictures, part, ignored_keys;
  bool help = false, presets = false;
  std::optional<posenc::Index> length;
  std::optional<posenc::PairingKind> pairing;
  std::optional<posenc::MropeOrder> mrope_order;
  std::optional<double> rotary_share, softmax_scale;
  posenc::GgufAttentionFactor attn_factor = posenc::GgufAttentionFactor::Unspecified;
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

posenc::MropeOrder mrope_order_from(const std::string& text) {
  if (text == "chunked") return posenc::MropeOrder::Chunked;
  if (text == "interleaved") return posenc::MropeOrder::Interleaved;
  throw tour::UsageError("--mrope-order needs chunked or interleaved, not " + text);
}

double number_from(const std::string& name, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw tour::UsageError(name + " needs a number, not " + text);
  }
  return number;
}

posenc::GgufAttentionFactor attn_factor_from(const std::string& text) {
  if (text == "relative") return posenc::GgufAttentionFactor::Relative;
  if (text == "final") return posenc::GgufAttentionFactor::Final;
  throw tour::UsageError("--attn-factor needs relative or final, not " + text);
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    if (argument == "--presets") {
      options.presets = true;
      return options;
    }
    if (argument == "-" || argument.rfind('-', 0) != 0) {
      if (!options.file.empty()) throw tour::UsageError("one FILE, not " + argument + " as well");
      if (argument.empty()) throw tour::UsageError("FILE is empty");
      options.file = argument;
      continue;
    }
    constexpr auto with_value = std::to_array<std::string_view>(
        {"--attn-factor", "--compare", "--ignored-keys", "--length", "--mrope-order", "--pairing",
         "--part", "--picture", "--rotary-share", "--softmax-scale"});
    const bool is_known =
        std::find(with_value.begin(), with_value.end(), argument) != with_value.end();
    if (!is_known) throw tour::UsageError("unknown option " + argument);
    if (i + 1 == arguments.size() || arguments[i + 1].empty()) {
      throw tour::UsageError(argument + " needs a value");
    }
    const std::string& value = arguments[++i];
    if (argument == "--compare") options.other = value;
    if (argument == "--length") options.length = length_from(value);
    if (argument == "--pairing") options.pairing = pairing_from(value);
    if (argument == "--mrope-order") options.mrope_order = mrope_order_from(value);
    if (argument == "--rotary-share") options.rotary_share = number_from(argument, value);
    if (argument == "--softmax-scale") options.softmax_scale = number_from(argument, value);
    if (argument == "--ignored-keys") options.ignored_keys = value;
    if (argument == "--part") options.part = value;
    if (argument == "--attn-factor") options.attn_factor = attn_factor_from(value);
    if (argument == "--picture") options.pictures = value;
  }
  if (options.file.empty()) throw tour::UsageError("no FILE is given");
  if (options.file == "-" && options.other == "-") {
    throw tour::UsageError("standard input can be read once");
  }
  return options;
}

constexpr std::string_view gguf_magic = "GGUF";

/// Returns the content of a stream, unless it is longer than any configuration.
std::string content_of(std::istream& in, const std::string& name) {
  constexpr std::size_t most = std::size_t{1} << 28;
  std::string content;
  std::vector<char> part(std::size_t{1} << 16);
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    content.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (content.size() > most) {
      throw tour::FileError(name + " is longer than 256 MB and no GGUF file on disk");
    }
  }
  if (in.bad()) throw tour::FileError("cannot read " + name);
  return content;
}

posenc::GgufOptions gguf_options(const Options& options) {
  return {.pairing = options.pairing,
          .attn_factor = options.attn_factor,
          .mrope_order = options.mrope_order,
          .rotary_share = options.rotary_share,
          .softmax_scale = options.softmax_scale,
          .ignored_keys = options.ignored_keys};
}

void check_kind(std::string_view begin) {
  const std::string why = inspect::why_not_a_configuration(begin.substr(0, inspect::bytes_of_kind));
  if (!why.empty()) throw tour::FileError(why);
}

/// Settings of a file, and what the reader assumed because the file does not state it.
struct Model {
  posenc::ModelSettings settings;
  std::string assumption;
};

Model read_content(const std::string& content, const Options& options) {
  check_kind(content);
  if (content.rfind(gguf_magic, 0) == 0) {
    return {posenc::read_gguf(std::as_bytes(std::span(content)), gguf_options(options)), ""};
  }
  auto settings = posenc::read_hf_config(content, {.pairing = options.pairing,
                                                   .mrope_order = options.mrope_order,
                                                   .rotary_share = options.rotary_share,
                                                   .softmax_scale = options.softmax_scale,
                                                   .ignored_keys = options.ignored_keys,
                                                   .part = options.part});
  std::string assumption = inspect::assumption(settings, content);
  return {std::move(settings), std::move(assumption)};
}

/// Reads a file, the config.json of a folder, or standard input.
Model read_named(const std::string& name, const Options& options) {
  if (name == "-") return read_content(content_of(std::cin, "standard input"), options);
  std::filesystem::path path(name);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    path /= "config.json";
    if (!std::filesystem::exists(path, error)) {
      throw tour::FileError(
          "this folder has no config.json; a GGUF file in it must be named itself");
    }
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw tour::FileError("cannot open this file");
  std::string begin(inspect::bytes_of_kind, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  check_kind(begin);  // before reading a complete checkpoint
  if (begin.rfind(gguf_magic, 0) == 0 && std::filesystem::is_regular_file(path, error)) {
    return {posenc::read_gguf(path, gguf_options(options)), ""};  // reads its header only
  }
  return read_content(begin + content_of(file, "it"), options);
}

/// Advice of the library, and the switch of this program that follows it.
struct Advice {
  std::string_view library, here;
};

constexpr Advice advices[] = {
    {"choose one in the options", "choose one with --attn-factor"},
    {"set in the options: ", "set with the switches of these names: "},
    {"set mrope_order in the options", "set it with --mrope-order"},
    {"name in ignored_keys", "name with --ignored-keys"},
};

std::string with_own_switches(std::string message) {
  for (const auto& [library, here] : advices) {
    const auto at = message.find(library);
    if (at != std::string::npos) message.replace(at, library.size(), here);
  }
  return message;
}

Model read(const std::string& name, const Options& options) {
  try {
    return read_named(name, options);
  } catch (const std::exception& error) {
    throw tour::FileError((name == "-" ? "standard input" : name) + ": " +
                          with_own_switches(error.what()));
  }
}

/// Returns the name of a picture: that of the file, or of its folder if the file has a generic
/// name.
std::string picture_name(const std::string& file) {
  if (file == "-") return "stdin";
  std::error_code error;
  auto path = std::filesystem::absolute(file, error).lexically_normal();
  if (path.filename() == "config.json" || path.filename().empty()) path = path.parent_path();
  const std::string stem = path.stem().string();
  return stem.empty() ? "model" : stem;
}

int run(const Options& options) {
  const auto [model, assumption] = read(options.file, options);
  const auto length = inspect::length_for(model, options.length);
  std::cout << inspect::report(model, length) << assumption;

  if (!options.pictures.empty()) {
    const tour::Gnuplot gnuplot(options.pictures);
    const std::string name = picture_name(options.file) + "-wavelengths";
    const bool drawn = !gnuplot.draw(inspect::wavelength_figure(model, name, length)).empty();
    const auto picture = gnuplot.folder() / (name + (drawn ? ".svg" : ".gp"));
    std::cout << "\n"
              << (drawn ? "picture: " : "no gnuplot; its script: ") << picture.string() << '\n';
  }
  if (options.other.empty()) return EXIT_SUCCESS;

  const auto [other, other_assumption] = read(options.other, options);
  std::cout << '\n'
            << options.other << ": " << inspect::report(other, length) << other_assumption << '\n';
  const std::string differences = inspect::comparison(model, other, length);
  if (differences.empty()) {
    std::cout << "All settings are the same.\n";
    return EXIT_SUCCESS;
  }
  std::cout << "They differ, first | second:\n"
            << differences << inspect::explanations(differences);
  return 3;
}

int answer(const Options& options) {
  if (options.help) {
    std::cout << usage;
    return EXIT_SUCCESS;
  }
  if (options.presets) {
    std::cout << inspect::list_of_presets();
    return EXIT_SUCCESS;
  }
  std::clog << posenc::build_info() << '\n';
  return run(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse({argv + 1, argv + argc});
    const int status = answer(options);
    // Without this check, a full disk or a closed pipe would lose the output with a success status.
    if (!std::cout.flush()) throw std::runtime_error("cannot write to standard output");
    return status;
  } catch (const tour::UsageError& error) {
    std::cerr << "posenc_inspect: " << error.what() << "\n\n" << usage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "posenc_inspect: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
