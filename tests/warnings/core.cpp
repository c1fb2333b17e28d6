// SPDX-License-Identifier: MIT
// core/, simd/ and concepts.hpp.
#include <posenc/concepts.hpp>
#include <posenc/core/build_info.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/core/version.hpp>
#include <posenc/simd/bfloat16.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/half.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/storage_format.hpp>
#include <posenc/simd/tanh.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/simd/transpose.hpp>

#include <ostream>

using posenc::Index;

/// Arithmetic of one pack type over a row whose length is not a multiple of the width.
template <class T, class Tier>
void compute(const T (&in)[37], T (&out)[37]) {
  using P = posenc::Pack<T, Tier>;
  const auto value = [](P x) { return mul_add(exp(x), tanh(x), larger(x, -x) / (x * x)); };
  Index i = 0;
  for (; i + P::width <= 37; i += P::width) value(P::load(in + i)).store(out + i);
  if (i < 37) value(P::load_partial(in + i, 37 - i)).store_partial(out + i, 37 - i);
  P square[P::width];
  for (Index row = 0; row < P::width; ++row) square[row] = P::broadcast(in[row]);
  posenc::transpose(square);
  out[36] += sum(square[0]) + maximum(posenc::exp_nonpositive(-square[P::width - 1]));
}

template <class... Tiers>
void compute_on(posenc::tier::List<Tiers...>, const float (&f)[37], float (&to_f)[37],
                const double (&d)[37], double (&to_d)[37]) {
  const auto on = [&]<class Tier>(Tier) {
    if constexpr (posenc::tier::allowed<Tier>) {
      compute<float, Tier>(f, to_f);
      compute<double, Tier>(d, to_d);
    }
  };
  (on(Tiers()), ...);
}

void use_core(std::ostream& out, const float (&f)[37], float (&to_f)[37], const double (&d)[37],
              double (&to_d)[37]) {
  compute_on(posenc::tier::All(), f, to_f, d, to_d);
  using P = posenc::Pack<double, posenc::tier::Best>;
  const posenc::CosSinOf<P> angle =
      posenc::cos_sin(P::broadcast(d[0]), P::broadcast(0.6), P::broadcast(1e-17));
  const double power = posenc::mul_add(sum(angle.cos), sum(angle.sin), d[1]);
  const posenc::Half half(f[1]);
  const posenc::Bfloat16 bfloat16(f[2]);
  static_assert(posenc::StorageFormatOf<posenc::Half>::value == posenc::StorageFormat::Half);
  to_f[35] = half * bfloat16;
  try {
    const Index numbers[] = {1, 2, 3};
    const posenc::ListView<Index> list(numbers);
    const posenc::IndexSpan span = posenc::IndexList(list);
    if (power > 1) throw posenc::ShapeError("shape");
    out << posenc::build_info() << list.size() << span[0] << POSENC_VERSION_MAJOR;
  } catch (const posenc::ShapeError& error) {
    out << error.what();
  }
}
