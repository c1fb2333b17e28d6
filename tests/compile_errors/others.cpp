// SPDX-License-Identifier: MIT
// Attention, the module, caches, additive encodings and biases.
namespace user {
struct NoAdd {};
struct AddByReference {
  void add(posenc::Index, std::span<const double>, std::span<const double>,
           posenc::MatrixView<float>&) const {}
};
struct AddToTile {
  void add(const posenc::QueryBiasTile<float>&, posenc::MatrixView<float>) const {}
};
struct ForwardOnly {
  ForwardOnly(posenc::Index in, posenc::Index out, bool) : in_(in), out_(out) {}
  posenc::Index in_dim() const { return in_; }
  posenc::Index out_dim() const { return out_; }
  void apply(posenc::EmbeddingsView<const float>, posenc::EmbeddingsView<float>) const {}
  posenc::Index parameter_count() const { return 0; }
  void randomize(std::uint64_t) {}
  posenc::Index in_, out_;
};
struct NoRotations {};
struct NoDecode {
  static posenc::Index row_bytes(posenc::Index channels) { return channels; }
  static void encode(std::span<const float>, std::span<std::byte>) {}
};
struct NoAdjoint {
  template <class T>
  void rotate_queries(posenc::HeadsView<T>, const posenc::Positions&) const {}
  template <class T>
  void rotate_keys(posenc::HeadsView<T>, const posenc::Positions&) const {}
  double softmax_scale_multiplier() const { return 1; }
};
}  // namespace user
using posenc::Causal;
using posenc::KvCache;

void program(Row<float, 4>& q, Row<float, 4>& out, Row<double, 4>& doubles, Row<float, 3>& x,
             Row<double, 3>& wide, const Row<float, 4>& constant, const Row<float, 3>& constant3,
             Row<Eigen::half, 4>& halves, Row<float, 3>& y, Row<int, 2>& integers, RowMatrix& rows,
             const RowMatrix& constant_rows, Eigen::DefaultDevice& device,
             const std::vector<posenc::Index>& sequences, const std::vector<int>& ints,
             Row<std::uint8_t, 4>& bytes) {
  using posenc::bsd;
  using posenc::bshd;
  KvCache<float> cache({.kv_heads = 2, .head_dim = 8, .capacity = 8});
  KvCache<double> wide_cache({.kv_heads = 2, .head_dim = 8, .capacity = 8});
  posenc::MultiHeadAttention<float> module({.model_dim = 8, .heads = 2});
  posenc::MultiHeadTape<float> tape;
  posenc::AttentionWorkspace workspace;
  auto gradients = module.zero_gradients();
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = 8, .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::Learned learned(posenc::table_view(rows));
  const posenc::Alibi alibi({.heads = 2, .form = posenc::AlibiForm::Causal});
  const posenc::GridResizeConfig grid{};
  const std::array<double, 2> places{0, 1};
  (void)sinusoidal, (void)learned, (void)alibi, (void)places, (void)grid;
#if CASE == 0
  // compiles
  attention(bshd(q), bshd(constant), bshd(q), bshd(out), {.causal = Causal::TopLeft});
  attention(bshd(q), bshd(q), bshd(constant), bshd(out), {.causal = Causal::No});
  attention(bshd(constant), bshd(q), bshd(constant), bshd(out), {.causal = Causal::No}, alibi, {},
            device);
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.causal = Causal::No}, {},
            {.lse = posenc::bhq(x), .workspace = &workspace}, device);
  attention(bshd(q), cache, sequences, bshd(out), {.causal = Causal::No});
  posenc::AttentionGradients<float> of_tensors;
  attention_backward(bshd(q), bshd(q), bshd(constant), bshd(out), posenc::bhq(x), bshd(out),
                     of_tensors, {.causal = Causal::No});
  attention_backward<float>(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                            {.q = bshd(out)}, {.causal = Causal::No}, alibi);
  attention_backward<float>(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out), {},
                            {.causal = Causal::No});
  attention(bshd(halves), cache, sequences, bshd(halves), {.causal = Causal::No}, {}, {}, device);
  attention(bshd(q), bshd(halves), bshd(halves), bshd(out), {.causal = Causal::No}, alibi, {},
            device);
  attention(bshd(constant), posenc::HeadsView<const Eigen::half>(bshd(halves)), bshd(halves),
            bshd(out), {.causal = Causal::No});
  cache.append(0, bshd(q), bshd(constant));
  cache.append(sequences, bshd(halves), bshd(halves));
  cache.append({0, 1}, {0, 2, 3}, bshd(q), bshd(constant));
  cache.append(sequences, sequences, bshd(constant), bshd(q), device);
  cache.append(1, bshd(q), bshd(q), device);
  cache.append(sequences, ints, bshd(q), bshd(constant));
  attention(bshd(q), cache, sequences, bshd(out), {.causal = Causal::No, .cu_seqlens_q = ints});
  module.forward(bsd(x), positions, bsd(y), {.causal = Causal::No});
  module.forward(bsd(x), positions, bsd(y), {.causal = Causal::No}, {.lse = posenc::bhq(x)},
                 device);
  module.forward(bsd(x), positions, cache, sequences, bsd(y), {.causal = Causal::No}, {}, device);
  module.forward(bsd(x), positions, bsd(x), bsd(constant3), positions, bsd(y),
                 {.causal = Causal::No});
  module.forward(bsd(x), positions, bsd(y), tape, {.causal = Causal::No});
  module.backward(tape, bsd(constant3), bsd(x), gradients, nullptr, device);
  module.backward(tape, bsd(y), bsd(x), bsd(x), {}, gradients);
  sinusoidal.add_to(bsd(x), positions);
  sinusoidal.write_to(bsd(wide), positions, device);
  learned.add_to(bsd(x), positions);
  alibi.add(0, places, places, posenc::table_view(rows));
#elif CASE == 1
  // error: posenc::attention: q, k, v and out must have elements of one type
  attention(bshd(q), bshd(doubles), bshd(q), bshd(out), {.causal = Causal::No});
#elif CASE == 2
  // error: posenc::attention: q, k, v and out must have elements of one type
  attention(bshd(q), bshd(doubles), bshd(doubles), bshd(out), {.causal = Causal::No}, alibi, {},
            device);
#elif CASE == 3
  // error: posenc::attention: q, k, v and out must have elements of one type, or q and out of one
  attention(bshd(halves), bshd(q), bshd(q), bshd(out));
#elif CASE == 4
  // error: posenc::attention: out is written to, so it must not be const
  attention(bshd(q), bshd(q), bshd(q), bshd(constant), {.causal = Causal::No});
#elif CASE == 5
  // error: posenc: attention takes (q, k, v, out, options, bias, memory)
  attention(bsd(x), bsd(x), bsd(x), bsd(y), {.causal = Causal::No});
#elif CASE == 6
  // error: posenc: attention takes (q, k, v, out, options, bias, memory)
  posenc::attention(q, q, q, out);
#elif CASE == 7
  // error: posenc::attention: after out come options ... causal is required
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.causal = true});
#elif CASE == 8
  // error: posenc::attention: a cache of double goes with queries of double
  attention(bshd(q), wide_cache, sequences, bshd(out), {.causal = Causal::No});
#elif CASE == 9
  // error: posenc: attention takes (q, k, v, out, options, bias, memory) or (q, cache, sequences
  attention(bshd(q), cache, ints, bshd(out), {.causal = Causal::No});
#elif CASE == 10
  // error: posenc::attention: Bias must provide add(head, query_positions
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.causal = Causal::No}, user::NoAdd());
#elif CASE == 11
  // error: posenc::KvCache: keys and values must be float or a 16-bit type, or double
  cache.append(0, bshd(doubles), bshd(doubles));
#elif CASE == 12
  // error: posenc: KvCache::append takes (sequences, k, v) ... of one element type
  cache.append(0, bshd(q), bshd(halves));
#elif CASE == 13
  // error: posenc: this tensor is written to, so it must not be const
  cache.copy_keys(0, 0, bshd(constant), bshd(q));
#elif CASE == 14
  // error: posenc: elements of a tensor must be float, double or a 16-bit
  KvCache<int> whole({.kv_heads = 2, .head_dim = 8, .capacity = 8});
#elif CASE == 15
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(x), positions, bsd(constant3), {.causal = Causal::No});
#elif CASE == 16
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(wide), positions, bsd(wide), {.causal = Causal::No}, {}, device);
#elif CASE == 17
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(x), positions, wide_cache, sequences, bsd(y), {.causal = Causal::No});
#elif CASE == 18
  // error: posenc::MultiHeadAttention: T must be float or double
  posenc::MultiHeadAttention<Eigen::half> half_module({.model_dim = 8, .heads = 2});
#elif CASE == 19
  // error: posenc::MultiHeadAttention: Rotary must provide rotate_queries
  posenc::MultiHeadAttention<float, user::NoRotations> no_rotations({.model_dim = 8, .heads = 2});
#elif CASE == 20
  // error: posenc::MultiHeadAttention: Bias must provide add
  posenc::MultiHeadAttention<float, posenc::NoRotation, user::NoAdd> no_add(
      {.model_dim = 8, .heads = 2});
#elif CASE == 21
  // error: posenc: this tensor is written to, so it must not be const
  sinusoidal.add_to(bsd(constant3), positions);
#elif CASE == 22
  // error: posenc: additive encodings take (x, positions)
  sinusoidal.add_to(bshd(q), positions);
#elif CASE == 23
  // error: posenc: this tensor is written to, so it must not be const
  learned.add_to(bsd(constant3), positions);
#elif CASE == 24
  // error: posenc::Learned: x must have the type of the table's elements
  learned.add_to(bsd(wide), positions);
#elif CASE == 25
  // error: posenc: elements of a tensor must be float, double or a 16-bit
  const posenc::Learned whole(posenc::table_view(integers));
#elif CASE == 26
  // error: posenc: a tile of scores, or a gradient, is float or double, and not const
  alibi.add(0, places, places, posenc::table_view(constant_rows));
#elif CASE == 27
  // error: posenc: this tensor is written to, so it must not be const
  posenc::resize_grid(posenc::table_view(rows), posenc::table_view(constant_rows), grid);
#elif CASE == 28
  // error: posenc: elements of a tensor must be float, double or a 16-bit
  posenc::resize_grid(posenc::table_view(integers), posenc::table_view(integers), grid);
#elif CASE == 29
  // error: posenc: this tensor is written to, so it must not be const
  merge(bshd(constant), posenc::bhq(x), bshd(q), posenc::bhq(x));
#elif CASE == 30
  // error: posenc: additive encodings take (x, positions)
  learned.add_to(x, positions);
#elif CASE == 31
  // error: posenc: MultiHeadAttention::backward takes (tape, grad_out, grad_x, gradients)
  module.backward(tape, bsd(x), bsd(constant3), gradients);
#elif CASE == 32
  // error: posenc::MultiHeadAttention::backward: Rotary must provide adjoint_queries
  posenc::MultiHeadAttention<float, user::NoAdjoint> no_adjoint({.model_dim = 8, .heads = 2});
  no_adjoint.backward(tape, bsd(x), bsd(y), gradients);
#elif CASE == 33
  // error: posenc: KvCache::append takes (sequences, k, v) ... sequences is a posenc::Index
  cache.append(ints, bshd(q), bshd(constant));
#elif CASE == 34
  // error: posenc: KvCache::append takes (sequences, k, v) ... sequences is a posenc::Index
  cache.append(ints, sequences, bshd(q), bshd(q));
#elif CASE == 35
  // error: posenc: KvCache::append takes (sequences, k, v) ... sequences is a posenc::Index
  cache.append(ints, bshd(q), bshd(q), device);
#elif CASE == 36
  // error: posenc::attention: after out come options ... then a bias, memory and an Eigen device
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.causal = Causal::No}, {}, device);
#elif CASE == 37
  // error: posenc::attention: after out come options ... then a bias, memory and an Eigen device
  attention(bshd(q), cache, sequences, bshd(out), {.causal = Causal::No}, alibi, device);
#elif CASE == 38
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(x), positions, bsd(y), {.causal = Causal::No}, nullptr, device);
#elif CASE == 39
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(x), positions, cache, sequences, bsd(y), {.causal = Causal::No}, nullptr);
#elif CASE == 40
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(x), positions, bsd(y), tape, {.causal = Causal::No}, device);
#elif CASE == 41
  // error: posenc::attention: q, k, v and out must have elements of one type, or q and out of one
  attention(bshd(q), bshd(halves), bshd(q), bshd(out), {.causal = Causal::No});
#elif CASE == 42
  // error: posenc::attention: q, k, v and out must have elements of one type, or q and out of one
  attention(bshd(doubles), bshd(halves), bshd(halves), bshd(doubles), {.causal = Causal::No});
#elif CASE == 43
  // error: posenc::attention_backward: q, k, v and out must have elements of one type
  attention_backward(bshd(q), bshd(halves), bshd(halves), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{}, {.causal = Causal::No}, alibi);
#elif CASE == 44
  // error: posenc::attention_backward: Bias must be one that attention() accepts
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{}, {.causal = Causal::No}, user::NoAdd{});
#elif CASE == 45
  // error: posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns
  posenc::TableGradient of_table(1, 1);
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{}, {.causal = Causal::No},
                     posenc::RelativeBias<float>{}, of_table);
#elif CASE == 46
  // error: posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns
  posenc::TableGradient of_table(1, 1);
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{}, {.causal = Causal::No}, alibi, of_table);
#elif CASE == 47
  // error: posenc::MultiHeadAttention::backward: Projection must provide backward(x
  posenc::MultiHeadAttention<float, posenc::NoRotation, posenc::NoBias, user::ForwardOnly>
      no_backward({.model_dim = 8, .heads = 2});
  auto no_gradients = no_backward.zero_gradients();
  no_backward.backward(tape, bsd(x), bsd(y), no_gradients);
#elif CASE == 48
  // error: posenc::MultiHeadAttention: Projection must provide a constructor (in, out, with_bias)
  posenc::MultiHeadAttention<float, posenc::NoRotation, posenc::NoBias, user::NoAdd> no_projection;
#elif CASE == 49
  // error: posenc: a projection is of float or double
  posenc::LinearParameters<int> integer_parameters;
#elif CASE == 50
  // error: posenc::attention: options must be AttentionOptions of the element type of q and out
  attention(bshd(q), bshd(q), bshd(q), bshd(out), posenc::AttentionOptions<double>{}, alibi);
#elif CASE == 51
  // error: posenc::attention_backward: gradients in braces do not define the element type
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     {.q = bshd(out)}, {.causal = Causal::No});
#elif CASE == 52
  // error: posenc: elements of a mask must be bool
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.keep = posenc::bhqk(bytes)});
#elif CASE == 53
  // error: posenc::attention: Bias must provide add(head, query_positions ... with the tile of scores by value
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.causal = Causal::No}, user::AddByReference{});
#elif CASE == 54
  // error: posenc::IndexSpan: lengths, starts, offsets and positions are posenc::Index
  attention(bshd(q), bshd(q), bshd(q), bshd(out),
            {.causal = Causal::No, .key_lengths = std::vector<unsigned>{1}});
#elif CASE == 55
  // error: posenc::attention: after out come options, of which causal is required
  attention(bshd(q), bshd(q), bshd(q), bshd(out));
#elif CASE == 56
  // error: posenc::attention: after out come options, of which causal is required
  attention(bshd(q), cache, sequences, bshd(out));
#elif CASE == 57
  // error: posenc::attention: after out come options ... posenc::AttentionOptions<T>{...} around it makes the compiler name the field
  attention(bshd(q), bshd(q), bshd(q), bshd(out), {.casual = Causal::No});
#elif CASE == 58
  // error: casual
  attention(bshd(q), bshd(q), bshd(q), bshd(out),
            posenc::AttentionOptions<float>{.casual = Causal::No});
#elif CASE == 59
  // error: bool
  attention(bshd(q), bshd(q), bshd(q), bshd(out), posenc::AttentionOptions<float>{.causal = true});
#elif CASE == 60
  // error: posenc::attention: after out come options ... posenc::AttentionOptions<T>{...} around it
  attention(bshd(q), cache, sequences, bshd(out), {.casual = Causal::No});
#elif CASE == 61
  // error: posenc::attention: after out come options ... posenc::AttentionOptions<T>{...} around it
  attention<float>(bshd(q), bshd(q), bshd(q), bshd(out), {.causal = true}, alibi);
#elif CASE == 62
  // error: posenc: attention takes (q, k, v, out, options, bias, memory)
  attention(bshd(q), bshd(q), bshd(q), {.causal = Causal::No});
#elif CASE == 63
  // error: posenc: attention takes (q, k, v, out, options, bias, memory) or (q, cache, sequences, out, options
  attention(bshd(q), cache, bshd(out), {.causal = Causal::No});
#elif CASE == 64
  // error: posenc: attention_backward takes (q, k, v, out, lse, grad_out, gradients, options
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{}, {.casual = Causal::No});
#elif CASE == 65
  // error: posenc: attention_backward takes (q, k, v, out, lse, grad_out, gradients, options
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{});
#elif CASE == 66
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options) ... causal is required
  module.forward(bsd(x), positions, bsd(y));
#elif CASE == 67
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options) ... makes the compiler name the field
  module.forward(bsd(x), positions, bsd(y), {.casual = Causal::No});
#elif CASE == 68
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options)
  module.forward(bsd(x), positions, cache, bsd(y), {.causal = Causal::No});
#elif CASE == 69
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options) ... causal is required
  module.forward(bsd(x), positions, bsd(y), tape);
#elif CASE == 70
  // error: posenc: MultiHeadAttention::forward takes (x, positions, out, options) ... causal is required
  module.forward(bsd(x), positions, cache, sequences, bsd(y));
#elif CASE == 71
  // error: posenc: additive encodings take (x, positions)
  sinusoidal.add_to(bsd(x));
#elif CASE == 72
  // error: posenc::attention_backward: the bias must provide add_gradient(tile, grad, to, gradient)
  attention_backward(bshd(q), bshd(q), bshd(q), bshd(out), posenc::bhq(x), bshd(out),
                     posenc::AttentionGradients<float>{}, {.causal = Causal::No},
                     user::AddToTile{});
#elif CASE == 73
  // error: posenc::KvCache: a format of rows must provide static functions row_bytes(channels), encode(row, stored) and decode(stored, row)
  KvCache<user::NoDecode> rows_of_bytes({.kv_heads = 2, .head_dim = 8, .capacity = 8});
#elif CASE == 74
  // error: posenc::KvCache: bytes need a scale. For keys and values of 8 bits use posenc::Int8PerTokenHead
  KvCache<std::int8_t> bytes_alone({.kv_heads = 2, .head_dim = 8, .capacity = 8});
#elif CASE == 75
  // error: posenc::KvCache: keys and values of a cache in a KvRowFormat must be float
  KvCache<posenc::Int8PerTokenHead> encoded({.kv_heads = 2, .head_dim = 8, .capacity = 8});
  encoded.append(0, bshd(halves), bshd(halves));
#elif CASE == 76
  // error: posenc::attention: a cache of double goes with queries of double
  const KvCache<posenc::Int8PerTokenHead> encoded({.kv_heads = 2, .head_dim = 8, .capacity = 8});
  attention(bshd(doubles), encoded, sequences, bshd(doubles), {.causal = Causal::No});
#endif
  (void)q, (void)out, (void)doubles, (void)x, (void)wide, (void)constant, (void)constant3;
  (void)halves, (void)y, (void)integers, (void)rows, (void)constant_rows, (void)device;
  (void)sequences, (void)ints, (void)bytes;
}
