# SPDX-License-Identifier: MIT
# gnuplot -e "data='bench_peers.dat'; image='bench_peers.svg'" chart_peers.gp
# Columns of data: case, our time divided by the limit's, the time of the best peer divided by ours, and its name.
stats data using 3 skip 1 nooutput
rows = int(STATS_records)
height = 140 + 34 * rows
set terminal svg size 900, height standalone enhanced background '#ffffff' font 'sans-serif,14'
set output image
set encoding utf8
set label 'Time beside the limit: the bytes to move, or the multiply-adds to do' at screen 0.5, screen 1 center offset 0, -0.9
set tmargin 5
set border 1 linewidth 0.7 linecolor '#444444'
set logscale x 2
set xrange [0.5:*]
set yrange [rows - 0.3:-0.7] noextend
set xlabel 'times the limit (logarithmic; the peak is that of float, also for bfloat16)'
set xtics nomirror scale 0.6
set ytics nomirror scale 0 noenhanced
set arrow from 1, graph 0 to 1, graph 1 nohead linewidth 1 linecolor '#444444' back
set key at screen 0.5, screen (1 - 44.0 / height) center top horizontal maxrows 1 samplen 1.5 noenhanced
set style fill solid noborder
plot data using (0.5):($0 + 0.0):(0.5):2:($0 - 0.30):($0 - 0.02):ytic(1) skip 1 with boxxyerror linecolor '#0072b2' title 'posenc', \
     data using (0.5):($0 + 0.0):(0.5):($2 * $3):($0 + 0.02):($0 + 0.30) skip 1 with boxxyerror linecolor '#e69f00' title 'best other library', \
     data using ($2 * $3):($0 + 0.16):4 skip 1 with labels left offset 0.5, 0 noenhanced font ',11' notitle
