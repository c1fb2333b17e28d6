/* SPDX-License-Identifier: MIT */
/* C interface of posenc: rotary encodings, ALiBi, and attention over the caller's buffers.
 *
 * A function that returns posenc_status throws nothing. If it returns another value than POSENC_OK,
 * posenc_last_error() has the message, and no output was written. All functions may be called from
 * several threads at a time. Settings that are easy to get wrong have no default: their 0 is an
 * error. Sizes and strides count elements. */
#ifndef POSENC_H
#define POSENC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define POSENC_API __attribute__((visibility("default")))
#else
#define POSENC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum posenc_status {
  POSENC_OK = 0,
  POSENC_SHAPE_ERROR = 1,    /* extents or strides that do not fit */
  POSENC_CONFIG_ERROR = 2,   /* a setting that is missing, out of range, or contradicts another */
  POSENC_POSITION_ERROR = 3, /* a position that the encoding cannot represent */
  POSENC_FILE_ERROR = 4,     /* a file that cannot be read */
  POSENC_MEMORY_ERROR = 5,   /* a failed allocation */
  POSENC_OTHER_ERROR = 6
} posenc_status;

/* Types of elements and of positions. */
enum { POSENC_FLOAT32 = 1, POSENC_BFLOAT16 = 2, POSENC_INT32 = 3, POSENC_INT64 = 4 };
/* Pairs of channels: (2i, 2i + 1), or (i, i + rotary_dim / 2). */
enum { POSENC_INTERLEAVED = 1, POSENC_HALF_ROTATE = 2 };
/* Causal masks; they differ if there are more keys than queries (posenc::Causal). */
enum { POSENC_NOT_CAUSAL = 1, POSENC_TOP_LEFT = 2, POSENC_BOTTOM_RIGHT = 3 };

/* Queries, keys, values or outputs [batch, seq, heads, dim] in memory of the caller. The channels
 * of a head are contiguous. Inputs are not written. */
typedef struct posenc_heads {
  void* data;
  int32_t type; /* POSENC_FLOAT32 or POSENC_BFLOAT16 */
  int64_t batch, seq, heads, dim;
  int64_t batch_stride, seq_stride, head_stride;
} posenc_heads;

/* Positions of tokens: ids [batch or 1, seq] in memory of the caller, or a range. */
typedef struct posenc_positions {
  const void* ids; /* NULL: start, start + 1, ... in each batch row */
  int64_t start;   /* not read if there are ids */
  int32_t type;    /* of the ids: POSENC_INT32 or POSENC_INT64 */
  int64_t batch, seq;
  int64_t batch_stride;
} posenc_positions;

/* Field of a frequency rule, such as {"base", 10000}. */
typedef struct posenc_setting {
  const char* name;
  double value;
} posenc_setting;

typedef struct posenc_rope posenc_rope;

typedef struct posenc_rope_info {
  int64_t rotary_dim, rotary_offset; /* channels of a head that are rotated, and the first one */
  int64_t axes;                      /* axes of the positions; this interface rotates one */
  double attention_factor;           /* factor of cos and sin */
  double softmax_scale_multiplier;   /* factor of the scale of scores; 1 except for DeepSeek */
  double softmax_scale;              /* complete scale, as a model's file gives it; otherwise 0 */
} posenc_rope_info;

typedef struct posenc_attention_options {
  int32_t causal;             /* required */
  double scale;               /* of q k; 0: 1 / sqrt(dim) */
  int64_t window;             /* keys that a query sees, its own included; 0: all */
  const double* alibi_slopes; /* [heads of q], or NULL: no ALiBi */
} posenc_attention_options;

/* Returns the message of the last call that failed on this thread. It is valid until the next one
 * fails. */
POSENC_API const char* posenc_last_error(void);

/* Makes a rope from a rule of posenc by its name and the names of its fields: "Unscaled",
 * "LinearScaling", "NtkScaling", "DynamicNtkScaling", "YarnScaling", "Llama3Scaling" and others.
 * `length` is the number of tokens, for rules that depend on it; others do not read it. Rules with
 * lists of factors (LongRopeScaling) come from files. */
POSENC_API posenc_status posenc_rope_from_rule(const char* rule, const posenc_setting* settings,
                                               size_t count, int32_t pairing, int64_t rotary_offset,
                                               int64_t length, posenc_rope** rope);
/* Makes the rope of a layer from a config.json of Hugging Face or a GGUF file. Layer -1 is any
 * layer of a model whose layers are alike. */
POSENC_API posenc_status posenc_rope_from_file(const char* path, int64_t layer, int64_t length,
                                               posenc_rope** rope);
POSENC_API void posenc_rope_free(posenc_rope* rope); /* NULL is allowed */

/* Writes a description of the rope, and its inverse frequencies [rotary_dim / 2]. Either may be
 * NULL. */
POSENC_API posenc_status posenc_rope_describe(const posenc_rope* rope, posenc_rope_info* info,
                                              double* inv_freq);
/* Rotates x [batch, seq, heads, dim] into out, which is x itself or shares no memory with it. Their
 * types may differ. */
POSENC_API posenc_status posenc_rotate(const posenc_rope* rope, const posenc_heads* x,
                                       const posenc_heads* out, const posenc_positions* positions);
/* Writes cos and sin, both dense [batch of the positions, seq, rotary_dim / 2] and multiplied by
 * the attention factor. */
POSENC_API posenc_status posenc_cos_sin(const posenc_rope* rope, const posenc_positions* positions,
                                        float* cos, float* sin);

/* Writes the slopes [heads] of ALiBi; max_bias is 8 in its paper. */
POSENC_API posenc_status posenc_alibi_slopes(int64_t heads, double max_bias, double* slopes);

/* Computes out = softmax(scale q k^T + bias + mask) v. q and out [batch, queries, heads, dim], k and
 * v [batch, keys, kv_heads, dim], where kv_heads divides heads. q and out are float32; k and v are
 * float32 or bfloat16. */
POSENC_API posenc_status posenc_attention(const posenc_heads* q, const posenc_heads* k,
                                          const posenc_heads* v, const posenc_heads* out,
                                          const posenc_attention_options* options);

/* Returns a description of a dense tensor. */
static inline posenc_heads posenc_dense(void* data, int32_t type, int64_t batch, int64_t seq,
                                        int64_t heads, int64_t dim) {
  posenc_heads x;
  x.data = data;
  x.type = type;
  x.batch = batch;
  x.seq = seq;
  x.heads = heads;
  x.dim = dim;
  x.batch_stride = seq * heads * dim;
  x.seq_stride = heads * dim;
  x.head_stride = dim;
  return x;
}

/* Returns the positions start, start + 1, ... */
static inline posenc_positions posenc_range(int64_t start, int64_t seq) {
  posenc_positions positions;
  positions.ids = NULL;
  positions.start = start;
  positions.type = 0;
  positions.batch = 1;
  positions.seq = seq;
  positions.batch_stride = seq;
  return positions;
}

#ifdef __cplusplus
}
#endif
#endif
