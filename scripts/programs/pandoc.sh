#!/usr/bin/env bash
# pandoc, a program in Haskell, whose heap is its own: a text in several formats.
source "$(dirname "$0")/common.sh"

about() {
    command -v pandoc > /dev/null || absent pandoc
    printf 'version: %s\n' "$(pandoc --version | head -n1)"
    echo 'what: a generated Markdown text to HTML, LaTeX, EPUB and ODT, and from HTML back'
}

prepare() {
    awk -v count="$(amount 60 10)" 'BEGIN {
        print "---\ntitle: stones\n---\n"
        for (at = 0; at < count; at++) {
            printf "# Part %d {#p%d}\n\nA *stone* of **%d** parts [see](#p%d), $x^%d$:\n\n", at, at,
                at, at / 2, at % 9
            for (line = 0; line < 6; line++) printf "* item `%d` and [^n%d-%d]\n", line, at, line
            for (line = 0; line < 6; line++) printf "\n[^n%d-%d]: note %d\n", at, line, at * line
            print "\n| a | b |\n|---|---|"
            for (line = 0; line < 8; line++) printf "| %d | s%d |\n", line * at, line
            print "\n```c\nint main(void) { return 0; }\n```\n"
        }
    }' > "$folder/text.md"
}

run() {
    local -x SOURCE_DATE_EPOCH=1700000000
    cd "$folder"
    pandoc -s text.md -t html -o text.html
    pandoc -s text.md -t latex | md5sum
    pandoc -s text.md -o text.epub
    pandoc -s text.md -o text.odt
    pandoc text.html -t markdown | md5sum
    md5sum < text.html
    head -c2 text.odt
    head -c2 text.epub
}

drive "$@"
