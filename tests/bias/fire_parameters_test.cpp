// SPDX-License-Identifier: MIT
// Sums of FIRE's parameters.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/fire_parameters.hpp>

#include <vector>

namespace fire_parameters_test {

using posenc::FireParameters;
using support::message_of;
using Values = std::vector<double>;

namespace {

const FireParameters step{.c = 0.5,
                          .threshold = -2,
                          .hidden_weight = {1, 2},
                          .hidden_bias = {3, 4},
                          .output_weight = {5, 6, 7, 8, 9, 10},
                          .output_bias = {11, 12, 13}};

}  // namespace

TEST_CASE("FireParameters: are added number by number", "[fire]") {
  FireParameters sum{.c = 1,
                     .threshold = 10,
                     .hidden_weight = {0.25, -2},
                     .hidden_bias = {1, 1},
                     .output_weight = {0, 0, 0, 0, 0, 1},
                     .output_bias = {-11, 0, 0.5}};
  sum += step;
  CHECK(sum.c == 1.5);
  CHECK(sum.threshold == 8);
  CHECK(sum.hidden_weight == Values{1.25, 0});
  CHECK(sum.hidden_bias == Values{4, 5});
  CHECK(sum.output_weight == Values{5, 6, 7, 8, 9, 11});
  CHECK(sum.output_bias == Values{0, 12, 13.5});
  CHECK(&(sum += step) == &sum);
  CHECK(sum.hidden_bias == Values{7, 9});
}

TEST_CASE("FireParameters: another shape is rejected", "[fire][errors]") {
  for (Values FireParameters::*const list :
       {&FireParameters::hidden_weight, &FireParameters::hidden_bias,
        &FireParameters::output_weight, &FireParameters::output_bias}) {
    FireParameters sum = step, other = step;
    (other.*list).push_back(1);
    CHECK_THROWS_AS(sum += other, posenc::ShapeError);
    CHECK(sum.c == step.c);
    CHECK(sum.*list == step.*list);
  }
  FireParameters sum = step, wider = step;
  wider.hidden_bias.resize(4);
  wider.output_bias.resize(1);
  CHECK(message_of<posenc::ShapeError>([&] { sum += wider; }) ==
        "posenc::FireParameters: the parameters to add must have the same shape, width 2 "
        "and 3 heads, but has 4 and 1");
}

}  // namespace fire_parameters_test
