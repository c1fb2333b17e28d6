// SPDX-License-Identifier: MIT
// The C interface over posenc. No exception leaves a function of it, and every structure of the
// caller is checked by the call of the library that it describes.
#include "posenc.h"

#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/without_eigen.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

using posenc::Bfloat16;
using posenc::ConfigError;
using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;

/// The rope behind the pointer of the caller.
struct posenc_rope {
  posenc::AnyRope rope;
  double softmax_scale = 0;
};

namespace {

thread_local char last_error[1024] = "";

struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

posenc_status failed(posenc_status status, const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

/// Calls body, and turns an exception into a status and a message.
template <class F>
posenc_status guarded(const F& body) noexcept {
  try {
    body();
    return POSENC_OK;
  } catch (const posenc::ShapeError& error) {
    return failed(POSENC_SHAPE_ERROR, error.what());
  } catch (const ConfigError& error) {
    return failed(POSENC_CONFIG_ERROR, error.what());
  } catch (const posenc::PositionError& error) {
    return failed(POSENC_POSITION_ERROR, error.what());
  } catch (const FileError& error) {
    return failed(POSENC_FILE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return failed(POSENC_MEMORY_ERROR, "posenc: out of memory");
  } catch (const std::exception& error) {
    return failed(POSENC_OTHER_ERROR, error.what());
  } catch (...) {
    return failed(POSENC_OTHER_ERROR, "posenc: unknown error");
  }
}

/// Returns the object that a pointer of the caller leads to.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) throw ConfigError(std::string("posenc: ") + name + " must not be NULL");
  return *pointer;
}

[[noreturn]] void reject(const char* name, std::int64_t value) {
  throw ConfigError(std::string("posenc: ") + name + " has no value " + std::to_string(value));
}

// ---- rules ----

/// Stores a number in a field of a rule.
template <class Field>
void assign(Field& field, const posenc_setting& setting) {
  const double value = setting.value;
  if constexpr (std::same_as<Field, double> || std::same_as<Field, std::optional<double>>) {
    field = value;
  } else if constexpr (std::same_as<Field, Index> || std::same_as<Field, bool>) {
    const double limit = std::same_as<Field, bool> ? 1 : 0x1p53;
    if (!(std::abs(value) <= limit) || std::trunc(value) != value || (limit == 1 && value < 0)) {
      throw ConfigError(std::string("posenc: ") + setting.name + " must be " +
                        (limit == 1 ? "0 or 1" : "an integer") + " but is " +
                        std::to_string(value));
    }
    field = static_cast<Field>(value);
  } else {
    throw ConfigError(std::string("posenc: ") + setting.name +
                      " is not a number; use a model's file");
  }
}

/// Returns the frequencies of the rule with this name, the N-th of the library or a later one.
template <std::size_t N = 1>
posenc::Frequencies frequencies_of(std::string_view name, std::span<const posenc_setting> settings,
                                   Index length) {
  if constexpr (N == std::variant_size_v<posenc::RotaryRule>) {
    throw ConfigError("posenc: there is no rule " + std::string(name));
  } else {
    using Rule = std::variant_alternative_t<N, posenc::RotaryRule>;
    using Description = posenc::RuleDescription<Rule>;
    if (name != Description::name) return frequencies_of<N + 1>(name, settings, length);
    Rule rule;
    for (const posenc_setting& setting : settings) {
      required(setting.name, "the name of a setting");
      bool is_field = false;
      Description::fields([&](std::string_view field, auto member) {
        if (field != setting.name) return;
        assign(rule.*member, setting);
        is_field = true;
      });
      if (!is_field) {
        throw ConfigError("posenc: " + std::string(name) + " has no field " + setting.name);
      }
    }
    if constexpr (posenc::FrequencyRule<Rule>) {
      return frequencies(rule);
    } else {
      return frequencies(rule, length);
    }
  }
}

posenc::PairingKind pairing_of(std::int32_t pairing) {
  if (pairing == POSENC_INTERLEAVED) return posenc::PairingKind::Interleaved;
  if (pairing == POSENC_HALF_ROTATE) return posenc::PairingKind::HalfRotate;
  reject("pairing", pairing);
}

posenc::ModelSettings read_model(const char* path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  if (!file.read(magic, sizeof magic)) {
    throw FileError(std::string(path) + ": cannot be read, or is shorter than 4 bytes");
  }
  if (std::string_view(magic, sizeof magic) == "GGUF") {
    return posenc::read_gguf(std::filesystem::path(path));
  }
  file.seekg(0);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return posenc::read_hf_config(text);
}

// ---- tensors and positions ----

template <class T>
HeadsView<T> view(const posenc_heads& x) {
  return {static_cast<T*>(x.data), x.batch,      x.seq,        x.heads, x.dim,
          x.batch_stride,          x.seq_stride, x.head_stride};
}

/// Calls f with a view of the type that x names.
template <class F>
void with_view(const posenc_heads& x, const F& f) {
  if (x.type == POSENC_FLOAT32) return f(view<float>(x));
  if (x.type == POSENC_BFLOAT16) return f(view<Bfloat16>(x));
  reject("the type of a tensor", x.type);
}

Positions positions_of(const posenc_positions& p) {
  if (p.ids == nullptr) return Positions::range(p.start, p.seq);
  const auto ids = [&]<class Id>(const Id* data) {
    return Positions::view(posenc::MatrixView<const Id>{
        .data = data, .rows = p.batch, .cols = p.seq, .row_stride = p.batch_stride});
  };
  if (p.type == POSENC_INT32) return ids(static_cast<const std::int32_t*>(p.ids));
  if (p.type == POSENC_INT64) return ids(static_cast<const std::int64_t*>(p.ids));
  reject("the type of the positions", p.type);
}

template <class T, class Bias>
void attend(const posenc_heads& q, HeadsView<T> k, const posenc_heads& v, const posenc_heads& out,
            const posenc_attention_options& given, const Bias& bias) {
  posenc::AttentionOptions<float> options;
  if (given.scale != 0) options.scale = given.scale;
  if (given.window != 0) options.window = posenc::sliding_window(given.window);
  if (given.causal == POSENC_NOT_CAUSAL) {
    options.causal = posenc::Causal::No;
  } else if (given.causal == POSENC_TOP_LEFT) {
    options.causal = posenc::Causal::TopLeft;
  } else if (given.causal == POSENC_BOTTOM_RIGHT) {
    options.causal = posenc::Causal::BottomRight;
  } else {
    reject("causal", given.causal);
  }
  posenc::attention(view<float>(q), k, view<T>(v), view<float>(out), options, bias);
}

}  // namespace

const char* posenc_last_error(void) { return last_error; }

posenc_status posenc_rope_from_rule(const char* rule, const posenc_setting* settings, size_t count,
                                    int32_t pairing, int64_t rotary_offset, int64_t length,
                                    posenc_rope** rope) {
  return guarded([&] {
    if (count != 0) required(settings, "settings");
    const posenc::PairingKind kind = pairing_of(pairing);
    posenc::AnyRope made(
        kind, frequencies_of(&required(rule, "rule"), std::span(settings, count), length),
        rotary_offset);
    required(rope, "rope") = new posenc_rope{std::move(made)};
  });
}

posenc_status posenc_rope_from_file(const char* path, int64_t layer, int64_t length,
                                    posenc_rope** rope) {
  return guarded([&] {
    const posenc::ModelSettings model = read_model(&required(path, "path"));
    const posenc::RotarySettings* const settings =
        layer == -1 ? &rotary(model) : rotary_of_layer(model, layer);
    if (settings == nullptr) {
      throw ConfigError("posenc: layer " + std::to_string(layer) + " has no rotary encoding");
    }
    const auto of_layer = std::find_if(model.layers.begin(), model.layers.end(),
                                       [&](const auto& l) { return &l.rotary == settings; });
    const double scale = softmax_scale(model, of_layer->layer_type);
    required(rope, "rope") = new posenc_rope{posenc::rope(*settings, length), scale};
  });
}

void posenc_rope_free(posenc_rope* rope) { delete rope; }

posenc_status posenc_rope_describe(const posenc_rope* rope, posenc_rope_info* info,
                                   double* inv_freq) {
  return guarded([&] {
    const auto& [r, softmax_scale] = required(rope, "rope");
    const posenc::Frequencies& f = r.frequencies();
    if (info != nullptr) {
      *info = {r.rotary_dim(),
               r.rotary_offset(),
               r.axis_count(),
               f.attention_factor(),
               f.softmax_scale_multiplier(),
               softmax_scale};
    }
    if (inv_freq != nullptr) std::ranges::copy(f.inv_freq(), inv_freq);
  });
}

posenc_status posenc_rotate(const posenc_rope* rope, const posenc_heads* x, const posenc_heads* out,
                            const posenc_positions* positions) {
  return guarded([&] {
    const posenc::AnyRope& r = required(rope, "rope").rope;
    const Positions p = positions_of(required(positions, "positions"));
    with_view(required(x, "x"), [&](auto from) {
      with_view(required(out, "out"), [&](auto to) { r.rotate_into(from, to, p); });
    });
  });
}

posenc_status posenc_cos_sin(const posenc_rope* rope, const posenc_positions* positions, float* cos,
                             float* sin) {
  return guarded([&] {
    const auto table =
        required(rope, "rope").rope.table<float>(positions_of(required(positions, "positions")));
    const Index count = table.cos().batch * table.cos().seq * table.cos().dim;
    required(cos, "cos");
    required(sin, "sin");
    std::copy_n(table.cos().data, count, cos);
    std::copy_n(table.sin().data, count, sin);
  });
}

posenc_status posenc_alibi_slopes(int64_t heads, double max_bias, double* slopes) {
  return guarded([&] {
    const std::vector<double> values = posenc::alibi_slopes(heads, max_bias);
    std::ranges::copy(values, &required(slopes, "slopes"));
  });
}

posenc_status posenc_attention(const posenc_heads* q, const posenc_heads* k, const posenc_heads* v,
                               const posenc_heads* out, const posenc_attention_options* options) {
  return guarded([&] {
    const posenc_attention_options& given = required(options, "options");
    const Index heads = required(q, "q").heads;
    if (q->type != POSENC_FLOAT32 || required(out, "out").type != POSENC_FLOAT32) {
      throw ConfigError("posenc: q and out of attention must be float32");
    }
    if (required(k, "k").type != required(v, "v").type) {
      throw ConfigError("posenc: k and v must be of one type");
    }
    with_view(*k, [&](auto keys) {
      const double* const slopes = given.alibi_slopes;
      if (slopes == nullptr) return attend(*q, keys, *v, *out, given, posenc::NoBias{});
      attend(*q, keys, *v, *out, given,
             posenc::Alibi({slopes, slopes + std::max<Index>(heads, 0)},
                           posenc::AlibiForm::Symmetric));
    });
  });
}
