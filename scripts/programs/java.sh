#!/usr/bin/env bash
# OpenJDK: the compiler on generated classes, an archive of them, a program that inflates, deflates,
# keeps buffers outside the heap and starts threads, and jshell.
source "$(dirname "$0")/common.sh"

about() {
    command -v javac jar > /dev/null || absent openjdk-17-jdk-headless
    printf 'version: %s\n' "$(java -version 2>&1 | sed -n '1s/ version "\(.*\)".*/ \1/p')"
    echo 'what: javac of 40 generated classes, jar, threads with direct buffers, zlib and a' \
        'class loader each'
    echo 'rounds: 5'
}

prepare() {
    mkdir "$folder/source"
    cp "$(dirname "$0")/Churn.java" "$folder/source"
    awk -v count="$(amount 40 20)" -v folder="$folder/source" 'BEGIN {
        for (at = 0; at < count; at++) {
            file = folder "/C" at ".java"
            printf "import java.util.*;\npublic class C%d {\n", at > file
            for (method = 0; method < 20; method++)
                printf "  public static <T extends Comparable<T>> Map<String, List<T>> m%d(" \
                    "Collection<T> in) {\n    Map<String, List<T>> out = new TreeMap<>();\n" \
                    "    in.stream().filter(x -> x.hashCode() %% %d != 0).sorted().forEach(x -> " \
                    "out.computeIfAbsent(\"k\" + x.hashCode() %% %d, k -> new ArrayList<>())" \
                    ".add(x));\n    return out;\n  }\n", method, method + 2, at + 3 > file
            printf "  public static long sum(int n) {\n    long s = %d;\n    List<Integer> l = " \
                "new ArrayList<>();\n    for (int i = 0; i < n; i++) l.add(i * %d);\n", at,
                at + 1 > file
            for (method = 0; method < 20; method++)
                printf "    s += m%d(l).size();\n", method > file
            printf "    return s;\n  }\n}\n" > file
            close(file)
        }
    }'
}

run() {
    # A fixed number of compiler and collector threads on every machine.
    local -x JAVA_TOOL_OPTIONS=
    unset JAVA_TOOL_OPTIONS
    rm -rf "$folder/out" "$folder/all.jar"
    mkdir "$folder/out"
    javac -J-XX:+UseSerialGC -d "$folder/out" "$folder"/source/*.java
    jar --create --file "$folder/all.jar" --date 2024-01-01T00:00:00Z -C "$folder/out" .
    jar --list --file "$folder/all.jar" | wc -l
    java -XX:+UseSerialGC -Xmx256m -cp "$folder/out" Churn "$folder/all.jar" "$(amount 3 1)"
}

drive "$@"
