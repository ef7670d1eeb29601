#!/usr/bin/env bash
# POV-Ray: a scene of generated objects, traced by two threads.
source "$(dirname "$0")/common.sh"

about() {
    command -v povray > /dev/null || absent povray
    printf 'version: POV-Ray %s\n' \
        "$(povray --version 2>&1 | sed -n 's/^POV-Ray \([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p')"
    echo 'what: 600 spheres, boxes and unions with textures, shadows and reflections; two threads'
}

prepare() {
    awk -v count="$(amount 600 30)" 'BEGIN {
        print "#version 3.7; global_settings { assumed_gamma 1.0 }"
        print "camera { location <0, 6, -14> look_at 0 } light_source { <9, 20, -9> rgb 1 }"
        print "plane { y, -2 pigment { checker rgb 1, rgb 0.2 } finish { reflection 0.2 } }"
        for (at = 0; at < count; at++) {
            where = sprintf("<%.2f, %.2f, %.2f>", at * 37 % 200 / 10 - 10, at * 53 % 60 / 10,
                at * 91 % 200 / 10)
            if (at % 3 == 0) shape = "sphere { 0, 0.4 "
            else if (at % 3 == 1) shape = "box { -0.3, 0.3 "
            else shape = "difference { sphere { 0, 0.5 } box { -0.3, 0.6 } "
            printf "%s pigment { %s color_map { [0 rgb <1, %.2f, 0>] [1 rgb 0.5] } } finish { " \
                "reflection 0.1 phong 0.5 } translate %s }\n", shape,
                (at % 2 ? "marble turbulence 1" : "granite"), at % 10 / 10, where
        }
    }' > "$folder/scene.pov"
}

run() {
    local -x HOME=$folder
    povray +I"$folder/scene.pov" +O- +FP "+W$(amount 400 60)" "+H$(amount 300 45)" +A0.3 -J \
        +WT2 -D -GA > "$folder/scene.ppm" 2> "$folder/errors" \
        || wrong "$(tail -n1 "$folder/errors")"
    # The header contains the time.
    grep -av '^#' "$folder/scene.ppm" | md5sum
}

drive "$@"
