/* Runs the SQL that it reads, on a database in memory, and prints each row as a line. */
#include <sqlite3.h>
#include <stdio.h>

static int print(void *unused, int columns, char **values, char **names)
{
    (void)unused, (void)names;
    for (int i = 0; i < columns; i++)
        printf("%s%c", values[i] ? values[i] : "NULL", i + 1 < columns ? '|' : '\n');
    return 0;
}

int main(void)
{
    static char text[1 << 16];
    char *error = NULL;
    sqlite3 *database;
    fread(text, 1, sizeof(text) - 1, stdin);
    if (sqlite3_open(":memory:", &database) != SQLITE_OK)
        return 1;
    if (sqlite3_exec(database, text, print, NULL, &error) != SQLITE_OK)
        return fprintf(stderr, "%s\n", error), 1;
    fflush(stdout);
    return sqlite3_close(database) != SQLITE_OK;
}
