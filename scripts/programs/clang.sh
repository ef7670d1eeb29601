#!/usr/bin/env bash
# clang: C++ with templates of the standard library, to assembler.
source "$(dirname "$0")/common.sh"

about() {
    command -v clang++ > /dev/null || absent clang
    printf 'version: clang %s\n' "$(clang++ --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')"
    echo 'what: clang++ -O2 -g -S on generated functions with maps, strings, sorting and lambdas'
}

prepare() {
    awk -v count="$(amount 9 2)" 'BEGIN {
        print "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>"
        print "#include <memory>\n#include <functional>\n#include <unordered_map>"
        for (at = 0; at < count; at++) {
            printf "template <int N> struct S%d { S%d<N - 1> next; long sum() const { " \
                "return N + next.sum(); } };\ntemplate <> struct S%d<0> { long sum() const { " \
                "return %d; } };\n", at, at, at, at
            printf "long f%d(std::vector<std::string> &in) {\n" \
                "  std::map<std::string, std::vector<int>> by;\n" \
                "  std::unordered_map<int, std::unique_ptr<std::string>> kept;\n" \
                "  for (auto &s : in) by[s].push_back(s.size() * %d);\n" \
                "  std::sort(in.begin(), in.end(), [](auto &a, auto &b) { " \
                "return a.size() %% %d < b.size() %% %d; });\n" \
                "  std::function<long(long)> g = [&](long n) { " \
                "return n + by.size() + S%d<40>().sum(); };\n" \
                "  for (auto &[k, v] : by) kept[v.size()] = std::make_unique<std::string>(k);\n" \
                "  return g(kept.size());\n}\n", at, at + 1, at + 2, at + 2, at
        }
    }' > "$folder/f.cc"
}

run() {
    cd "$folder"
    clang++ -std=c++17 -O2 -g -S -o - f.cc | md5sum
}

drive "$@"
