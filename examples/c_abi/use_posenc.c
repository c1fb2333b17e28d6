/* SPDX-License-Identifier: MIT */
/* A C program on posenc's C interface, and the test of it: one layer of attention over a fused
 * buffer, with rotated keys in bfloat16, and errors as codes with messages. It is compiled as C11
 * and as C++. Its argument is a config.json. */
#include "posenc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  tokens = 6,
  heads = 4,
  kv_heads = 2,
  dim = 8,
  pairs = dim / 2,
  fused = (heads + 2 * kv_heads) * dim,
  stored = kv_heads * dim
};

static int failures = 0;

static void expect(int is_true, const char* text) {
  if (is_true) return;
  fprintf(stderr, "not true: %s; last error: %s\n", text, posenc_last_error());
  ++failures;
}

static void check(posenc_status status) {
  if (status == POSENC_OK) return;
  fprintf(stderr, "error %d: %s\n", (int)status, posenc_last_error());
  exit(1);
}

static void expect_error(posenc_status status, posenc_status expected, const char* words) {
  expect(status == expected && strstr(posenc_last_error(), words) != NULL, words);
}

/* Rounds to the nearest bfloat16, ties to even. */
static uint16_t to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static double from_bfloat16(uint16_t value) {
  const uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return (double)result;
}

/* Returns the largest difference of a rotated head from the definition, with half pairing. */
static double rotation_error(const float* x, const float* rotated, double position) {
  double error = 0;
  for (int i = 0; i < pairs; ++i) {
    const double angle = position * pow(10000, -2.0 * i / (double)dim);
    const double y0 = cos(angle) * (double)x[i] - sin(angle) * (double)x[i + pairs];
    const double y1 = sin(angle) * (double)x[i] + cos(angle) * (double)x[i + pairs];
    error = fmax(error, fabs(y0 - (double)rotated[i]));
    error = fmax(error, fabs(y1 - (double)rotated[i + pairs]));
  }
  return error;
}

/* Returns the largest difference of a query's output from a plain sum. k and v are those of its KV
 * head; a token's key is `stored` elements after the previous one. */
static double attention_error(const float* q, const uint16_t* k, const uint16_t* v, double slope,
                              int query, const float* out) {
  double weights[tokens], total = 0, error = 0;
  for (int t = 0; t <= query; ++t) {
    double score = 0;
    for (int d = 0; d < dim; ++d) score += (double)q[d] * from_bfloat16(k[t * stored + d]);
    weights[t] = exp(score / sqrt((double)dim) - slope * (query - t));
    total += weights[t];
  }
  for (int d = 0; d < dim; ++d) {
    double sum = 0;
    for (int t = 0; t <= query; ++t) sum += weights[t] / total * from_bfloat16(v[t * stored + d]);
    error = fmax(error, fabs(sum - (double)out[d]));
  }
  return error;
}

static void test_layer(const posenc_rope* rope) {
  static float qkv[tokens * fused], original[tokens * fused], out[tokens * heads * dim];
  static uint16_t keys[tokens * stored], values[tokens * stored];
  float cosines[tokens * pairs], sines[tokens * pairs];
  double slopes[heads], rotation = 0, attention = 0;
  int32_t ids[tokens];
  for (int i = 0; i < tokens * fused; ++i) original[i] = qkv[i] = sinf(0.1f * (float)i);
  for (int t = 0; t < tokens; ++t) ids[t] = 1000000 + t;
  for (int i = 0; i < tokens * stored; ++i) {
    values[i] = to_bfloat16(qkv[i / stored * fused + (heads + kv_heads) * dim + i % stored]);
  }

  /* q and k are slices of a fused row [heads + 2 kv_heads, dim] per token. */
  posenc_heads q = posenc_dense(qkv, POSENC_FLOAT32, 1, tokens, heads, dim);
  posenc_heads k = posenc_dense(qkv + heads * dim, POSENC_FLOAT32, 1, tokens, kv_heads, dim);
  q.seq_stride = k.seq_stride = fused;
  const posenc_heads k16 = posenc_dense(keys, POSENC_BFLOAT16, 1, tokens, kv_heads, dim);
  const posenc_heads v16 = posenc_dense(values, POSENC_BFLOAT16, 1, tokens, kv_heads, dim);
  const posenc_heads result = posenc_dense(out, POSENC_FLOAT32, 1, tokens, heads, dim);
  posenc_positions positions = posenc_range(0, tokens);
  positions.ids = ids;
  positions.type = POSENC_INT32;
  const posenc_positions range = posenc_range(1000000, tokens);
  posenc_attention_options options = {POSENC_BOTTOM_RIGHT, 0, 0, NULL};
  options.alibi_slopes = slopes;

  check(posenc_alibi_slopes(heads, 8, slopes));
  check(posenc_cos_sin(rope, &range, cosines, sines));
  check(posenc_rotate(rope, &k, &k16, &range));
  check(posenc_rotate(rope, &k, &k, &positions));
  check(posenc_rotate(rope, &q, &q, &positions));
  check(posenc_attention(&q, &k16, &v16, &result, &options));

  int equal = 1;
  for (int i = 0; i < tokens * stored; ++i) {
    equal &= keys[i] == to_bfloat16(qkv[i / stored * fused + heads * dim + i % stored]);
  }
  expect(equal, "keys in bfloat16 are the float keys, rounded once");
  for (int t = 0; t < tokens; ++t) {
    for (int h = 0; h < heads + kv_heads; ++h) {
      const int at = t * fused + h * dim;
      rotation = fmax(rotation, rotation_error(original + at, qkv + at, ids[t]));
    }
    for (int i = 0; i < pairs; ++i) {
      const double angle = (double)ids[t] * pow(10000, -2.0 * i / (double)dim);
      rotation = fmax(rotation, fabs(cos(angle) - (double)cosines[t * pairs + i]));
      rotation = fmax(rotation, fabs(sin(angle) - (double)sines[t * pairs + i]));
    }
    for (int h = 0; h < heads; ++h) {
      const int kv = h / (heads / kv_heads) * dim;
      attention = fmax(attention, attention_error(qkv + t * fused + h * dim, keys + kv, values + kv,
                                                  slopes[h], t, out + (t * heads + h) * dim));
    }
  }
  printf("largest error of rotations %.1e, of attention %.1e\n", rotation, attention);
  expect(rotation < 2e-7, "rotations agree with the definition");
  expect(attention < 5e-7, "attention agrees with plain sums");
}

static void test_errors(const posenc_rope* rope) {
  float memory[2 * dim] = {1}, before[2 * dim];
  const posenc_setting wrong[] = {{"rotary_dim", dim}, {"bass", 10000}};
  const posenc_setting odd[] = {{"rotary_dim", 7}, {"base", 10000}};
  posenc_rope* other = NULL;
  posenc_heads x = posenc_dense(memory, POSENC_FLOAT32, 1, 1, 2, dim);
  const posenc_positions two = posenc_range(0, 2), far = posenc_range(INT64_MAX, 1);
  const posenc_positions one = posenc_range(0, 1);
  const posenc_attention_options none = {0, 0, 0, NULL};
  memcpy(before, memory, sizeof memory);
  expect_error(posenc_rope_from_rule("Unscaled", wrong, 2, POSENC_HALF_ROTATE, 0, 0, &other),
               POSENC_CONFIG_ERROR, "Unscaled has no field bass");
  expect_error(posenc_rope_from_rule("Unscaled", odd, 2, POSENC_HALF_ROTATE, 0, 0, &other),
               POSENC_CONFIG_ERROR, "rotary_dim must be even");
  expect_error(posenc_rope_from_rule("Unscaled", wrong, 1, 0, 0, 0, &other), POSENC_CONFIG_ERROR,
               "pairing has no value 0");
  expect_error(posenc_rope_from_rule("Rope", wrong, 1, POSENC_HALF_ROTATE, 0, 0, &other),
               POSENC_CONFIG_ERROR, "there is no rule Rope");
  expect_error(posenc_rope_from_file("none.json", -1, 0, &other), POSENC_FILE_ERROR, "none.json");
  expect_error(posenc_rotate(rope, &x, &x, &two), POSENC_SHAPE_ERROR, "positions [1, 2]");
  expect_error(posenc_rotate(rope, &x, &x, &far), POSENC_POSITION_ERROR, "9223372036854775807");
  expect_error(posenc_rotate(rope, &x, NULL, &one), POSENC_CONFIG_ERROR, "out must not be NULL");
  expect_error(posenc_attention(&x, &x, &x, &x, &none), POSENC_CONFIG_ERROR, "causal has no value");
  x.type = POSENC_INT64;
  expect_error(posenc_rotate(rope, &x, &x, &one), POSENC_CONFIG_ERROR, "type of a tensor");
  expect(other == NULL, "a failed call makes no rope");
  expect(memcmp(before, memory, sizeof memory) == 0, "a failed call writes nothing");
}

int main(int argc, char** argv) {
  const posenc_setting settings[] = {{"rotary_dim", dim}, {"base", 10000}};
  const posenc_setting yarn[] = {
      {"rotary_dim", 64}, {"base", 1e6}, {"factor", 4}, {"original_max_position", 32768}};
  posenc_rope *plain = NULL, *scaled = NULL, *layer = NULL;
  posenc_rope_info info;
  double inv_freq[32];
  if (argc != 2) return 2;
  check(posenc_rope_from_rule("Unscaled", settings, 2, POSENC_HALF_ROTATE, 0, 0, &plain));
  test_layer(plain);
  test_errors(plain);

  check(posenc_rope_from_rule("YarnScaling", yarn, 4, POSENC_INTERLEAVED, 0, 0, &scaled));
  check(posenc_rope_describe(scaled, &info, inv_freq));
  expect(info.rotary_dim == 64 && info.axes == 1, "the rope is as wide as its rule says");
  expect(fabs(info.attention_factor - (0.1 * log(4) + 1)) < 1e-15, "YaRN scales cos and sin");
  expect(inv_freq[0] == 1, "YaRN keeps the fastest pair");
  expect(fabs(inv_freq[31] / (pow(1e6, -62.0 / 64) / 4) - 1) < 1e-14, "YaRN divides the slowest");

  check(posenc_rope_from_file(argv[1], 0, 0, &layer));
  check(posenc_rope_describe(layer, &info, NULL));
  printf("%s, layer 0: %d channels rotate, attention factor %g, softmax scale %g\n", argv[1],
         (int)info.rotary_dim, info.attention_factor, info.softmax_scale);
  posenc_rope_free(layer);
  posenc_rope_free(scaled);
  posenc_rope_free(plain);
  return failures != 0;
}
