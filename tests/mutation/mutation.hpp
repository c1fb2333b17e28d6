// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

/// Functions that the instrumented headers call, see README.md. Alternatives of a point have consecutive numbers,
/// from a multiple of 4 on. POSENC_MUTANT is the number of the mutant that runs, POSENC_MUTATION_RECORD a
/// file to which the numbers of the mutants that were reached are written.
namespace posenc_mutation {

inline int chosen = 0;
inline bool is_recording = false;
inline unsigned char reached[1 << 20];

struct Session {
  Session() {
    if (const char* number = std::getenv("POSENC_MUTANT")) chosen = std::atoi(number);
    is_recording = std::getenv("POSENC_MUTATION_RECORD") != nullptr;
  }
  ~Session() {
    if (!is_recording) return;
    if (std::FILE* file = std::fopen(std::getenv("POSENC_MUTATION_RECORD"), "w")) {
      for (int n = 0; n < 1 << 20; ++n) {
        if (reached[n] != 0) std::fprintf(file, "%d\n", n);
      }
      std::fclose(file);
    }
  }
};
inline Session session;

constexpr bool is_chosen(int n) noexcept {
  if (std::is_constant_evaluated()) return false;
  if (is_recording) reached[n] = 1;
  return n == chosen;
}

/// Returns which of the alternatives n, n + 1, n + 2 is chosen, or -1.
constexpr int alternative(int n) noexcept {
  if (std::is_constant_evaluated()) return -1;
  if (is_recording) reached[n] = reached[n + 1] = reached[n + 2] = 1;
  return chosen - n >= 0 && chosen - n < 3 ? chosen - n : -1;
}

/// Ends the program: the types of this place do not have the operator.
[[noreturn]] inline void reject() { std::_Exit(77); }

/// a op b, or: a other b; a.
#define POSENC_MUTATION_BINARY(name, op, other)                \
  template <class A, class B>                                  \
  constexpr auto name(int n, A a, B b)->decltype(a op b) {     \
    using R = decltype(a op b);                                \
    const int k = alternative(n);                              \
    if (k == 0) {                                              \
      if constexpr (requires { static_cast<R>(a other b); }) { \
        return static_cast<R>(a other b);                      \
      } else {                                                 \
        reject();                                              \
      }                                                        \
    }                                                          \
    if (k == 1) {                                              \
      if constexpr (requires { static_cast<R>(a); })           \
        return static_cast<R>(a);                              \
      else                                                     \
        reject();                                              \
    }                                                          \
    return a op b;                                             \
  }
POSENC_MUTATION_BINARY(add, +, -)
POSENC_MUTATION_BINARY(subtract, -, +)
POSENC_MUTATION_BINARY(multiply, *, +)
POSENC_MUTATION_BINARY(divide, /, *)
POSENC_MUTATION_BINARY(remainder, %, *)
POSENC_MUTATION_BINARY(bit_and, &, |)
POSENC_MUTATION_BINARY(bit_or, |, &)
POSENC_MUTATION_BINARY(bit_xor, ^, |)
POSENC_MUTATION_BINARY(shift_left, <<, >>)
POSENC_MUTATION_BINARY(shift_right, >>, <<)
#undef POSENC_MUTATION_BINARY

/// a op b, or: a other b.
#define POSENC_MUTATION_COMPARISON(name, op, other)        \
  template <class A, class B>                              \
  constexpr auto name(int n, A a, B b)->decltype(a op b) { \
    if (is_chosen(n)) return a other b;                    \
    return a op b;                                         \
  }
POSENC_MUTATION_COMPARISON(less, <, <=)
POSENC_MUTATION_COMPARISON(less_equal, <=, <)
POSENC_MUTATION_COMPARISON(greater, >, >=)
POSENC_MUTATION_COMPARISON(greater_equal, >=, >)
POSENC_MUTATION_COMPARISON(equal, ==, !=)
POSENC_MUTATION_COMPARISON(not_equal, !=, ==)
#undef POSENC_MUTATION_COMPARISON

/// a op b, or: a other b.
#define POSENC_MUTATION_ASSIGNMENT(name, op, other)         \
  template <class A, class B>                               \
  constexpr decltype(auto) name(int n, A&& a, const B& b) { \
    if (is_chosen(n)) {                                     \
      if constexpr (requires { a other b; })                \
        a other b;                                          \
      else                                                  \
        reject();                                           \
    } else {                                                \
      a op b;                                               \
    }                                                       \
    return static_cast<A&&>(a);                             \
  }
POSENC_MUTATION_ASSIGNMENT(add_to, +=, -=)
POSENC_MUTATION_ASSIGNMENT(subtract_from, -=, +=)
POSENC_MUTATION_ASSIGNMENT(multiply_by, *=, +=)
POSENC_MUTATION_ASSIGNMENT(divide_by, /=, *=)
#undef POSENC_MUTATION_ASSIGNMENT

/// value, or: value + 1; 0.
template <class T>
constexpr T integer(int n, T value) {
  const int k = alternative(n);
  return k == 0 ? static_cast<T>(value + 1) : k == 1 ? T{} : value;
}

/// value, or: value + 1; -value.
template <class T>
constexpr T real(int n, T value) {
  const int k = alternative(n);
  return k == 0 ? value + 1 : k == 1 ? -value : value;
}

/// -a, or: a.
template <class A>
constexpr auto minus(int n, A a) -> decltype(-a) {
  if (is_chosen(n)) return static_cast<decltype(-a)>(a);
  return -a;
}

template <class T>
constexpr T min(int n, const T& a, const T& b) {
  return is_chosen(n) ? std::max(a, b) : std::min(a, b);
}
template <class T>
constexpr T max(int n, const T& a, const T& b) {
  return is_chosen(n) ? std::min(a, b) : std::max(a, b);
}

}  // namespace posenc_mutation
