// SPDX-License-Identifier: MIT
// ONNX Runtime: its operators RotaryEmbedding and GroupQueryAttention, each a model of one node,
// called through its C interface with tensors in our memory. Keys and values of the past are in a
// buffer [1, kv_heads, keys, dim], to which the operator appends those of the queries.
#include "peers.hpp"

#include <onnxruntime_c_api.h>

#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using bench::AttentionTask, bench::Index, bench::RotationTask;

// ---- a model of one node, in ONNX's format of protocol buffers

/// Message of the format: fields with their numbers in onnx.proto.
class Message {
 public:
  Message& add(unsigned field, std::string_view text) {
    write(field << 3U | 2U);
    write(text.size());
    bytes_ += text;
    return *this;
  }
  Message& add(unsigned field, const Message& message) { return add(field, message.bytes_); }
  Message& add(unsigned field, Index number) {
    write(field << 3U);
    write(static_cast<std::uint64_t>(number));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void write(std::uint64_t number) {
    for (; number >= 128; number >>= 7U) bytes_ += static_cast<char>(number | 128U);
    bytes_ += static_cast<char>(number);
  }
  std::string bytes_;
};

/// Tensor in our memory, that a node reads or writes.
struct Argument {
  std::string name;
  ONNXTensorElementDataType type;
  std::vector<Index> shape;
  void* data;
};

struct Attribute {
  std::string name;
  Index value;
};

Message value_info(const Argument& argument) {
  Message shape;
  for (const Index extent : argument.shape) shape.add(1, Message().add(1, extent));
  return Message()
      .add(1, argument.name)
      .add(2, Message().add(1, Message().add(1, Index{argument.type}).add(2, shape)));
}

std::string model_of(const std::string& operation, std::span<const Attribute> attributes,
                     std::span<const Argument> inputs, std::span<const Argument> outputs) {
  constexpr std::string_view domain = "com.microsoft";
  Message node, graph;
  for (const Argument& x : inputs) node.add(1, x.name);
  for (const Argument& x : outputs) node.add(2, x.name);
  node.add(4, operation);
  for (const Attribute& x : attributes) {
    node.add(5, Message().add(1, x.name).add(3, x.value).add(20, Index{2}));  // 2: an integer
  }
  node.add(7, domain);
  graph.add(1, node).add(2, operation);
  for (const Argument& x : inputs) graph.add(11, value_info(x));
  for (const Argument& x : outputs) graph.add(12, value_info(x));
  return Message()
      .add(1, Index{9})
      .add(7, graph)
      .add(8, Message().add(1, "").add(2, Index{19}))
      .add(8, Message().add(1, domain).add(2, Index{1}))
      .bytes();
}

// ---- its calls

const OrtApi& api() {
  static const OrtApi* const table = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (table == nullptr) throw std::runtime_error("ONNX Runtime: older than its header");
  return *table;
}

void check(OrtStatus* status) {
  if (status == nullptr) return;
  const std::string message = api().GetErrorMessage(status);
  api().ReleaseStatus(status);
  throw std::runtime_error("ONNX Runtime: " + message);
}

template <class T>
using Released = std::unique_ptr<T, void (*)(T*)>;

OrtEnv* environment() {
  static OrtEnv* const made = [] {
    OrtEnv* env = nullptr;
    check(api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "posenc_bench_peers", &env));
    return env;
  }();
  return made;
}

/// Node whose arguments are bound once. Calls run it on one thread.
class Node {
 public:
  Node(const std::string& operation, std::span<const Attribute> attributes,
       std::span<const Argument> inputs, std::span<const Argument> outputs) {
    const std::string model = model_of(operation, attributes, inputs, outputs);
    OrtSessionOptions* options = nullptr;
    check(api().CreateSessionOptions(&options));
    const Released<OrtSessionOptions> options_owner(options, api().ReleaseSessionOptions);
    check(api().SetIntraOpNumThreads(options, 1));
    OrtSession* session = nullptr;
    check(
        api().CreateSessionFromArray(environment(), model.data(), model.size(), options, &session));
    session_.reset(session);
    OrtIoBinding* binding = nullptr;
    check(api().CreateIoBinding(session, &binding));
    binding_.reset(binding);
    for (const Argument& x : inputs) check(api().BindInput(binding, x.name.c_str(), tensor(x)));
    for (const Argument& x : outputs) check(api().BindOutput(binding, x.name.c_str(), tensor(x)));
  }

  void run() { check(api().RunWithBinding(session_.get(), nullptr, binding_.get())); }

 private:
  OrtValue* tensor(const Argument& x) {
    Index count = 1;
    for (const Index extent : x.shape) count *= extent;
    const Index size = x.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4;
    OrtMemoryInfo* memory = nullptr;
    check(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
    const Released<OrtMemoryInfo> memory_owner(memory, api().ReleaseMemoryInfo);
    OrtValue* value = nullptr;
    check(api().CreateTensorWithDataAsOrtValue(memory, x.data,
                                               static_cast<std::size_t>(count * size),
                                               x.shape.data(), x.shape.size(), x.type, &value));
    values_.emplace_back(value, api().ReleaseValue);
    return value;
  }

  std::vector<Released<OrtValue>> values_;
  Released<OrtSession> session_{nullptr, api().ReleaseSession};
  Released<OrtIoBinding> binding_{nullptr, api().ReleaseIoBinding};
};

constexpr auto f32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
constexpr auto i32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
constexpr auto i64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;

struct Rotation {
  explicit Rotation(const RotationTask& t) : x(t.x), y(t.x.size()), cos(t.cos), sin(t.sin) {
    const std::array attributes{Attribute{"num_heads", t.heads},
                                Attribute{"rotary_embedding_dim", t.dim}};
    const std::vector<Index> tokens{1, t.seq, t.heads * t.dim}, table{t.seq, t.dim / 2};
    const std::array inputs{
        Argument{"x", f32, tokens, x.data()}, Argument{"positions", i64, {1}, &position},
        Argument{"cos", f32, table, cos.data()}, Argument{"sin", f32, table, sin.data()}};
    const std::array outputs{Argument{"y", f32, tokens, y.data()}};
    node = std::make_unique<Node>("RotaryEmbedding", attributes, inputs, outputs);
  }

  std::vector<float> x, y, cos, sin;
  Index position = 0;  // the table begins with the first token
  std::unique_ptr<Node> node;
};

bench::Prepared rotation(const RotationTask& task) {
  const auto state = std::make_shared<Rotation>(task);
  return {[state] { state->node->run(); }, [state] { return state->y; }};
}

struct Attention {
  explicit Attention(const AttentionTask& t)
      : q(t.q),
        new_k(last_rows(t, t.k)),
        new_v(last_rows(t, t.v)),
        k(bench::transposed(t.k, t.keys, t.kv_heads, t.dim)),
        v(bench::transposed(t.v, t.keys, t.kv_heads, t.dim)),
        out(t.q.size()),
        last_key(static_cast<std::int32_t>(t.keys - 1)),
        keys(static_cast<std::int32_t>(t.keys)) {
    const std::array attributes{Attribute{"num_heads", t.heads},
                                Attribute{"kv_num_heads", t.kv_heads}};
    const std::vector<Index> queries{1, t.queries, t.heads * t.dim};
    const std::vector<Index> added{1, t.queries, t.kv_heads * t.dim};
    const std::vector<Index> buffer{1, t.kv_heads, t.keys, t.dim};
    const std::array inputs{
        Argument{"q", f32, queries, q.data()},     Argument{"k", f32, added, new_k.data()},
        Argument{"v", f32, added, new_v.data()},   Argument{"past_k", f32, buffer, k.data()},
        Argument{"past_v", f32, buffer, v.data()}, Argument{"last_key", i32, {1}, &last_key},
        Argument{"num_keys", i32, {1}, &keys}};
    const std::array outputs{Argument{"out", f32, queries, out.data()},
                             Argument{"present_k", f32, buffer, k.data()},
                             Argument{"present_v", f32, buffer, v.data()}};
    node = std::make_unique<Node>("GroupQueryAttention", attributes, inputs, outputs);
  }

  /// Returns the keys or values of the queries.
  static std::vector<float> last_rows(const AttentionTask& t, const std::vector<float>& x) {
    return {x.end() - t.queries * t.kv_heads * t.dim, x.end()};
  }

  std::vector<float> q, new_k, new_v, k, v, out;
  std::int32_t last_key, keys;
  std::unique_ptr<Node> node;
};

bench::Prepared attention(const AttentionTask& task) {
  const auto state = std::make_shared<Attention>(task);
  return {[state] { state->node->run(); }, [state] { return state->out; }};
}

const bool added = bench::add_peer({.name = "onnxruntime",
                                    .version = OrtGetApiBase()->GetVersionString(),
                                    .rotation_into = rotation,
                                    .attention = attention});

}  // namespace
