#!/usr/bin/env bash
# Go's own build: its tools are static and serve themselves; what is preloaded must not be in their
# way. gcc compiles the parts of the standard library that are in C.
source "$(dirname "$0")/common.sh"

about() {
    command -v go gcc > /dev/null || absent golang-go gcc
    printf 'version: %s\n' "$(go version | sed 's/.*go\([0-9][0-9.]*\).*/go \1/')"
    echo 'what: a generated program of 12 packages built with cgo, and run'
    echo 'malloc: own'
    echo 'rounds: 3'
}

export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GOTELEMETRY=off CGO_ENABLED=1 GOMAXPROCS=2

prepare() {
    local at count
    count=$(amount 12 2)
    mkdir "$folder/source"
    cd "$folder/source"
    printf 'module stones\n\ngo 1.18\n' > go.mod
    {
        printf 'package main\n\n// #include <stdlib.h>\nimport "C"\n\nimport (\n    "fmt"\n'
        for ((at = 0; at < count; at++)); do echo "    \"stones/p$at\""; done
        printf ')\n\nfunc main() {\n    p := C.malloc(100); C.free(p)\n    fmt.Println(0'
        for ((at = 0; at < count; at++)); do printf ' + p%d.Sum(1000)' $at; done
        printf ')\n}\n'
    } > main.go
    for ((at = 0; at < count; at++)); do
        mkdir p$at
        printf 'package p%d\n\nimport ("fmt"; "sort")\n\n' $at > p$at/p.go
        awk -v count=80 -v add=$at 'BEGIN {
            for (at = 0; at < count; at++)
                printf "func f%d(n int) int {\n\tm := map[string]int{}\n\tfor i := 0; i < n; i++ " \
                    "{ m[fmt.Sprint(i %% %d)] += i }\n\tk := []string{}\n\tfor s := range m { " \
                    "k = append(k, s) }\n\tsort.Strings(k)\n\treturn m[k[0]] + %d\n}\n", at,
                    at + 2, add
            print "func Sum(n int) int {\n\treturn 0"
            for (at = 0; at < count; at++) printf " + f%d(n)", at
            print "\n}"
        }' | sed 's/return 0$/return 0 +/; s/^ + //' >> p$at/p.go
    done
    # The standard library is compiled once.
    printf 'package main\n\nimport ("C"; "fmt"; "sort")\n\n' > "$folder/first.go"
    echo 'func main() { fmt.Println(sort.Strings) }' >> "$folder/first.go"
    GOCACHE=$folder/first go build -o "$folder/stones" "$folder/first.go"
}

run() {
    rm -rf "$folder/cache"
    cp -r "$folder/first" "$folder/cache"
    cd "$folder/source"
    GOCACHE=$folder/cache go build -p 2 -o ../stones .
    ../stones
}

drive "$@"
