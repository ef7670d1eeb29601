/* Installs Quarry under the SQLite that the program is linked with, and counts the rows that it
 * stored; prints 0 where anything went wrong. */
#include "quarry_sqlite.h"
#include <sqlite3.h>
#include <stdio.h>

static int count(void *to, int columns, char **values, char **names) {
  (void)columns;
  (void)names;
  return sscanf(values[0], "%d", (int *)to) != 1;
}

int main(void) {
  sqlite3 *db;
  int rows = 0, first = quarry_sqlite_install(), limit = quarry_sqlite_set_limit(8ull << 20);
  if (first != SQLITE_OK || limit != SQLITE_OK || sqlite3_open("", &db) != SQLITE_OK) {
    return 1;
  }
  /* SQLite is in use now. */
  if (quarry_sqlite_install() != SQLITE_MISUSE) {
    return 2;
  }
  if (sqlite3_exec(db,
                   "CREATE TABLE t AS WITH RECURSIVE c (i) AS"
                   " (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1000)"
                   " SELECT i, zeroblob(900) FROM c; SELECT count(*) FROM t",
                   count, &rows, 0) != SQLITE_OK) {
    return 3;
  }
  sqlite3_close(db);
  printf("%d rows\n", rows);
  return 0;
}
