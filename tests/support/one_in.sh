# SPDX-License-Identifier: MIT
# Sourced by scripts that run a sample. It changes with the day, and is the same for all scripts of a day. POSENC_SEED repeats
# the sample of another day.
export POSENC_SEED="${POSENC_SEED:-$(($(date +%s) / 86400))}"

# one_in <n>: prints every n-th line of its input, beginning with a line that the seed selects. In n consecutive days every
# line is printed once.
one_in() { awk -v n="$1" -v seed="$POSENC_SEED" '(NR + seed) % n == 0'; }
