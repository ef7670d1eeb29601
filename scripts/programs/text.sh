#!/usr/bin/env bash
# The tools of every shell script on large files: sort, sed, awk, grep, join, uniq and others.
source "$(dirname "$0")/common.sh"

about() {
    command -v sort sed awk grep join > /dev/null || absent coreutils sed grep
    printf 'version: %s\n' "$(sort --version | sed -n '1s/.*(GNU \(.*\)) /\1 /p'), $(sed --version \
        | sed -n '1s/.*) /sed /p'), $(grep --version | sed -n '1s/.*) /grep /p')"
    echo 'what: 400,000 lines sorted by two threads, joined, counted, rewritten, searched, split'
}

prepare() {
    awk -v count="$(amount 400000 5000)" 'BEGIN {
        for (at = 0; at < count; at++)
            printf "%d\tstone %d\t%d of many\n", at * 7919 % 1000003, at % 5003, at * 31 % 977
    }' > "$folder/lines"
}

run() {
    local in=$folder/lines tab=$'\t'
    sort --parallel=2 -S 64M -t "$tab" -k2,2 -k1,1n "$in" > "$folder/sorted"
    md5sum < "$folder/sorted"
    awk -F '\t' '{ sum[$2] += $1; last[$2] = $3; n = split($3, part, " "); all += n }
        END { for (key in sum) print key "\t" sum[key] "\t" last[key]; print "all\t" all }' "$in" \
        | sort -t "$tab" -k1,1 > "$folder/sums"
    join -t "$tab" -1 2 -2 1 "$folder/sorted" "$folder/sums" | cut -f2,4 | sort -u -n | md5sum
    sed -E 's/stone ([0-9]+)/\1 rock/; s/([0-9]+) of/of \1\1/; /99/d' "$in" | md5sum
    grep -E '(12|34|56).*stone 4[0-9]+3' "$in" | tr a-z A-Z | uniq -c | md5sum
    cut -f3 "$in" | sort | uniq -c | sort -rn | head -n 20 | md5sum
    split -l 20000 "$in" "$folder/part."
    cat "$folder"/part.* | tac | rev | fold -w 10 | md5sum
    diff "$folder/part.aa" "$folder/part.ab" | tail -n1 || true
}

drive "$@"
