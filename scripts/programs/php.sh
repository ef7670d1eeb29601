#!/usr/bin/env bash
# PHP with its objects on malloc: arrays, strings, regular expressions, objects, sorting.
source "$(dirname "$0")/common.sh"

about() {
    command -v php > /dev/null || absent php-cli
    printf 'version: %s\n' "$(php -nr 'echo "php ", PHP_VERSION;')"
    echo 'what: arrays, strings, regular expressions, objects, sorting, with USE_ZEND_ALLOC=0'
}

prepare() { :; }

run() { USE_ZEND_ALLOC=0 php -n "$(dirname "$0")/stones.php" "$(amount 60 3)"; }

drive "$@"
