// SPDX-License-Identifier: MIT
// The Python module `posenc` over the C interface. Tensors come by DLPack, from numpy, PyTorch and
// others, and are read and written where they are.
#include "posenc.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;
using namespace py::literals;
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

namespace {

// ---- DLPack, https://dmlc.github.io/dlpack/latest/c_api.html ----

struct DLTensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  const std::int64_t* shape;
  const std::int64_t* strides;  ///< nullptr: dense
  std::uint64_t byte_offset;
};
constexpr int dl_cpu = 1, dl_int = 0, dl_float = 2, dl_bfloat = 4;

/// A tensor of another library. The capsule keeps its memory alive, and frees it.
class Tensor {
 public:
  Tensor(const py::object& owner, const std::string& name) : name_(name) {
    if (!py::hasattr(owner, "__dlpack__")) fail<py::type_error>("has no __dlpack__");
    const auto device = owner.attr("__dlpack_device__")().cast<std::pair<int, int>>();
    if (device.first != dl_cpu) fail<py::value_error>("is not in memory of the CPU");
    capsule_ = owner.attr("__dlpack__")();
    tensor_ = capsule_.get_pointer<DLTensor>();  // a DLManagedTensor begins with its DLTensor
  }

  /// Returns [B, S, H, D], or [S, H, D] as one batch row.
  posenc_heads heads() const {
    if (tensor_->ndim != 3 && tensor_->ndim != 4) fail<py::value_error>("is not [B, S, H, D]");
    const bool is_float = has_type(dl_float, 32);
    if (!is_float && !has_type(dl_bfloat, 16)) fail<py::type_error>("is not float32 or bfloat16");
    const int b = tensor_->ndim - 4;  // -1 without an axis of batch rows
    if (stride(b + 3) != 1 && extent(b + 3) > 1) fail<py::value_error>("has strided channels");
    return {data(),        is_float ? POSENC_FLOAT32 : POSENC_BFLOAT16,
            extent(b),     extent(b + 1),
            extent(b + 2), extent(b + 3),
            stride(b),     stride(b + 1),
            stride(b + 2)};
  }

  /// Returns ids [B, S], or [S] for all batch rows.
  posenc_positions positions() const {
    if (tensor_->ndim != 1 && tensor_->ndim != 2) fail<py::value_error>("is not [B, S] or [S]");
    const bool is_long = has_type(dl_int, 64);
    if (!is_long && !has_type(dl_int, 32)) fail<py::type_error>("is not int32 or int64");
    const int b = tensor_->ndim - 2;
    if (stride(b + 1) != 1 && extent(b + 1) > 1) fail<py::value_error>("has strided ids");
    return {data(), 0, is_long ? POSENC_INT64 : POSENC_INT32, extent(b), extent(b + 1), stride(b)};
  }

 private:
  template <class Error>
  [[noreturn]] void fail(const char* rule) const {
    throw Error(name_ + " " + rule);
  }
  bool has_type(int code, int bits) const {
    return tensor_->code == code && tensor_->bits == bits && tensor_->lanes == 1;
  }
  void* data() const { return static_cast<char*>(tensor_->data) + tensor_->byte_offset; }
  std::int64_t extent(int axis) const { return axis < 0 ? 1 : tensor_->shape[axis]; }
  std::int64_t stride(int axis) const {
    if (axis < 0) return 0;
    if (tensor_->strides != nullptr) return tensor_->strides[axis];
    std::int64_t product = 1;
    while (++axis < tensor_->ndim) product *= tensor_->shape[axis];
    return product;
  }

  std::string name_;
  py::capsule capsule_;
  const DLTensor* tensor_ = nullptr;
};

// ---- errors ----

/// Raises the exception of Python for a status, with the message of the library.
void check(posenc_status status) {
  if (status == POSENC_OK) return;
  PyObject* type = PyExc_RuntimeError;
  if (status == POSENC_SHAPE_ERROR || status == POSENC_CONFIG_ERROR) type = PyExc_ValueError;
  if (status == POSENC_POSITION_ERROR) type = PyExc_IndexError;
  if (status == POSENC_FILE_ERROR) type = PyExc_OSError;
  if (status == POSENC_MEMORY_ERROR) type = PyExc_MemoryError;
  PyErr_SetString(type, posenc_last_error());
  throw py::error_already_set();
}

/// Calls a function of the C interface while other threads of Python run.
template <class... Parameters, class... Arguments>
void call(posenc_status (*function)(Parameters...), Arguments... arguments) {
  posenc_status status;
  {
    const py::gil_scoped_release release;
    status = function(arguments...);
  }
  check(status);
}

// ---- the module ----

class Rope {
 public:
  Rope(const std::string& rule, const std::string& pairing, std::int64_t rotary_offset,
       std::int64_t length, const py::kwargs& fields) {
    std::vector<std::string> names;
    std::vector<posenc_setting> settings;
    names.reserve(fields.size());
    for (const auto& [name, value] : fields) {
      names.push_back(name.cast<std::string>());
      settings.push_back({names.back().c_str(), value.cast<double>()});
    }
    const int kind = pairing == "half" ? POSENC_HALF_ROTATE : POSENC_INTERLEAVED;
    if (kind == POSENC_INTERLEAVED && pairing != "interleaved") {
      throw py::value_error("pairing must be 'half' or 'interleaved' but is '" + pairing + "'");
    }
    check(posenc_rope_from_rule(rule.c_str(), settings.data(), settings.size(), kind, rotary_offset,
                                length, &rope_));
  }
  Rope(const std::string& path, std::optional<std::int64_t> layer, std::int64_t length) {
    check(posenc_rope_from_file(path.c_str(), layer.value_or(-1), length, &rope_));
  }
  Rope(Rope&& other) noexcept : rope_(std::exchange(other.rope_, nullptr)) {}
  ~Rope() { posenc_rope_free(rope_); }

  posenc_rope_info info() const {
    posenc_rope_info info;
    check(posenc_rope_describe(rope_, &info, nullptr));
    return info;
  }
  py::array_t<double> inv_freq() const {
    py::array_t<double> values(info().rotary_dim / 2);
    check(posenc_rope_describe(rope_, nullptr, values.mutable_data()));
    return values;
  }
  py::object rotate(const py::object& x, const py::object& positions, const py::object& out) const {
    const py::object& target = out.is_none() ? x : out;
    const Tensor from(x, "x"), to(target, "out");
    const posenc_heads from_view = from.heads(), to_view = to.heads();
    with_positions(positions, from_view.seq, [&](const posenc_positions& p) {
      call(posenc_rotate, rope_, &from_view, &to_view, &p);
    });
    return target;
  }
  py::tuple cos_sin(const py::object& positions) const {
    py::array_t<float> cos, sin;
    with_positions(positions, 1, [&](const posenc_positions& p) {
      cos.resize({p.batch, p.seq, info().rotary_dim / 2});
      sin.resize({p.batch, p.seq, info().rotary_dim / 2});
      call(posenc_cos_sin, rope_, &p, cos.mutable_data(), sin.mutable_data());
    });
    return py::make_tuple(cos, sin);
  }

 private:
  /// Calls f with ids, or with the range of `seq` positions that begins at an int.
  template <class F>
  static void with_positions(const py::object& positions, std::int64_t seq, const F& f) {
    if (py::isinstance<py::int_>(positions)) {
      f(posenc_range(positions.cast<std::int64_t>(), seq));
    } else {
      const Tensor ids(positions, "positions");
      f(ids.positions());
    }
  }

  posenc_rope* rope_ = nullptr;
};

py::object attention(const py::object& q, const py::object& k, const py::object& v,
                     const std::string& causal, std::optional<double> scale,
                     std::optional<std::int64_t> window, const std::optional<Doubles>& slopes,
                     const py::object& out) {
  const Tensor q_tensor(q, "q"), k_tensor(k, "k"), v_tensor(v, "v");
  const posenc_heads qs = q_tensor.heads(), ks = k_tensor.heads(), vs = v_tensor.heads();
  posenc_attention_options options{0, scale.value_or(0), window.value_or(0), nullptr};
  if (causal == "no") options.causal = POSENC_NOT_CAUSAL;
  if (causal == "top_left") options.causal = POSENC_TOP_LEFT;
  if (causal == "bottom_right") options.causal = POSENC_BOTTOM_RIGHT;
  if (options.causal == 0) {
    throw py::value_error("causal must be 'no', 'top_left' or 'bottom_right' but is '" + causal +
                          "'");
  }
  if (slopes) {
    if (slopes->size() != qs.heads) throw py::value_error("alibi_slopes must be one per head of q");
    options.alibi_slopes = slopes->data();
  }
  const py::object target =
      out.is_none() ? py::array_t<float>({qs.batch, qs.seq, qs.heads, vs.dim}) : out;
  const Tensor out_tensor(target, "out");
  const posenc_heads outs = out_tensor.heads();
  call(posenc_attention, &qs, &ks, &vs, &outs, &options);
  return target;
}

}  // namespace

PYBIND11_MODULE(posenc, m) {
  m.doc() = "Positional encodings. Tensors are [B, S, H, D] or [S, H, D], and come by DLPack.";
  const auto property = [](auto field) {
    return [field](const Rope& rope) { return rope.info().*field; };
  };
  py::class_<Rope>(m, "Rope", "A rotary encoding.")
      .def(py::init<const std::string&, const std::string&, std::int64_t, std::int64_t,
                    const py::kwargs&>(),
           "rule"_a, py::kw_only(), "pairing"_a, "rotary_offset"_a = 0, "length"_a = 0,
           "A rope from a rule of posenc and its fields: Rope('Unscaled', pairing='half', "
           "rotary_dim=128, base=10000).")
      .def_static(
          "from_file",
          [](const std::string& path, std::optional<std::int64_t> layer, std::int64_t length) {
            return Rope(path, layer, length);
          },
          "path"_a, "layer"_a = py::none(), "length"_a = 0,
          "The rope of a layer of a model, from its config.json or GGUF file.")
      .def("rotate", &Rope::rotate, "x"_a, "positions"_a, "out"_a = py::none(),
           "Rotates x in place, or into out, by positions [B, S], [S], or those from an int on.")
      .def("cos_sin", &Rope::cos_sin, "positions"_a,
           "Returns the tables of cos and sin [B, S, rotary_dim / 2].")
      .def_property_readonly("inv_freq", &Rope::inv_freq)
      .def_property_readonly("rotary_dim", property(&posenc_rope_info::rotary_dim))
      .def_property_readonly("rotary_offset", property(&posenc_rope_info::rotary_offset))
      .def_property_readonly("attention_factor", property(&posenc_rope_info::attention_factor))
      .def_property_readonly("softmax_scale", property(&posenc_rope_info::softmax_scale));
  m.def(
      "alibi_slopes",
      [](std::int64_t heads, double max_bias) {
        py::array_t<double> slopes(std::max<std::int64_t>(heads, 0));
        check(posenc_alibi_slopes(heads, max_bias, slopes.mutable_data()));
        return slopes;
      },
      "heads"_a, "max_bias"_a = 8.0, "Returns the slopes of ALiBi.");
  m.def("attention", &attention, "q"_a, "k"_a, "v"_a, py::kw_only(), "causal"_a,
        "scale"_a = py::none(), "window"_a = py::none(), "alibi_slopes"_a = py::none(),
        "out"_a = py::none(),
        "Returns softmax(scale q k^T + bias + mask) v in out, or in a new array of numpy.");
}
