#!/usr/bin/env bash
# Ruby: 500 MiB of hashes and of strings outside its own heap, replaced at random.
source "$(dirname "$0")/../programs/common.sh"

about() {
    command -v ruby > /dev/null || absent ruby
    printf 'version: %s\n' "$(ruby -e 'print "ruby ", RUBY_VERSION')"
    echo 'what: 900,000 hashes with strings and arrays; as many replaced at random; sorting'
}

prepare() { :; }

run() {
    ruby --disable-gems -e '
        count, draw = ARGV[0].to_i, Random.new(7)
        make = ->(id) { { id: id, name: "stone " * (2 + draw.rand(20)) + id.to_s,
                          tags: Array.new(draw.rand(8)) { |at| at * id } } }
        kept = Array.new(count) { |id| make.(id) }
        count.times { |turn| kept[draw.rand(count)] = make.(count + turn) }
        sum = kept.sort_by { |one| one[:name] }.first(1000).sum { |one| one[:id] }
        puts sum, kept.sum { |one| one[:name].size + one[:tags].size }' "$(amount 900000 30000)"
}

drive "$@"
