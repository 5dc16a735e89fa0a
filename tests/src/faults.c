/* Put before the C library of a hub under test: while a file of the fault's name is in FAULTS_DIR, the fault happens.
 * Only regular files are touched, never pipes, sockets or terminals. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int happens(const char *fault, int fd) {
    struct stat about;
    char path[4096];
    const char *dir = getenv("FAULTS_DIR");
    if (!dir || fstat(fd, &about) || !S_ISREG(about.st_mode)) return 0;
    snprintf(path, sizeof path, "%s/%s", dir, fault);
    return access(path, F_OK) == 0;
}

/* The database itself, not its write-ahead log. */
static int is_database(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    return n > 3 && !memcmp(path + n - 3, ".db", 3);
}

#define FAILS(fault, code) \
    if (happens(fault, fd)) { errno = code; return -1; }
#define NEXT(type, name, ...) ((type)dlsym(RTLD_NEXT, name))(__VA_ARGS__)

ssize_t write(int fd, const void *from, size_t n) {
    FAILS("disk-full", ENOSPC)
    return NEXT(ssize_t (*)(int, const void *, size_t), "write", fd, from, n);
}
ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    FAILS("disk-full", ENOSPC)
    return NEXT(ssize_t (*)(int, const void *, size_t, off_t), "pwrite", fd, from, n, at);
}
ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
    FAILS("disk-full", ENOSPC)
    return NEXT(ssize_t (*)(int, const void *, size_t, off64_t), "pwrite64", fd, from, n, at);
}
int fsync(int fd) {
    FAILS("sync-fails", EIO)
    if (is_database(fd)) FAILS("checkpoint-fails", EIO)
    return NEXT(int (*)(int), "fsync", fd);
}
int fdatasync(int fd) {
    FAILS("sync-fails", EIO)
    if (is_database(fd)) FAILS("checkpoint-fails", EIO)
    return NEXT(int (*)(int), "fdatasync", fd);
}
