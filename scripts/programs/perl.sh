#!/usr/bin/env bash
# Perl: hashes of arrays, strings, regular expressions, sorting.
source "$(dirname "$0")/common.sh"

about() {
    command -v perl > /dev/null || absent perl
    printf 'version: %s\n' "$(perl -e 'printf "perl %vd", $^V')"
    echo 'what: hashes of arrays, strings that grow, regular expressions, sorting'
}

prepare() { :; }

run() {
    PERL_HASH_SEED=0 perl -e '
        use strict;
        use Digest::MD5 "md5_hex";
        my $sum = "";
        for my $turn (1 .. $ARGV[0]) {
            my %stones;
            for my $id (1 .. 6000) {
                my $name = md5_hex($turn * $id);
                push @{ $stones{ substr $name, 0, 3 } }, { id => $id, name => $name };
            }
            my $text = "";
            for my $key (sort keys %stones) {
                my @sorted = sort { $a->{name} cmp $b->{name} } @{ $stones{$key} };
                $text .= join ",", map { "$_->{id}:$_->{name}" } @sorted;
            }
            my @marks = $text =~ /([a-f]+[0-9])/g;
            $sum = md5_hex($sum . $text . @marks);
        }
        print "$sum\n";' "$(amount 50 3)"
}

drive "$@"
