// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>

#include <mpfr.h>

#include <cmath>

namespace support {

/// Number of 320 bits, rounded to nearest after every operation. It is the reference value of
/// tests. Include this header only if POSENC_HAVE_MPFR is defined.
class Mpfr {
 public:
  Mpfr(double value = 0) {  // NOLINT: implicit, a double is an Mpfr
    mpfr_init2(x_, bits);
    mpfr_set_d(x_, value, MPFR_RNDN);
  }
  Mpfr(posenc::detail::DoubleDouble value) : Mpfr(value.hi) {  // NOLINT: implicit
    mpfr_add_d(x_, x_, value.lo, MPFR_RNDN);
  }
  Mpfr(const Mpfr& other) : Mpfr() { mpfr_set(x_, other.x_, MPFR_RNDN); }
  Mpfr& operator=(const Mpfr& other) {
    mpfr_set(x_, other.x_, MPFR_RNDN);
    return *this;
  }
  ~Mpfr() { mpfr_clear(x_); }

  static Mpfr pi() {
    Mpfr result;
    mpfr_const_pi(result.x_, MPFR_RNDN);
    return result;
  }

  /// Returns the nearest double.
  explicit operator double() const { return mpfr_get_d(x_, MPFR_RNDN); }

  friend Mpfr operator+(const Mpfr& a, const Mpfr& b) { return apply(mpfr_add, a, b); }
  friend Mpfr operator-(const Mpfr& a, const Mpfr& b) { return apply(mpfr_sub, a, b); }
  friend Mpfr operator*(const Mpfr& a, const Mpfr& b) { return apply(mpfr_mul, a, b); }
  friend Mpfr operator/(const Mpfr& a, const Mpfr& b) { return apply(mpfr_div, a, b); }
  friend bool operator<(const Mpfr& a, const Mpfr& b) { return mpfr_less_p(a.x_, b.x_) != 0; }

  friend Mpfr exp(const Mpfr& x) { return apply(mpfr_exp, x); }
  friend Mpfr log(const Mpfr& x) { return apply(mpfr_log, x); }
  friend Mpfr sqrt(const Mpfr& x) { return apply(mpfr_sqrt, x); }
  friend Mpfr cos(const Mpfr& x) { return apply(mpfr_cos, x); }
  friend Mpfr sin(const Mpfr& x) { return apply(mpfr_sin, x); }
  friend Mpfr pow(const Mpfr& x, const Mpfr& y) { return apply(mpfr_pow, x, y); }
  friend Mpfr floor(const Mpfr& x) {
    Mpfr result;
    mpfr_floor(result.x_, x.x_);
    return result;
  }

 private:
  static constexpr mpfr_prec_t bits = 320;

  template <class Function, class... Arguments>
  static Mpfr apply(Function function, const Arguments&... arguments) {
    Mpfr result;
    function(result.x_, arguments.x_..., MPFR_RNDN);
    return result;
  }

  mpfr_t x_;
};

/// Returns |value - truth|, computed before it is rounded.
inline double absolute_error(const Mpfr& value, const Mpfr& truth) {
  return std::abs(static_cast<double>(value - truth));
}

/// Returns |value - truth| / |truth|, or the absolute error if truth is 0.
inline double relative_error(const Mpfr& value, const Mpfr& truth) {
  const Mpfr error = value - truth;
  if (static_cast<double>(truth) == 0) return std::abs(static_cast<double>(error));
  return std::abs(static_cast<double>(error / truth));
}

}  // namespace support
