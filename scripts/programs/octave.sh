#!/usr/bin/env bash
# GNU Octave: matrices, cells, structures, strings, its own sparse matrices.
source "$(dirname "$0")/common.sh"

about() {
    command -v octave-cli > /dev/null || absent octave
    printf 'version: %s\n' "$(octave-cli --version | sed -n '1s/, version / /p')"
    echo 'what: matrices multiplied and solved, sparse ones, cells, structures, strings, sorting'
}

prepare() {
    cat > "$folder/work.m" << 'END'
turns = str2num(argv(){1});
sum_ = 0; names = {};
for turn = 1:turns
  a = mod(reshape(1:90000, 300, 300) * 7919, 1013);
  b = a * a';
  sum_ = mod(sum_ + sum(sum(mod(b, 97))), 1e9);
  x = (eye(200) * 4 + a(1:200, 1:200) / 1e4) \ ones(200, 1);
  sum_ += round(sum(x) * 1e3);
  s = sparse(mod((1:9000) * 31, 500) + 1, mod((1:9000) * 17, 500) + 1, 1:9000, 500, 500);
  sum_ += full(sum(sum(s' * s > 0)));
  list = struct();
  for at = 1:1500
    list.(sprintf("k%d", mod(at * 7, 400))) = sprintf("%d,", at:at + 9);
  end
  parts = cellfun(@(it) strsplit(it, ","), struct2cell(list), "UniformOutput", false);
  names = sort(unique([names, parts{:}]));
  sum_ += sum(cellfun(@numel, names)) + numel(regexprep(strjoin(names, " "), '\d(\d)', '$1x'));
end
printf("%d %d\n", sum_, numel(names));
END
}

run() {
    local -x OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    octave-cli --norc --no-history --quiet "$folder/work.m" "$(amount 12 1)"
}

drive "$@"
