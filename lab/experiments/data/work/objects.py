# Uses objects as CPython programs do: parsing, JSON, dicts and sets, strings, regular expressions.
# Prints the results; everything follows from the seed.
import ast
import json
import random
import re

ROUNDS = @AMOUNT@
KINDS = ["granite", "marble", "slate", "basalt", "chalk", "flint"]
WORD = re.compile(r"(?P<kind>[a-z]+)-(?P<number>\d+)(?:\s|$)")


def source(draw):
    lines = ["def block(a, b):", "    total = 0"]
    for number in range(40):
        lines.append(f"    if a > {draw.randrange(99)}: total += b * {number} + len('{number}')")
    return "\n".join(lines + ["    return total"])


def stone(number, draw):
    kind = draw.choice(KINDS)
    return {
        "id": number,
        "name": f"{kind}-{number} {kind}-{draw.randrange(1000)}",
        "weight": draw.randrange(10000) / 8,
        "marks": [draw.randrange(100) for _ in range(draw.randrange(12))],
    }


def main():
    draw = random.Random(7)
    nodes = letters = matches = 0
    kept, seen = {}, set()
    for turn in range(ROUNDS):
        nodes += sum(1 for _ in ast.walk(ast.parse(source(draw))))
        stones = [stone(number, draw) for number in range(300)]
        text = json.dumps(stones)
        letters += len(text)
        if json.loads(text) != stones:
            raise SystemExit("JSON came back different")
        for one in stones:
            for found in WORD.finditer(one["name"]):
                matches += 1
                kept.setdefault(found["kind"], {})[found["number"]] = one
            seen.update(map(str, one["marks"]))
        # Drops a third of them, chosen at random.
        for numbers in kept.values():
            for key in draw.sample(sorted(numbers), len(numbers) // 3):
                del numbers[key]
    left = sum(map(len, kept.values()))
    print(f"{nodes} nodes, {letters} letters, {matches} matches, {len(seen)} marks, {left} left")


main()
