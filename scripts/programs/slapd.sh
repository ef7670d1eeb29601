#!/usr/bin/env bash
# OpenLDAP's slapd: a directory in a memory map.
source "$(dirname "$0")/common.sh"

about() {
    local version
    find_commands slapd slapd ldapadd ldap-utils
    version=$(slapd -VV 2>&1 | sed -n '1s/.*slapd \([^ ]*\).*/\1/p')
    echo "version: slapd ${version%%+dfsg*}"
    echo 'what: people added, searched by attributes, changed, removed; a new index over' \
        'cn=config as the reload'
}

prepare() {
    awk -v count="$(amount 3000 100)" -v folder="$folder" 'BEGIN {
        base = "dc=stone,dc=test"
        print "dn: " base "\nobjectClass: dcObject\nobjectClass: organization\no: stone\n" \
            "dc: stone\n" > (folder "/add")
        for (at = 0; at < count; at++) {
            dn = "cn=p" at "," base
            printf "dn: %s\nobjectClass: inetOrgPerson\ncn: p%d\nsn: name %d\nmail: p%d@test\n" \
                "description: %s of %d\nemployeeNumber: %d\n\n",
                dn, at, at % 97, at, at % 2 ? "odd" : "even", at, at % 41 > (folder "/add")
            printf "dn: %s\nchangetype: modify\nreplace: description\ndescription: new %d\n-\n" \
                "add: telephoneNumber\ntelephoneNumber: +%d\n-\n\n", dn, at, at > (folder "/change")
            print dn > (folder "/remove")
            if (at % 2 == 0) print "p" at > (folder "/asked")
        }
        print base > (folder "/remove")
    }'
    cat > "$folder/conf" << END
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $folder/pid
sizelimit unlimited
threads 4
database config
rootpw x
database mdb
suffix "dc=stone,dc=test"
rootdn "cn=root,dc=stone,dc=test"
rootpw x
directory $folder/data
maxsize 268435456
dbnosync
index objectClass,cn eq
index sn,mail eq,sub
END
}

at=(-x -H ldap://127.0.0.1:3890)
as_root=("${at[@]}" -D cn=root,dc=stone,dc=test -w x)
find_people() { ldapsearch "${at[@]}" -LLL -o ldif-wrap=no -b dc=stone,dc=test "$@"; }

start() {
    rm -rf "$folder/data" "$folder/config"
    mkdir "$folder/data" "$folder/config"
    # It answers with 1 as the database is empty.
    slaptest -f "$folder/conf" -F "$folder/config" > "$folder/log" 2>&1 || true
    slapd -d 0 -h ldap://127.0.0.1:3890 -F "$folder/config" >> "$folder/log" 2>&1 &
    server=$!
    await "$server" ldapsearch "${at[@]}" -b '' -s base
}

load() {
    ldapadd "${as_root[@]}" -f "$folder/add" | grep -c adding
    find_people '(&(sn=name 7)(mail=p*@test))' cn description | md5sum
    find_people '(employeeNumber=5)' mail | sort | md5sum
    find_people -f "$folder/asked" '(cn=%s)' mail sn | md5sum
    for _ in 1 2 3 4 5 6; do find_people '(objectClass=*)' cn sn mail & done | sort | md5sum
    ldapmodify "${as_root[@]}" -f "$folder/change" | grep -c modifying
    find_people '(telephoneNumber=*)' description telephoneNumber | md5sum
    ldapdelete "${as_root[@]}" -f "$folder/remove"
}

reload() {
    printf '%s\n' "dn: olcDatabase={1}mdb,cn=config" 'changetype: modify' 'add: olcDbIndex' \
        'olcDbIndex: employeeNumber,description eq,sub' > "$folder/index"
    ldapmodify "${at[@]}" -D cn=config -w x -f "$folder/index" > /dev/null
}

stop() { terminate slapd; }

drive "$@"
