#!/usr/bin/env bash
# webpack from npm: generated modules and those of lodash and react-dom into two minified files.
source "$(dirname "$0")/common.sh"

find_webpack() {
    local target=${CARGO_TARGET_DIR:-target}
    [[ $target == /* ]] || target=$(realpath "$(dirname "$0")/../..")/$target
    packages=$target/programs/webpack/node_modules
    [[ -d $packages/webpack-cli && -d $packages/react-dom && -d $packages/lodash ]] \
        || absent 'nodejs npm, then npm install webpack webpack-cli lodash react react-dom'
}

about() {
    find_webpack
    printf 'version: webpack %s\n' \
        "$(node -p "require('$packages/webpack/package.json').version")"
    echo 'what: lodash, react-dom and 200 generated modules into two minified files, whose sum' \
        'is then run'
    echo 'rounds: 4'
}

prepare() {
    find_webpack
    local at count
    count=$(amount 200 5)
    mkdir "$folder/src"
    ln -s "$packages" "$folder/node_modules"
    for ((at = 0; at < count; at++)); do
        echo "export const f$at = (n) => { const list = [...Array(n).keys()].map((x) => x * $at);" \
            "return list.filter((x) => x % 3).reduce((a, b) => a + b, 0); };"
    done | awk -v folder="$folder/src" '{
        file = folder "/m" NR - 1 ".js"
        print > file
        close(file)
    }'
    {
        echo "import _ from 'lodash'; import { createElement } from 'react';"
        echo "import { version } from 'react-dom';"
        for ((at = 0; at < count; at++)); do echo "import { f$at } from './m$at.js';"; done
        echo 'console.log(_.sum(['
        for ((at = 0; at < count; at++)); do echo "f$at(50),"; done
        echo "]), typeof createElement('p'), version.length > 0);"
    } > "$folder/src/index.js"
    cat > "$folder/webpack.config.js" << 'END'
module.exports = {
  mode: 'production', target: 'node', entry: './src/index.js', stats: 'errors-only',
  optimization: { splitChunks: { chunks: 'all', name: 'shared', minSize: 0 } },
};
END
}

run() {
    find_webpack
    cd "$folder"
    rm -rf dist
    node node_modules/webpack-cli/bin/cli.js --no-color
    md5sum dist/* | sort -k2
    node -e "require('./dist/shared.js'); require('./dist/main.js')" | tail -n1
}

drive "$@"
