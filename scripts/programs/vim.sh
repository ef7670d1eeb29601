#!/usr/bin/env bash
# vim without a screen: a large file sorted, replaced in, undone and redone.
source "$(dirname "$0")/common.sh"

about() {
    command -v vim > /dev/null || absent vim
    printf 'version: %s\n' "$(vim --version | sed -n '1s/VIM - Vi IMproved \([0-9.]*\).*/vim \1/p')"
    echo 'what: a file of 60,000 lines sorted, replaced in, folded into lists, undone and redone'
}

prepare() {
    awk -v count="$(amount 60000 2000)" 'BEGIN {
        for (at = 0; at < count; at++) printf "%d stone %d of many\n", at * 7919 % 100003, at
    }' > "$folder/text"
    cat > "$folder/work.vim" << 'END'
set nomore undolevels=1000 nocompatible
edit text
%sort n
%s/\(\d\+\) stone \(\d\+\)/\2 rock \1 \1/
g/7 of/move 0
g/9 of/normal Aend
v/rock/delete
silent! undo
silent! redo
let words = {}
for line in getline(1, '$')
  let part = split(line)
  let words[part[2] % 1000] = get(words, part[2] % 1000, []) + [part[0]]
endfor
let list = map(sort(keys(words)), 'v:val . ":" . join(words[v:val], ",")')
call append('$', list)
write! out
qall!
END
}

run() {
    cd "$folder"
    rm -f out
    vim -u NONE -i NONE -n -es -S work.vim || wrong "vim ended with $?"
    wc -l < out
    md5sum < out
}

drive "$@"
