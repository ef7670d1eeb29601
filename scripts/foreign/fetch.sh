# fetch NAME [SUITE]: unpacks a source package of Debian (of this suite, if the system's has none)
# into $place, once; nothing of it is committed.
# Source packages come from the servers of the binary ones, by lists apart from apt's own.
fetch() {
    local name=$1 lists=$place/apt
    ls -d "$place/$name"-*/ > /dev/null 2>&1 && return
    mkdir -p "$lists/lists/partial"
    {
        sed -n 's/^deb \(.* main\).*/deb-src \1/p' /etc/apt/sources.list 2> /dev/null
        local file
        for file in /etc/apt/sources.list.d/debian*.sources; do
            [[ ! -e $file ]] || awk '/^URIs:/ { uri = $2 } /^Suites:/ { suite = $2 }
                /^Signed-By:/ { key = $2 } /^$/ { print_it() } END { print_it() }
                function print_it() {
                    if (uri) print "deb-src [signed-by=" key "]", uri, suite, "main"
                    uri = ""
                }' "$file"
        done
    } | if [[ -n ${2:-} ]]; then sed "/security/d; s/[^ ]* main$/$2 main/"; else cat; fi \
        > "$lists/sources.list"
    local options=(-qq -o Dir::Etc::SourceList="$lists/sources.list" -o Dir::Etc::SourceParts=-
        -o Dir::State::Lists="$lists/lists" -o APT::Sandbox::User=root)
    (cd "$place" && apt-get "${options[@]}" update \
        && apt-get "${options[@]}" source --download-only "$name" \
        && dpkg-source --skip-patches -x "$name"_*.dsc) > "$place/$name.log" 2>&1 \
        || { echo "$name: cannot be fetched: see $place/$name.log"; return 1; }
}
