#!/usr/bin/env bash
# pdfTeX with LaTeX: three runs over a text with references.
source "$(dirname "$0")/common.sh"

about() {
    kpsewhich article.cls > /dev/null 2>&1 || absent texlive-latex-base
    printf 'version: %s\n' "$(pdflatex --version | sed -n '1s/.*(\(.*\)).*/pdflatex of \1/p')"
    echo 'what: a generated text with formulas, tables, references and an index of contents to' \
        'PDF, twice'
}

prepare() {
    awk -v count="$(amount 160 10)" 'BEGIN {
        print "\\documentclass{article}\\pdftrailerid{}\\begin{document}\\tableofcontents"
        for (at = 0; at < count; at++) {
            printf "\\section{Stone %d}\\label{s%d} See \\ref{s%d} on page \\pageref{s%d}.\n", at,
                at, (at * 7) % count, (at * 3) % count
            for (line = 0; line < 40; line++)
                printf "Word%d and \\emph{stone} %d of $\\sum_{i=%d}^n \\frac{x_i}{%d}$ lies.\n",
                    line, line * at, line, at + 1
            print "\n\\begin{tabular}{ll}"
            for (line = 0; line < 12; line++) printf "%d & \\textbf{%d} \\\\\n", line, line * at
            print "\\end{tabular}\n\\[ \\int_0^1 x^2\\,dx = \\frac13 \\]"
        }
        print "\\end{document}"
    }' > "$folder/text.tex"
}

run() {
    local -x SOURCE_DATE_EPOCH=1700000000 FORCE_SOURCE_DATE=1 HOME=$folder
    local turn
    cd "$folder"
    rm -f text.aux text.toc text.pdf
    for turn in 1 2 3; do
        pdflatex -interaction=batchmode text.tex > /dev/null || wrong "$(tail -n3 text.log)"
    done
    md5sum < text.pdf
    grep -c contentsline text.toc
}

drive "$@"
