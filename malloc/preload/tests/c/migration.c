/*
 * Asks for functions and figures of other allocators, as docs/coming-from.md names them, and prints
 * a line with the answer to each: what the call returns, or the name of its error.
 * usage: migration [symbol|figure|read|write|call NAME]..
 */
#include "check.h"

static const char *answer(const char *how, const char *name)
{
    if (strcmp(how, "symbol") == 0)
        return dlsym(RTLD_DEFAULT, name) != NULL ? "present" : "absent";
    if (strcmp(how, "figure") == 0) {
        int (*figure)(const char *, size_t *);
        *(void **)&figure = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
        size_t bytes;
        return figure(name, &bytes) ? "1" : "0";
    }
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    /* The length has to be that of the value, which is a number or a bool. */
    static const size_t lengths[] = {8, 4, 1};
    size_t tries = 0;
    uint64_t value = 1;
    int code;
    do {
        size_t length = lengths[tries++];
        if (strcmp(how, "read") == 0)
            code = mallctl(name, &value, &length, NULL, 0);
        else if (strcmp(how, "write") == 0)
            code = mallctl(name, NULL, NULL, &value, length);
        else
            code = mallctl(name, NULL, NULL, NULL, 0);
    } while (code == EINVAL && tries < LENGTH(lengths));
    return code == 0 ? "0" : code == ENOENT ? "ENOENT" : code == EPERM ? "EPERM" : strerror(code);
}

int main(int argc, char **argv)
{
    require_quarry();
    for (int i = 1; i + 1 < argc; i += 2)
        printf("%s %s: %s\n", argv[i], argv[i + 1], answer(argv[i], argv[i + 1]));
    return 0;
}
