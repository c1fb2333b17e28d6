# SPDX-License-Identifier: MIT
# gnuplot -e "data='bench.dat'; image='bench.svg'" chart.gp
# Columns of data: case, our time divided by the limit's, and how many times slower the plain loop and Eigen are.
stats data using 2 skip 1 nooutput
rows = int(STATS_records)
height = 140 + 44 * rows
set terminal svg size 900, height standalone enhanced background '#ffffff' font 'sans-serif,14'
set output image
set encoding utf8
set label 'Time beside the limit: a pass that only moves the same bytes' at screen 0.5, screen 1 center offset 0, -0.9
set tmargin 5
set border 1 linewidth 0.7 linecolor '#444444'
set logscale x 2
set xrange [0.5:*]
set yrange [rows + 0.6:-0.4] noextend
set xlabel 'times the limit (logarithmic; 1 cannot be beaten)'
set xtics nomirror scale 0.6
set ytics nomirror scale 0 noenhanced
set arrow from 1, graph 0 to 1, graph 1 nohead linewidth 1 linecolor '#444444' back
set key at screen 0.5, screen (1 - 44.0 / height) center top horizontal maxrows 1 samplen 1.5 noenhanced
set style fill solid noborder
plot data using (0.5):($0 + 0.0):(0.5):2:($0 - 0.13):($0 + 0.13):ytic(1) skip 1 with boxxyerror linecolor '#0072b2' title 'posenc', \
     data using (0.5):($0 + 0.27):(0.5):($2 * $3):($0 + 0.14):($0 + 0.40) skip 1 with boxxyerror linecolor '#e69f00' title 'plain loop', \
     data using (0.5):($0 + 0.54):(0.5):($2 * $4):($0 + 0.41):($0 + 0.67) skip 1 with boxxyerror linecolor '#999999' title 'Eigen::Tensor'
