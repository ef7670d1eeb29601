#!/usr/bin/env bash
# Ruby: objects with strings outside its heap, hashes, regular expressions, sorting.
source "$(dirname "$0")/common.sh"

about() {
    command -v ruby > /dev/null || absent ruby
    printf 'version: %s\n' "$(ruby -e 'print "ruby ", RUBY_VERSION')"
    echo 'what: strings, hashes of arrays, JSON, regular expressions, sorting'
}

prepare() { :; }

run() {
    ruby --disable-gems -rdigest -rjson -e '
        sum = ""
        ARGV[0].to_i.times do |turn|
          stones = Hash.new { |hash, key| hash[key] = [] }
          6000.times do |id|
            name = Digest::MD5.hexdigest((turn * id).to_s) * 2
            stones[name[0, 3]] << { "id" => id, "name" => name, "tags" => name.scan(/[a-f]+/) }
          end
          text = JSON.generate(stones.sort.map { |key, list| list.sort_by { |s| s["id"] } })
          back = JSON.parse(text).flatten.map { |s| s["name"].reverse }.sort.join(",")
          sum = Digest::MD5.hexdigest(sum + back)
        end
        puts sum' "$(amount 16 2)"
}

drive "$@"
