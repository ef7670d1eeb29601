PRAGMA page_size = 1024;
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, value BLOB);
CREATE INDEX by_name ON t (name);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO t SELECT i, 'name ' || i, zeroblob(300 + i * 17) FROM n;
