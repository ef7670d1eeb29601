/* libquarry_sqlite.so: Quarry as the page cache and the heap of SQLite. See docs/sqlite.md. */
#ifndef QUARRY_SQLITE_H
#define QUARRY_SQLITE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Makes Quarry the page cache and the heap of the SQLite of this process. Call it before anything
 * else of SQLite, or after sqlite3_shutdown(). Returns a result code of SQLite: SQLITE_OK;
 * SQLITE_MISUSE where SQLite is in use; SQLITE_ERROR where the process has no sqlite3_config, or
 * where QUARRY_DISABLE=1. */
int quarry_sqlite_install(void);

/* Sets the maximum number of bytes that SQLite's heap and all its page caches may have together,
 * in place of QUARRY_LIMIT. May be called at any time. Returns SQLITE_OK, or SQLITE_ERROR below
 * 4 KiB or where Quarry serves nothing. */
int quarry_sqlite_set_limit(unsigned long long bytes);

#ifdef __cplusplus
}
#endif

#endif
