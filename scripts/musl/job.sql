CREATE TABLE word(id INTEGER PRIMARY KEY, text TEXT, count INTEGER);
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 50000)
INSERT INTO word SELECT n, printf('word-%06d-%s', n * 7919 % 50000, hex(n * n)), n % 97 FROM number;
CREATE INDEX by_text ON word(text);
UPDATE word SET text = text || '-' || count WHERE id % 3 = 0;
DELETE FROM word WHERE count = 13;
SELECT count, group_concat(substr(text, 6, 6)) FROM word WHERE id < 1000 GROUP BY count ORDER BY 2 LIMIT 1;
SELECT count(*), sum(length(text)), max(text) FROM word;
SELECT a.text FROM word a JOIN word b ON a.text = b.text ORDER BY a.text LIMIT 1 OFFSET 25000;
