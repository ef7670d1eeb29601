/* An object whose thread-local storage lies at a fixed offset, for which loaders have no space. */
static __thread long own[8] __attribute__((tls_model("initial-exec")));

long *greedy_own(void)
{
    return own;
}
