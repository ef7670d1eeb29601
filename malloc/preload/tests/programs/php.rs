//! PHP opens its extensions with RTLD_DEEPBIND, and passes them memory that it has allocated.

use std::fs;

use super::{answer, installed};
use crate::support::{Run, scratch};
use std::process::Command;

/// Documents, several encodings, a database, sorting, regular expressions, garbage collection.
const SCRIPT: &str = r#"<?php
$document = new DOMDocument();
$root = $document->appendChild($document->createElement("list"));
for ($i = 0; $i < 3000; $i++) {
    $item = $document->createElement("item", "name " . ($i * 7919 % 3001));
    $item->setAttribute("weight", (string)($i % 97));
    $root->appendChild($item);
}
$text = $document->saveXML();
$copy = new SimpleXMLElement($text);
echo count($copy->xpath("//item[@weight='5']")), " ", md5($text), "\n";
$parser = xml_parser_create();
$names = 0;
xml_set_element_handler($parser, function () use (&$names) { $names++; }, function () {});
echo xml_parse($parser, $text, true), " ", $names, "\n";
$words = [];
foreach ($copy->item as $item)
    $words[] = mb_convert_encoding("Größe " . $item, "UTF-16LE", "UTF-8");
sort($words);
$joined = mb_strtoupper(mb_convert_encoding(implode($words), "UTF-8", "UTF-16LE"));
echo mb_strlen($joined), " ", md5($joined), "\n";
$database = new SQLite3(":memory:");
$database->exec("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)");
$insert = $database->prepare("INSERT INTO item (name) VALUES (?)");
foreach ($words as $word) {
    $insert->bindValue(1, md5($word));
    $insert->execute();
}
$database->createFunction("turned", fn ($name) => strrev($name));
echo $database->querySingle("SELECT group_concat(turned(name)) FROM item WHERE id % 500 = 0"), "\n";
$cycles = [];
for ($i = 0; $i < 20000; $i++) {
    $a = new stdClass();
    $a->self = $a;
    $a->text = preg_replace("/\d+/", "<$0>", "number $i of many");
    $cycles[$i % 100] = $a;
}
echo gc_collect_cycles() > 0 ? "collected" : "nothing to collect", " ", $cycles[7]->text, "\n";
"#;

#[test]
fn php_with_its_extensions() {
    let php = installed("php", "php-cli");
    let has = answer(Command::new(&php).arg("-m"));
    for (module, package) in
        [("dom", "php-xml"), ("mbstring", "php-mbstring"), ("sqlite3", "php-sqlite3")]
    {
        let is_there = has.lines().any(|line| line == module);
        assert!(is_there, "php has no {module}: apt-get install {package}");
    }
    let file = scratch().join("script.php");
    fs::write(&file, SCRIPT).expect("scratch is writable");
    let without = Run::bare(&php).arg(&file).finish().success();
    // With PHP's own heap on top of malloc, and with each object from malloc.
    for zend_heap in ["1", "0"] {
        let run = Run::new(&php).env("USE_ZEND_ALLOC", zend_heap).arg(&file);
        let with = run.finish().success();
        assert_eq!(with.stdout, without.stdout, "the answers differ\n{with}");
        assert_eq!(with.stderr, "", "{with}");
        let allocs = with.stats().object_allocs();
        let least = if zend_heap == "1" { 20_000 } else { 100_000 };
        assert!(allocs > least, "the program made {allocs} allocations\n{with}");
    }
}
