// SPDX-License-Identifier: MIT
// Loads model files into a released llama.cpp and prints the position operators of its graph.
//
//   record FOLDER       FOLDER has libllama, libggml and libggml-base
//
// Commands are lines on the standard input; answers are lines of JSON, the last of which has "end".
//   load FILE CONTEXT FIRST TOKENS    loads FILE, and decodes TOKENS tokens from position FIRST on.
//                                     Models with an encoder run it before; without a decoder, alone.
//   rotate WIDTH N MODE ORIGINAL BASE SCALE EXT ATTN FAST SLOW S0 S1 S2 S3 POSITION FACTOR...
//                                     runs ggml's operator on a vector of WIDTH channels
//   alibi HEADS MAX_BIAS              runs ggml's softmax on two keys at distances 0 and 1
//
// The program exports functions of ggml by name. libllama binds to them, because the program comes
// first in the order of lookup. Each prints its arguments and calls the function of libggml-base.
#include <dlfcn.h>

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Context;
/// First fields of ggml_tensor, which have not changed since 2023. print_inputs() checks extents.
struct Tensor {
  std::int32_t type;
  void* buffer;
  std::int64_t extents[4];
  std::size_t strides[4];
};

void *base_library, *llama_library, *registry_library;

template <class F>
F* function(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "record: no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<F*>(found);
}
#define BASE(name, ...)                                              \
  ([] {                                                              \
    static auto* found = function<__VA_ARGS__>(base_library, #name); \
    return found;                                                    \
  }())

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out + '"';
}
std::string name_of(const Tensor* tensor) {
  return tensor ? BASE(ggml_get_name, const char*(const Tensor*))(tensor) : "";
}

bool is_recording = false;
std::set<const Tensor*> inputs;  // masks and temperatures, whose elements are printed

/// Registers a tensor and returns its address, because the masks of a graph share a name. Tensors
/// that the graph computes have no values yet when inputs are printed, so they are not registered.
std::string input(const Tensor* tensor) {
  if (tensor == nullptr) return "";
  const std::string op = BASE(ggml_op_desc, const char*(const Tensor*))(tensor);
  if (op == "NONE") inputs.insert(tensor);
  std::ostringstream address;
  address << static_cast<const void*>(tensor);
  return address.str();
}

void print(const char* format, ...) {
  if (!is_recording) return;
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::putchar('\n');
}

std::string number(float value) {
  if (std::isnan(value)) return "null";
  if (std::isinf(value)) return value < 0 ? "-1e999" : "1e999";  // read as infinities
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

bool is_temperature(const std::string& name) {
  return name.find("scale") != std::string::npos && name.find("weight") == std::string::npos;
}

void print_inputs() {
  for (const Tensor* tensor : inputs) {
    const auto count = BASE(ggml_nelements, std::int64_t(const Tensor*))(tensor);
    const auto bytes = BASE(ggml_nbytes, std::size_t(const Tensor*))(tensor);
    std::int64_t product = 1;
    for (const auto extent : tensor->extents) product *= extent;
    if (tensor->buffer == nullptr || product != count || tensor->type > 1) continue;
    std::vector<unsigned char> raw(bytes);
    BASE(ggml_backend_tensor_get, void(const Tensor*, void*, std::size_t, std::size_t))
    (tensor, raw.data(), 0, bytes);
    std::string values;
    for (std::int64_t i = 0; i < count; ++i) {
      float value = 0;
      if (tensor->type == 0) {
        std::memcpy(&value, &raw[static_cast<std::size_t>(i) * 4], 4);
      } else {
        std::uint16_t half = 0;
        std::memcpy(&half, &raw[static_cast<std::size_t>(i) * 2], 2);
        value = BASE(ggml_fp16_to_fp32, float(std::uint16_t))(half);
      }
      values += (i ? "," : "") + number(value);
    }
    print("{\"input\":%s,\"extents\":[%ld,%ld,%ld,%ld],\"values\":[%s]}",
          json_text(input(tensor)).c_str(), tensor->extents[0], tensor->extents[1],
          tensor->extents[2], tensor->extents[3], values.c_str());
  }
}

void print_rope(const Tensor* a, const Tensor* result, const Tensor* factors, int n,
                const int* sections, int mode, int original, float base, float scale, float ext,
                float attn, float fast, float slow) {
  static constexpr int none[4] = {0, 0, 0, 0};
  if (sections == nullptr) sections = none;
  print(
      "{\"op\":\"rope\",\"a\":%s,\"result\":\"%p\",\"width\":%ld,\"n\":%d,\"mode\":%d,\"original\":"
      "%d,\"base\":%.9g,"
      "\"scale\":%.9g,\"ext\":%.9g,\"attn\":%.9g,\"fast\":%.9g,\"slow\":%.9g,"
      "\"sections\":[%d,%d,%d,%d],\"factors\":%s}",
      json_text(name_of(a)).c_str(), static_cast<const void*>(result), a->extents[0], n, mode,
      original, base, scale, ext, attn, fast, slow, sections[0], sections[1], sections[2],
      sections[3], json_text(name_of(factors)).c_str());
}

std::string said;

}  // namespace

#define ROPE_PARAMETERS                                                                   \
  Context *c, Tensor *a, Tensor *b, Tensor *f, int n, int mode, int original, float base, \
      float scale, float ext, float attn, float fast, float slow
#define ROPE(name)                                                                                 \
  Tensor* name(ROPE_PARAMETERS) {                                                                  \
    Tensor* r = BASE(name, Tensor * (ROPE_PARAMETERS))(c, a, b, f, n, mode, original, base, scale, \
                                                       ext, attn, fast, slow);                     \
    print_rope(a, r, f, n, nullptr, mode, original, base, scale, ext, attn, fast, slow);           \
    return r;                                                                                      \
  }
extern "C" {
ROPE(ggml_rope_ext)
ROPE(ggml_rope_ext_inplace)
ROPE(ggml_rope_ext_back)
Tensor* ggml_rope(Context* c, Tensor* a, Tensor* b, int n, int mode) {
  Tensor* r = BASE(ggml_rope, Tensor * (Context*, Tensor*, Tensor*, int, int))(c, a, b, n, mode);
  print_rope(a, r, nullptr, n, nullptr, mode, 0, 10000, 1, 0, 1, 0, 0);
  return r;
}
Tensor* ggml_rope_multi(Context* c, Tensor* a, Tensor* b, Tensor* f, int n, int s[4], int mode,
                        int original, float base, float scale, float ext, float attn, float fast,
                        float slow) {
  Tensor* r = BASE(ggml_rope_multi, Tensor * (Context*, Tensor*, Tensor*, Tensor*, int, int*, int,
                                              int, float, float, float, float, float, float))(
      c, a, b, f, n, s, mode, original, base, scale, ext, attn, fast, slow);
  print_rope(a, r, f, n, s, mode, original, base, scale, ext, attn, fast, slow);
  return r;
}
Tensor* ggml_rope_set_offset(Tensor* a, std::intptr_t offset, std::intptr_t other) {
  print("{\"op\":\"offset\",\"result\":\"%p\",\"offset\":%d}", static_cast<void*>(a),
        static_cast<int>(offset));
  return BASE(ggml_rope_set_offset, Tensor * (Tensor*, std::intptr_t, std::intptr_t))(a, offset,
                                                                                      other);
}
Tensor* ggml_soft_max_ext(Context* c, Tensor* a, Tensor* m, float scale, float bias) {
  print("{\"op\":\"softmax\",\"a\":%s,\"mask\":%s,\"scale\":%.9g,\"max_bias\":%.9g,\"cap\":0}",
        json_text(name_of(a)).c_str(), json_text(input(m)).c_str(), scale, bias);
  return BASE(ggml_soft_max_ext, Tensor * (Context*, Tensor*, Tensor*, float, float))(c, a, m,
                                                                                      scale, bias);
}
Tensor* ggml_soft_max(Context* c, Tensor* a) {
  print("{\"op\":\"softmax\",\"a\":%s,\"mask\":\"\",\"scale\":1,\"max_bias\":0,\"cap\":0}",
        json_text(name_of(a)).c_str());
  return BASE(ggml_soft_max, Tensor * (Context*, Tensor*))(c, a);
}
Tensor* ggml_flash_attn_ext(Context* c, Tensor* q, Tensor* k, Tensor* v, Tensor* m, float scale,
                            float bias, float cap) {
  print("{\"op\":\"softmax\",\"a\":%s,\"mask\":%s,\"scale\":%.9g,\"max_bias\":%.9g,\"cap\":%.9g}",
        json_text(name_of(q)).c_str(), json_text(input(m)).c_str(), scale, bias, cap);
  return BASE(ggml_flash_attn_ext, Tensor * (Context*, Tensor*, Tensor*, Tensor*, Tensor*, float,
                                             float, float))(c, q, k, v, m, scale, bias, cap);
}
void ggml_flash_attn_ext_add_sinks(Tensor* a, Tensor* sinks) {
  if (sinks) print("{\"op\":\"sinks\"}");
  BASE(ggml_flash_attn_ext_add_sinks, void(Tensor*, Tensor*))(a, sinks);
}
void ggml_soft_max_add_sinks(Tensor* a, Tensor* sinks) {
  if (sinks) print("{\"op\":\"sinks\"}");
  BASE(ggml_soft_max_add_sinks, void(Tensor*, Tensor*))(a, sinks);
}
Tensor* ggml_scale(Context* c, Tensor* a, float factor) {
  print("{\"op\":\"scale\",\"a\":%s,\"factor\":%.9g}", json_text(name_of(a)).c_str(), factor);
  return BASE(ggml_scale, Tensor * (Context*, Tensor*, float))(c, a, factor);
}
Tensor* ggml_tanh(Context* c, Tensor* a) {
  print("{\"op\":\"tanh\",\"a\":%s}", json_text(name_of(a)).c_str());
  return BASE(ggml_tanh, Tensor * (Context*, Tensor*))(c, a);
}
Tensor* ggml_mul(Context* c, Tensor* a, Tensor* b) {
  if (is_temperature(name_of(b)))
    print("{\"op\":\"mul\",\"a\":%s,\"b\":%s}", json_text(name_of(a)).c_str(),
          json_text(input(b)).c_str());
  return BASE(ggml_mul, Tensor * (Context*, Tensor*, Tensor*))(c, a, b);
}
int ggml_backend_sched_graph_compute_async(void* scheduler, void* graph) {
  if (is_recording) print_inputs();  // they are set now, and their memory is reused later
  return BASE(ggml_backend_sched_graph_compute_async, int(void*, void*))(scheduler, graph);
}
Tensor* ggml_format_name(Tensor* tensor, const char* format, ...) {
  char name[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  if (std::strncmp(name, "cache", 5) != 0)
    print("{\"op\":\"name\",\"a\":%s}", json_text(name).c_str());
  return BASE(ggml_set_name, Tensor * (Tensor*, const char*))(tensor, name);
}
}

namespace {

struct Parameters {  // of any release: only its first fields are set here, the others by libllama
  std::uint32_t fields[256];
};
struct Batch {
  std::int32_t count;
  std::int32_t* tokens;
  float* embeddings;
  std::int32_t *positions, *sequence_counts, **sequences;
  std::int8_t* outputs;
};

void load(std::istringstream& line) {
  std::string file;
  std::uint32_t context_size = 0;
  std::int32_t first = 0, tokens = 0;
  line >> file >> context_size >> first >> tokens;
  auto* load_model =
      function<void*(const char*, Parameters)>(llama_library, "llama_model_load_from_file");
  auto* model_defaults = function<Parameters()>(llama_library, "llama_model_default_params");
  auto* context_defaults = function<Parameters()>(llama_library, "llama_context_default_params");
  auto* make_context = function<void*(void*, Parameters)>(llama_library, "llama_init_from_model");
  auto* free_context = function<void(void*)>(llama_library, "llama_free");
  auto* free_model = function<void(void*)>(llama_library, "llama_model_free");
  auto* decode = function<std::int32_t(void*, Batch)>(llama_library, "llama_decode");
  auto* encode = function<std::int32_t(void*, Batch)>(llama_library, "llama_encode");
  auto* has_encoder = function<bool(const void*)>(llama_library, "llama_model_has_encoder");
  auto* has_decoder = function<bool(const void*)>(llama_library, "llama_model_has_decoder");
  auto* set_threads =
      function<void(void*, std::int32_t, std::int32_t)>(llama_library, "llama_set_n_threads");
  auto* make_batch =
      function<Batch(std::int32_t, std::int32_t, std::int32_t)>(llama_library, "llama_batch_init");
  auto* free_batch = function<void(Batch)>(llama_library, "llama_batch_free");

  said.clear();
  inputs.clear();
  void* model = load_model(file.c_str(), model_defaults());
  const char* end = "not loaded";
  if (model != nullptr) {
    end = "no context";
    Parameters parameters = context_defaults();
    parameters.fields[0] = context_size;
    parameters.fields[1] = parameters.fields[2] = tokens == 1 ? 1 : 512;  // tokens of a batch
    if (void* context = make_context(model, parameters)) {
      end = "not decoded";
      inputs.clear();
      set_threads(context, 1, 1);
      Batch batch = make_batch(tokens, 0, 1);
      batch.count = tokens;
      for (int i = 0; i < tokens; ++i) {
        batch.tokens[i] = i % 8;
        batch.positions[i] = first + i;
        batch.sequence_counts[i] = 1;
        batch.sequences[i][0] = 0;
        batch.outputs[i] = i + 1 == tokens;
      }
      const bool encodes = has_encoder(model), decodes = has_decoder(model);
      is_recording = encodes && !decodes;
      bool is_run = !encodes || encode(context, batch) == 0;
      is_recording = decodes;
      is_run = is_run && (!decodes || decode(context, batch) == 0);
      is_recording = false;
      if (is_run) end = "decoded";
      free_batch(batch);
      free_context(context);
    }
    free_model(model);
  }
  std::printf("{\"end\":\"%s\",\"said\":%s}\n", end, json_text(said).c_str());
}

struct Graph;
/// A graph of one operator with its memory.
class Operator {
 public:
  Operator() {
    struct {
      std::size_t size = std::size_t{1} << 20;
      void* memory = nullptr;
      bool without_data = true;
    } setting;
    context_ = BASE(ggml_init, Context * (decltype(setting)))(setting);
  }
  ~Operator() {
    BASE(ggml_backend_buffer_free, void(void*))(buffer_);
    BASE(ggml_free, void(Context*))(context_);
  }
  Operator(const Operator&) = delete;

  Context* context() const { return context_; }
  Tensor* tensor(int type, std::int64_t n, std::int64_t rows = 1, std::int64_t heads = 1) const {
    return BASE(ggml_new_tensor_4d,
                Tensor * (Context*, int, std::int64_t, std::int64_t, std::int64_t, std::int64_t))(
        context_, type, n, rows, heads, 1);
  }
  /// Allocates all tensors. Afterwards set() writes the inputs.
  void allocate(Tensor* result) {
    graph_ = BASE(ggml_new_graph, Graph * (Context*))(context_);
    BASE(ggml_build_forward_expand, void(Graph*, Tensor*))(graph_, result);
    static void* backend = [] {
      void* made = function<void*(int, const char*)>(registry_library, "ggml_backend_init_by_type")(
          0, nullptr);
      void* device = BASE(ggml_backend_get_device, void*(void*))(made);
      void* registry = BASE(ggml_backend_dev_backend_reg, void*(void*))(device);
      void* set_threads = BASE(ggml_backend_reg_get_proc_address, void*(void*, const char*))(
          registry, "ggml_backend_set_n_threads");
      if (set_threads != nullptr) reinterpret_cast<void (*)(void*, int)>(set_threads)(made, 1);
      return made;
    }();
    backend_ = backend;
    buffer_ = BASE(ggml_backend_alloc_ctx_tensors, void*(Context*, void*))(context_, backend_);
  }
  template <class T>
  static void set(Tensor* tensor, const std::vector<T>& values) {
    BASE(ggml_backend_tensor_set, void(Tensor*, const void*, std::size_t, std::size_t))
    (tensor, values.data(), 0, values.size() * sizeof(T));
  }
  std::vector<float> compute(Tensor* result) {
    BASE(ggml_backend_graph_compute, int(void*, Graph*))(backend_, graph_);
    std::vector<float> values(
        static_cast<std::size_t>(BASE(ggml_nelements, std::int64_t(const Tensor*))(result)));
    BASE(ggml_backend_tensor_get, void(const Tensor*, void*, std::size_t, std::size_t))
    (result, values.data(), 0, values.size() * sizeof(float));
    return values;
  }

 private:
  Context* context_ = nullptr;
  Graph* graph_ = nullptr;
  void *backend_ = nullptr, *buffer_ = nullptr;
};

void print_values(const std::vector<float>& values) {
  std::printf("{\"end\":\"computed\",\"values\":[");
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%s", i ? "," : "", number(values[i]).c_str());
  }
  std::printf("]}\n");
}

void rotate(std::istringstream& line) {
  int width = 0, n = 0, mode = 0, original = 0, sections[4] = {};
  std::int32_t position = 0;
  float base = 0, scale = 0, ext = 0, attn = 0, fast = 0, slow = 0;
  line >> width >> n >> mode >> original >> base >> scale >> ext >> attn >> fast >> slow;
  for (int& section : sections) line >> section;
  line >> position;
  std::vector<float> factors;
  for (float factor = 0; line >> factor;) factors.push_back(factor);
  const bool has_axes = (mode & 8) != 0;
  Operator op;
  Tensor* x = op.tensor(0, width);
  Tensor* p = op.tensor(26, has_axes ? 4 : 1);  // 26: int32
  Tensor* f = factors.empty() ? nullptr : op.tensor(0, static_cast<std::int64_t>(factors.size()));
  Tensor* y = has_axes ? ggml_rope_multi(op.context(), x, p, f, n, sections, mode, original, base,
                                         scale, ext, attn, fast, slow)
                       : ggml_rope_ext(op.context(), x, p, f, n, mode, original, base, scale, ext,
                                       attn, fast, slow);
  op.allocate(y);
  std::vector<float> values(static_cast<std::size_t>(width));
  for (int i = 0; i < width; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>((7 * i + 3) % 11 - 5) / 4;
  }
  op.set(x, values);
  std::vector<std::int32_t> positions{position, position + 3, position + 6, position + 9};
  positions.resize(has_axes ? 4 : 1);  // one per axis
  op.set(p, positions);
  if (f != nullptr) op.set(f, factors);
  print_values(op.compute(y));
}

/// Prints the probabilities of two keys with equal scores, at distances 0 and 1, for each head.
void alibi(std::istringstream& line) {
  std::int64_t heads = 0;
  float max_bias = 0;
  line >> heads >> max_bias;
  Operator op;
  Tensor *scores = op.tensor(0, 2, 1, heads), *mask = op.tensor(0, 2);
  Tensor* y = ggml_soft_max_ext(op.context(), scores, mask, 1, max_bias);
  op.allocate(y);
  op.set(scores, std::vector<float>(static_cast<std::size_t>(2 * heads)));
  op.set(mask, std::vector<float>{0, -1});
  print_values(op.compute(y));
}

void* open_library(const std::filesystem::path& folder, const std::string& stem) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(stem + '.', 0) != 0) continue;
    if (void* library = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    std::fprintf(stderr, "record: %s\n", dlerror());
  }
  std::fprintf(stderr, "record: no %s in %s\n", stem.c_str(), folder.c_str());
  std::exit(2);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  base_library = open_library(folder, "libggml-base");
  registry_library = open_library(folder, "libggml");
  llama_library = open_library(folder, "libllama");
  function<void(void (*)(int, const char*, void*), void*)>(llama_library, "llama_log_set")(
      [](int, const char* text, void*) { said += text; }, nullptr);
  function<void(const char*)>(registry_library, "ggml_backend_load_all_from_path")(folder.c_str());
  function<void()>(llama_library, "llama_backend_init")();
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string command;
    line >> command;
    if (command == "load") load(line);
    if (command == "rotate") rotate(line);
    if (command == "alibi") alibi(line);
    std::fflush(stdout);
  }
}
