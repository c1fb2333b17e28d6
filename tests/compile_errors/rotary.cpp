// SPDX-License-Identifier: MIT
// Rotary encodings and their rules.
namespace user {
struct NotARule {};
}  // namespace user
using posenc::HalfRotate;
using posenc::Rope;

void program(Row<float, 4>& q, Row<float, 4>& k, Row<double, 4>& doubles, Row<float, 3>& x,
             const Row<float, 4>& constant, const posenc::DynamicNtkScaling& dynamic,
             const posenc::LongRopeScaling& longrope, const posenc::DynamicYarnScaling& yarn,
             Eigen::DefaultDevice& device, const std::vector<int>& ints,
             const std::vector<double>& w, Row<Eigen::bfloat16, 4>& narrow) {
  const Rope<HalfRotate> rope(rule);
  const posenc::XPos<HalfRotate> xpos(rule, {.scale_base = 512});
  const posenc::MixedRope<HalfRotate> mixed(w, {.axes = 1, .heads = 2, .rotary_dim = 8});
  const posenc::AnyRope any(rope);
  const posenc::ChatGlmRope glm(16, 10000);
  const auto table = rope.table<float>(positions);
  const auto view = posenc::bshd(q);
  const auto fixed = posenc::bshd(constant);
  (void)xpos, (void)mixed, (void)any, (void)glm, (void)table, (void)view, (void)fixed;
#if CASE == 0
  // compiles
  rope.rotate(view, positions);
  rope.rotate(view, positions, device);
  rope.rotate_all({view, posenc::bshd(k)}, positions);
  rope.rotate_into(fixed, view, positions);
  rope.rotate_into(view, view, positions);
  rope.rotate_into(fixed, posenc::bshd(k), positions, device);
  rope.rotate_into(view, posenc::bshd(narrow), positions);
  rope.rotate_into(fixed, posenc::bshd(narrow), positions, device);
  any.rotate_into(posenc::bshd(narrow), view, positions);
  table.rotate_into(fixed, posenc::bshd(narrow), device);
  table.rotate_all({view, posenc::bshd(k)});
  shift_keys(posenc::bshd(k), rope, {-1});
  xpos.rotate_queries_into(fixed, view, positions);
  const Rope<HalfRotate> long_rope(posenc::frequencies(dynamic, 4096));
  const Rope copy = long_rope;
  (void)copy;
  (void)Positions::ids(std::vector<posenc::Index>{1, 2}), (void)Positions::ids({1, 2});
  (void)Positions::ids(ints), (void)Positions::ids(1, ints);
  (void)Positions::starts(ints, 3);
  (void)Positions::view(ints), (void)Positions::view(std::span(ints).first(1));
  (void)Positions::view({.data = ints.data(), .rows = 1, .cols = 2});
  (void)Positions::starts({1, 2}, 3), (void)Positions::ids(1, std::array<posenc::Index, 1>{3});
#elif CASE == 1
  // error: posenc: this tensor is written to, so it must not be const
  rope.rotate(fixed, positions);
#elif CASE == 2
  // error: posenc: this tensor is written to, so it must not be const
  rope.rotate(fixed, positions, device);
#elif CASE == 3
  // error: posenc: this tensor is written to, so it must not be const
  rope.rotate_all({fixed, fixed}, positions);
#elif CASE == 4
  // error: posenc: this tensor is written to, so it must not be const
  rope.rotate_into(view, fixed, positions);
#elif CASE == 5
  // error: posenc: this tensor is written to, so it must not be const
  rope.adjoint(fixed, positions);
#elif CASE == 6
  // error: posenc: this tensor is written to, so it must not be const
  table.rotate(fixed);
#elif CASE == 7
  // error: posenc: this tensor is written to, so it must not be const
  xpos.rotate_keys(fixed, positions);
#elif CASE == 8
  // error: posenc: this tensor is written to, so it must not be const
  mixed.rotate(fixed, positions);
#elif CASE == 9
  // error: posenc: this tensor is written to, so it must not be const
  any.rotate(fixed, positions);
#elif CASE == 10
  // error: posenc: this tensor is written to, so it must not be const
  glm.rotate(fixed, positions);
#elif CASE == 11
  // error: posenc: this tensor is written to, so it must not be const
  shift_keys(fixed, rope, positions);
#elif CASE == 12
  // error: posenc: this tensor is written to, so it must not be const
  rerotate(fixed, rope, positions, rope, positions);
#elif CASE == 13
  // error: posenc: the pairing has no default
  const Rope no_pairing(rule);
#elif CASE == 14
  // error: posenc: the pairing has no default
  const Rope<> no_pairing(rule);
#elif CASE == 15
  // error: posenc: the pairing has no default
  const Rope<posenc::YarnScaling> no_pairing(posenc::YarnScaling{});
#elif CASE == 16
  // error: posenc: the pairing has no default
  const posenc::XPos no_pairing(rule, {.scale_base = 512});
#elif CASE == 17
  // error: posenc: the frequencies of this rule depend on the length
  const Rope<HalfRotate> without_length(dynamic);
#elif CASE == 18
  // error: posenc: the frequencies of this rule depend on the length
  const Rope<HalfRotate> without_length(longrope);
#elif CASE == 19
  // error: posenc: the frequencies of this rule depend on the length
  const Rope<HalfRotate> without_length(yarn);
#elif CASE == 20
  // error: posenc: the frequencies of this rule depend on the length
  const posenc::XPos<HalfRotate> without_length(dynamic, {.scale_base = 512});
#elif CASE == 21
  // error: posenc: this type is not a frequency rule
  const Rope<HalfRotate> no_rule(user::NotARule{});
#elif CASE == 22
  // error: posenc: rotations take (x, positions)
  rope.rotate(posenc::bsd(x), positions);
#elif CASE == 23
  // error: posenc: rotations take (x, positions)
  rope.rotate(q, positions);
#elif CASE == 24
  // error: posenc: rotations take (x, positions)
  rope.rotate(view, ints);
#elif CASE == 25
  // error: posenc: rotations take (x, positions)
  rope.rotate_all({view, posenc::bshd(doubles)}, positions);
#elif CASE == 26
  // error: posenc: rotations take (x, positions)
  rope.rotate_into(posenc::bshd(doubles), view, positions);
#elif CASE == 27
  // error: posenc: a RotationTable of float rotates float and 16-bit types
  table.rotate(posenc::bshd(doubles));
#elif CASE == 28
  // error: posenc: a RotationTable stores float
  (void)rope.table<Eigen::half>(positions);
#elif CASE == 29
  // error: posenc::IndexSpan: lengths, starts, offsets and positions are posenc::Index
  (void)Positions::ids(w);
#elif CASE == 30
  // error: posenc::IndexSpan: lengths, starts, offsets and positions are posenc::Index
  (void)Positions::starts(w, 4);
#elif CASE == 31
  // error: posenc: this tensor is written to, so it must not be const
  rope.rotate_queries(fixed, positions);
#elif CASE == 32
  // error: posenc::Positions: view() does not copy the ids, so its argument must not be a temporary
  (void)Positions::view(std::vector<int>(ints));
#elif CASE == 33
  // error: posenc::IndexSpan: lengths, starts, offsets and positions are posenc::Index
  (void)Positions::view(w);
#elif CASE == 34
  // error: posenc: rotations take (x, positions)
  rope.rotate_into(posenc::bshd(narrow), posenc::bshd(doubles), positions);
#elif CASE == 35
  // error: posenc: this tensor is written to, so it must not be const
  rope.rotate_into(posenc::bshd(narrow), fixed, positions);
#elif CASE == 36
  // error: posenc: rotations take (x, positions)
  rope.rotate(view);
#elif CASE == 37
  // error: posenc: rotations take (x, positions)
  rope.rotate_all({view, posenc::bshd(k)});
#elif CASE == 38
  // error: posenc: rotations take (x, positions)
  any.rotate_into(fixed, view);
#endif
  (void)x, (void)doubles, (void)ints, (void)dynamic, (void)longrope, (void)yarn, (void)k;
  (void)device, (void)narrow;
}
