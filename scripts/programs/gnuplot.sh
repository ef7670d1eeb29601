#!/usr/bin/env bash
# gnuplot: curves, surfaces, a histogram and a fit, drawn as SVG and on cairo.
source "$(dirname "$0")/common.sh"

about() {
    command -v gnuplot > /dev/null || absent gnuplot-nox
    printf 'version: %s\n' "$(gnuplot --version | sed 's/ patchlevel /./')"
    echo 'what: columns of 20,000 points smoothed, binned and fitted; surfaces; SVG and PNG'
}

prepare() {
    awk -v count="$(amount 20000 500)" 'BEGIN {
        for (at = 0; at < count; at++)
            print at / 100, sin(at / 300) + (at * 7919 % 101) / 200, at % 17
    }' > "$folder/points"
    cat > "$folder/plot" << 'END'
set print "-"
f(x) = a * sin(x * b) + c
a = 0.9; b = 0.33; c = 0.2
set fit quiet logfile "/dev/null"
fit f(x) "points" using 1:2 via a, b, c
print sprintf("%.4f %.4f %.4f", a, b, c)
stats "points" using 2 nooutput
print sprintf("%.6f %.6f", STATS_mean, STATS_stddev)
set samples 2000; set isosamples 120
set terminal svg size 900,600 name "q"; set output "a.svg"
plot "points" using 1:2 with dots, "" using 1:2 smooth bezier, f(x)
plot "points" using 3:(1) smooth frequency
set output "b.svg"; set pm3d; set hidden3d
splot sin(x) * cos(y) with lines
set terminal pngcairo size 900,600; set output "c.png"
splot sin(sqrt(x * x + y * y)) with pm3d
set output "d.png"
plot "points" using 1:2 smooth csplines, "" using (floor($1)):2 smooth unique with lines
END
}

run() {
    local -x GNUTERM=dumb
    cd "$folder"
    gnuplot plot
    for file in a.svg b.svg c.png d.png; do md5sum < "$file"; done
}

drive "$@"
