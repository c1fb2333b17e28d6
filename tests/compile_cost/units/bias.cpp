// SPDX-License-Identifier: MIT
#include <posenc/bias/alibi.hpp>

using namespace posenc;

void add(Index head, ListView<double> queries, ListView<double> keys, MatrixView<float> scores) {
  Alibi({.heads = 8, .form = AlibiForm::Causal}).add(head, queries, keys, scores);
}
