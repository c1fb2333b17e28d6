// SPDX-License-Identifier: MIT
// Drawing of attention with the three points at which position enters.
#include "chapters.hpp"
#include <posenc/posenc.hpp>

namespace tour::places {

namespace {

const char* const commands = R"(unset border
unset tics
unset key
set margins 0,0,0,0
set title 'One attention layer, and where position enters it' offset 0,-2.6
set xrange [0:100]
set yrange [-3.5:57]
set style textbox opaque noborder
box(n, x, y, w, h) = sprintf("set object %d rectangle from %g,%g to %g,%g fs solid 1 border lc '#444444' fc '#f2f3f5'", n, x - w / 2., y - h / 2., x + w / 2., y + h / 2.)
arrow(x, y, u, v) = sprintf("set arrow from %g,%g to %g,%g filled size 1.1,18 lw 1.5 lc '#444444'", x, y, u, v)
text(s, x, y) = sprintf("set label '%s' at %g,%g center front", s, x, y)
eval box(1, 7, 28, 11, 8); eval text('tokens', 7, 28)
eval box(2, 24, 28, 14, 8); eval text('embeddings X', 24, 28)
eval box(3, 45, 38, 14, 7); eval text('queries q', 45, 38)
eval box(4, 45, 28, 14, 7); eval text('keys k', 45, 28)
eval box(5, 45, 18, 14, 7); eval text('values v', 45, 18)
eval box(6, 65, 33, 14, 8); eval text('scores q · k', 65, 33)
eval box(7, 81, 33, 10, 8); eval text('softmax', 81, 33)
eval box(8, 81, 18, 14, 7); eval text('weighted sum', 81, 18)
eval arrow(12.5, 28, 17, 28)
eval arrow(31, 29.5, 38, 37); eval arrow(31, 28, 38, 28); eval arrow(31, 26.5, 38, 19)
eval arrow(52, 37.5, 58, 34.5); eval arrow(52, 28.5, 58, 31.5)
eval arrow(72, 33, 76, 33); eval arrow(81, 29, 81, 21.5); eval arrow(52, 18, 74, 18)
eval arrow(88, 18, 97, 18); eval text('output', 92.5, 20)
set object 10 rectangle from 36.5,23 to 53.5,43 front dt 2 fs empty border lc '#b34700'
set object 11 circle at 24,36 size 2 fs solid 1 noborder fc '#0072b2' front
set object 12 circle at 45,45.5 size 2 fs solid 1 noborder fc '#b34700' front
set object 13 circle at 65,41.5 size 2 fs solid 1 noborder fc '#00795a' front
set label '1' at 24,36 center front tc '#ffffff'
set label '2' at 45,45.5 center front tc '#ffffff'
set label '3' at 65,41.5 center front tc '#ffffff'
set label 'X + code of the position' at 24,40.5 center tc '#0072b2'
set label 'q and k rotated by the position' at 45,49.8 center tc '#b34700'
set label 'score + bias of the pair' at 67,45.8 center tc '#00795a'
set label '1  added to embeddings:' at 2,9.5 left tc '#0072b2'
set label 'integer, binary, sinusoidal, learned' at 26,9.5 left
set label '2  rotation of q and k:' at 2,5.8 left tc '#b34700'
set label 'RoPE on one axis or several, xPos (which scales them too)' at 26,5.8 left
set label '3  bias on the scores:' at 2,2.1 left tc '#00795a'
set label 'by distance: ALiBi, T5, KERPLE, FIRE, tables of windows (Swin)' at 26,2.1 left
set label 'by query and distance: relative tables (Shaw, Transformer-XL, DeBERTa); by token: gates (FoX)' at 26,-1.6 left
plot NaN
)";

}  // namespace

void show(Tour& tour) {
  Report& report = tour.report;
  report.paragraph(
      "Attention compares every token with every other one. By itself it does not depend on the "
      "order "
      "of the tokens. A positional encoding adds that order, at one of three points. (1) A "
      "code is added to the embeddings before anything else. (2) Queries and keys, the vectors "
      "that are compared, are rotated by an angle that grows with the position. (3) A bias is "
      "added to the scores, which are the results of the comparisons. It depends on the distance, "
      "in "
      "relative tables also on the query, and in gates on the tokens in between. Values carry no "
      "position, except the code that (1) added to the embeddings. Attention runs in several "
      "heads, "
      "each on its part of the channels.");
  report.picture(
      {.name = "where_position_enters",
       .title = "Drawing: tokens become embeddings, these queries, keys and values; "
                "scores, softmax and a weighted sum follow. Position enters at the "
                "embeddings, at queries and keys, or at the scores",
       .width = 960,
       .height = 530,
       .blocks = {},
       .commands = commands},
      "One attention layer from left to right. Each encoding of this tour acts at one of "
      "the three numbers, by one call.");
}

}  // namespace tour::places
