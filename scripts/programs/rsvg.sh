#!/usr/bin/env bash
# librsvg, which is written in Rust, with cairo and pango: a generated drawing.
source "$(dirname "$0")/common.sh"

about() {
    command -v rsvg-convert > /dev/null || absent librsvg2-bin
    printf 'version: %s\n' "$(rsvg-convert --version | sed 's/ version//; s/ (.*//')"
    echo 'what: a drawing of paths, gradients, filters and text to PNG in two sizes, and to SVG'
}

prepare() {
    awk -v count="$(amount 140 20)" 'BEGIN {
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"800\"><defs>"
        print "<filter id=\"f\"><feGaussianBlur stdDeviation=\"2\"/></filter>"
        for (at = 0; at < 40; at++)
            printf "<linearGradient id=\"g%d\"><stop offset=\"0\" stop-color=\"#%02x80%02x\"/>" \
                "<stop offset=\"1\" stop-color=\"#%02xff20\"/></linearGradient>\n", at, at * 6,
                255 - at * 6, at * 5
        print "</defs>"
        for (at = 0; at < count; at++) {
            x = at * 37 % 760; y = at * 91 % 760
            printf "<path d=\"M%d %d", x, y
            for (turn = 1; turn < 30; turn++)
                printf " C%d %d %d %d %d %d", (x + turn * 13) % 800, (y + turn * 7) % 800,
                    (x + turn * 5) % 800, (y + turn * 31) % 800, (x + turn * 17) % 800, y
            printf "Z\" fill=\"url(#g%d)\" fill-opacity=\"0.2\"%s/>\n", at % 40,
                (at % 25 ? "" : " filter=\"url(#f)\"")
            printf "<text x=\"%d\" y=\"%d\" font-size=\"9\">stone %d</text>\n", x, y, at
        }
        print "</svg>"
    }' > "$folder/drawing.svg"
}

run() {
    rsvg-convert --unlimited -w 500 "$folder/drawing.svg" | md5sum
    rsvg-convert --unlimited -w 1200 "$folder/drawing.svg" | md5sum
    rsvg-convert --unlimited -f svg "$folder/drawing.svg" | wc -l
}

drive "$@"
