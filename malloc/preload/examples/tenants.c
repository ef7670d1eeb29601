/*
 * Tenants of a server, which run SQL on connections of their own: a tenant's query that would take
 * too much memory fails with SQLite's error, and the others are not harmed.
 *
 *     cc tenants.c -lquarry-full -lsqlite3 && ./a.out
 */
#include <quarry.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TENANTS 3
#define MIB ((size_t)1 << 20)

struct tenant {
    int group;
    sqlite3 *connection;
};

/* Runs SQL for a tenant; returns SQLite's code. */
static int run(struct tenant *tenant, const char *sql)
{
    int before = quarry_group_enter(tenant->group);
    int code = sqlite3_exec(tenant->connection, sql, NULL, NULL, NULL);
    quarry_group_leave(before);
    return code;
}

static int open_one(struct tenant *tenant, const char *name)
{
    quarry_group_limits limits = {0, SIZE_MAX, 16 * MIB, SIZE_MAX, 0};
    int before, code;
    tenant->group = quarry_group_create(0, name, &limits);
    before = quarry_group_enter(tenant->group);
    code = sqlite3_open(":memory:", &tenant->connection);
    quarry_group_leave(before);
    return code;
}

int main(void)
{
    static const char *const NAMES[TENANTS] = {"north", "greedy", "south"};
    static const char ROWS[] =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
        "INSERT INTO t SELECT i, hex(randomblob(200)) FROM n";
    struct tenant tenants[TENANTS];
    int failed = 0;
    for (int i = 0; i < TENANTS; i++) {
        char sql[300];
        quarry_group_stats stats;
        if (open_one(&tenants[i], NAMES[i]) != SQLITE_OK)
            return 1;
        run(&tenants[i], "CREATE TABLE t(id INTEGER PRIMARY KEY, text)");
        snprintf(sql, sizeof(sql), ROWS, i == 1 ? 1000000 : 5000);
        failed += run(&tenants[i], sql) == SQLITE_NOMEM;
        quarry_group_stat(tenants[i].group, &stats, sizeof(stats));
        printf("%s: %s, %lu KiB in use, %lu refused\n", NAMES[i],
               sqlite3_errmsg(tenants[i].connection), (unsigned long)(stats.in_use >> 10),
               (unsigned long)stats.refusals);
    }
    for (int i = 0; i < TENANTS; i++) {
        sqlite3_close(tenants[i].connection);
        if (quarry_group_destroy(tenants[i].group) != 0)
            return 1;
    }
    return failed == 1 ? 0 : 1;
}
