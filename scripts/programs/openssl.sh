#!/usr/bin/env bash
# OpenSSL as an authority: certificates signed, revoked, checked; messages sealed and opened.
source "$(dirname "$0")/common.sh"

about() {
    command -v openssl > /dev/null || absent openssl
    printf 'version: %s\n' "$(openssl version | cut -d' ' -f1,2)"
    echo 'what: a CA with 40 certificates on elliptic curves, a CRL, checks; CMS; a file' \
        'encrypted, decrypted and hashed'
}

prepare() {
    awk -v count="$(amount 400000 2000)" \
        'BEGIN { for (at = 0; at < count; at++) print at, at * 7919 % 10007 }' > "$folder/text"
    cat > "$folder/ca.cnf" << 'END'
[req]
distinguished_name = name
[name]
[ca]
default_ca = own
[own]
dir = .
database = index
new_certs_dir = new
serial = serial
crlnumber = crlnumber
default_md = sha256
default_days = 9000
default_crl_days = 9000
policy = any
unique_subject = no
[any]
commonName = supplied
[root]
basicConstraints = critical, CA:true
subjectKeyIdentifier = hash
END
}

run() {
    local at count
    count=$(amount 40 3)
    rm -rf "$folder/ca"
    mkdir -p "$folder/ca/new"
    cd "$folder/ca"
    : > index
    echo 1000 > serial
    echo 1000 > crlnumber
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -keyout root.key \
        -config ../ca.cnf -extensions root -subj /CN=root -days 9000 -out root.crt 2> /dev/null
    for ((at = 0; at < count; at++)); do
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k$at \
            -subj "/CN=q$at" -config ../ca.cnf -out r$at 2> /dev/null
        openssl ca -batch -config ../ca.cnf -cert root.crt -keyfile root.key -in r$at -out c$at \
            2> /dev/null
        ((at % 5)) || openssl ca -config ../ca.cnf -cert root.crt -keyfile root.key -revoke c$at \
            2> /dev/null
    done
    openssl ca -config ../ca.cnf -cert root.crt -keyfile root.key -gencrl -out crl 2> /dev/null
    for ((at = 0; at < count; at++)); do
        openssl verify -crl_check -CAfile root.crt -CRLfile crl c$at 2> /dev/null || true
    done | sort | uniq | wc -l
    openssl cms -encrypt -binary -aes256 -in ../text -out sealed c1
    openssl cms -decrypt -binary -inkey k1 -recip c1 -in sealed | md5sum
    openssl enc -aes-256-ctr -pbkdf2 -pass pass:q -S 0011223344556677 -in ../text | md5sum
    openssl dgst -sha3-512 ../text | cut -d' ' -f2
}

drive "$@"
