/* SQLite as its own build makes it: without SQLITE_ENABLE_MEMORY_MANAGEMENT. The functions are
 * local to this file, and reached through one table: another build may be in the program. */
#define SQLITE_API static
#define SQLITE_EXTERN
#include "sqlite3.c"

/* The same fields, in the same order, as `Api` in api.rs. */
struct quarry_plain_api {
  int (*config)(int, ...);
  int (*initialize)(void);
  int (*shutdown)(void);
  int (*open_v2)(const char *, sqlite3 **, int, const char *);
  int (*close)(sqlite3 *);
  int (*exec)(sqlite3 *, const char *, sqlite3_callback, void *, char **);
  int (*prepare_v2)(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
  int (*step)(sqlite3_stmt *);
  int (*reset)(sqlite3_stmt *);
  int (*finalize)(sqlite3_stmt *);
  int (*bind_int64)(sqlite3_stmt *, int, sqlite3_int64);
  int (*bind_blob)(sqlite3_stmt *, int, const void *, int, void (*)(void *));
  int (*column_count)(sqlite3_stmt *);
  int (*column_type)(sqlite3_stmt *, int);
  sqlite3_int64 (*column_int64)(sqlite3_stmt *, int);
  const void *(*column_blob)(sqlite3_stmt *, int);
  const unsigned char *(*column_text)(sqlite3_stmt *, int);
  int (*column_bytes)(sqlite3_stmt *, int);
  const char *(*errmsg)(sqlite3 *);
  int (*extended_errcode)(sqlite3 *);
  sqlite3_int64 (*memory_used)(void);
};

const struct quarry_plain_api quarry_plain_api = {
  sqlite3_config,
  sqlite3_initialize,
  sqlite3_shutdown,
  sqlite3_open_v2,
  sqlite3_close,
  sqlite3_exec,
  sqlite3_prepare_v2,
  sqlite3_step,
  sqlite3_reset,
  sqlite3_finalize,
  sqlite3_bind_int64,
  sqlite3_bind_blob,
  sqlite3_column_count,
  sqlite3_column_type,
  sqlite3_column_int64,
  sqlite3_column_blob,
  sqlite3_column_text,
  sqlite3_column_bytes,
  sqlite3_errmsg,
  sqlite3_extended_errcode,
  sqlite3_memory_used,
};
