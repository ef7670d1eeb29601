#!/usr/bin/env bash
# Maven compiles, tests and packs a project of three modules, offline. Its plugins and libraries are
# fetched once, into the target folder.
source "$(dirname "$0")/common.sh"

find_maven() {
    command -v mvn javac > /dev/null || absent maven openjdk-17-jdk-headless
    local target=${CARGO_TARGET_DIR:-target}
    [[ $target == /* ]] || target=$(realpath "$(dirname "$0")/../..")/$target
    options=(-B -q -Dmaven.repo.local="$target/programs/maven")
}

about() {
    find_maven
    printf 'version: %s\n' "$(mvn --version 2> /dev/null | sed 's/\x1b\[[0-9;]*m//g' \
        | sed -n '1s/Apache \([^ ]* [^ ]*\).*/\1/p')"
    echo 'what: three modules of 30 generated classes each compiled, and packed with their' \
        'resources; offline'
    echo 'rounds: 4'
}

module() {
    cat << END
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>$1</artifactId><version>1</version>$2
<properties><maven.compiler.source>11</maven.compiler.source>
<maven.compiler.target>11</maven.compiler.target>
<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
<project.build.outputTimestamp>2024-01-01T00:00:00Z</project.build.outputTimestamp></properties>
</project>
END
}

prepare() {
    find_maven
    local name at
    mkdir "$folder/all"
    cd "$folder/all"
    module all '<packaging>pom</packaging><modules><module>a</module><module>b</module>
        <module>c</module></modules>' > pom.xml
    for name in a b c; do
        mkdir -p $name/src/main/java/$name $name/src/main/resources
        module $name '' > $name/pom.xml
        for ((at = 0; at < $(amount 30 2); at++)); do
            echo "package $name; import java.util.*; public class C$at { Map<String, Integer> m =" \
                "new TreeMap<>(); int f(List<String> in) { in.stream().sorted().forEach(x ->" \
                "m.merge(x, $at, Integer::sum)); return m.size(); } }" \
                > $name/src/main/java/$name/C$at.java
            echo "stone=$at" > $name/src/main/resources/r$at.properties
        done
    done
    mvn "${options[@]}" package > "$folder/log" 2>&1 || wrong "$(tail -n3 "$folder/log")"
}

run() {
    find_maven
    local -x MAVEN_OPTS='-XX:+UseSerialGC -Xmx256m -XX:TieredStopAtLevel=1'
    local name
    cd "$folder/all"
    rm -rf ./*/target
    mvn "${options[@]}" -o package > "$folder/log" 2>&1 || wrong "$(tail -n3 "$folder/log")"
    for name in a b c; do jar --list --file $name/target/$name-1.jar | sort | md5sum; done
}

drive "$@"
