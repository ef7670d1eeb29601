<?php
// So many turns over arrays of objects; prints a sum.
final class Stone {
    public function __construct(public int $id, public string $name, public array $tags) {}
}
mt_srand(7);
$sum = '';
for ($turn = 0; $turn < (int) $argv[1]; $turn++) {
    $stones = [];
    for ($id = 0; $id < 4000; $id++) {
        $name = md5((string) mt_rand());
        $stones[$name] = new Stone($id, $name, str_split($name, 4));
    }
    uasort($stones, fn ($a, $b) => strcmp($a->tags[1], $b->tags[1]) ?: $a->id <=> $b->id);
    $text = json_encode(array_values($stones));
    $back = json_decode($text, true);
    $marks = preg_match_all('/"[a-f]+[0-9]([0-9a-f]+)"/', $text, $found);
    $joined = implode(',', array_map(fn ($s) => strrev($s['name']), $back));
    $sum = md5($sum . $joined . $marks . count(array_unique($found[1])));
}
echo $sum, "\n";
