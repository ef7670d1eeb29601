#!/usr/bin/env bash
# Graphviz: graphs of several shapes, laid out by three programs.
source "$(dirname "$0")/common.sh"

about() {
    command -v dot neato > /dev/null || absent graphviz
    printf 'version: %s\n' "$(dot -V 2>&1 | sed 's/.*\(graphviz\) version \([0-9.]*\).*/\1 \2/')"
    echo 'what: a graph in layers by dot, one by neato, one by twopi; as SVG and coordinates'
}

prepare() {
    local count
    count=$(amount 420 30)
    awk -v count="$count" 'BEGIN {
        print "digraph g {"
        for (at = 1; at < count; at++) {
            printf "n%d -> n%d [label=\"%d\"];\n", int(at / 3), at, at
            if (at % 5 == 0) printf "n%d -> n%d;\n", at * 7 % count, at
            if (at % 20 == 0) printf "subgraph cluster%d { n%d; n%d }\n", at, at, at - 1
        }
        print "}"
    }' > "$folder/layers"
    awk -v count="$count" 'BEGIN {
        print "graph g { overlap=false; start=7;"
        for (at = 1; at < count; at++)
            printf "n%d -- n%d; n%d -- n%d;\n", at, at * 3 % count, at, int(at / 2)
        print "}"
    }' > "$folder/net"
}

run() {
    dot -Tplain "$folder/layers" | md5sum
    dot -Tsvg "$folder/layers" | grep -v '^ *<!--' | md5sum
    neato -Tplain "$folder/net" | md5sum
    twopi -Tplain "$folder/net" | md5sum
}

drive "$@"
