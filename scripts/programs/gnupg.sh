#!/usr/bin/env bash
# GnuPG: keys made and signed, messages sealed, opened and checked; its agent is a daemon.
source "$(dirname "$0")/common.sh"

about() {
    command -v gpg gpg-agent gpgconf > /dev/null || absent gnupg
    printf 'version: %s\n' "$(gpg --version | sed -n '1s/ (GnuPG)//p')"
    echo 'what: 12 keys, each signed by the first; a text sealed to all, signed, opened, checked;' \
        'keys exported and imported'
}

prepare() {
    awk -v count="$(amount 200000 2000)" \
        'BEGIN { for (at = 0; at < count; at++) print at, at * 7919 % 10007 }' > "$folder/text"
}

run() {
    local at who=()
    # A socket's name may be no longer than 107 bytes.
    local -x GNUPGHOME=$folder/keys
    rm -rf "$GNUPGHOME"
    mkdir -m 700 "$GNUPGHOME"
    quietly() { gpg --batch --quiet --no-tty --yes --trust-model always "$@" 2> "$folder/errors"; }
    for ((at = 0; at < $(amount 12 2); at++)); do
        quietly --passphrase '' --quick-generate-key "q$at <q$at@example.org>" future-default - \
            never > /dev/null
        who+=(-r "q$at@example.org")
        ((at == 0)) || quietly -u q0@example.org --quick-sign-key \
            "$(gpg --batch --with-colons -k "q$at@example.org" | awk -F: '/^fpr/ { print $10 }' \
                | head -n1)" > /dev/null
    done
    quietly -e -s -u q1@example.org "${who[@]}" -o "$folder/sealed" "$folder/text"
    quietly -d "$folder/sealed" | md5sum
    grep -c 'Good signature' "$folder/errors"
    quietly --detach-sign -u q0@example.org -o "$folder/signature" "$folder/text"
    quietly --verify "$folder/signature" "$folder/text" && echo good
    quietly --export > "$folder/exported"
    gpgconf --kill all
    rm -rf "$GNUPGHOME"
    mkdir -m 700 "$GNUPGHOME"
    quietly --import "$folder/exported"
    quietly --with-colons --check-signatures | grep -c '^sig:!'
    gpgconf --kill all
}

drive "$@"
