/* Put before the C library of a hub under test: while a file of the fault's name is in FAULTS_DIR, the fault happens.
 * Only regular files are touched, never pipes, sockets or terminals.
 * The wall clock is wrong by FAULTS_CLOCK_SECONDS, all the time, or by what stands in the file FAULTS_CLOCK_FILE; the
 * clocks that only measure spans are right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
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
    if (is_database(fd)) FAILS("checkpoint-full", ENOSPC)
    return NEXT(ssize_t (*)(int, const void *, size_t, off_t), "pwrite", fd, from, n, at);
}
ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
    FAILS("disk-full", ENOSPC)
    if (is_database(fd)) FAILS("checkpoint-full", ENOSPC)
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

static long wrong_now(const char *path) {
    char text[32] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? atol(text) : 0;
}
static long wrong_by(void) {
    const char *path = getenv("FAULTS_CLOCK_FILE");
    if (path) return wrong_now(path);
    static long seconds, known;
    if (!known) {
        const char *text = getenv("FAULTS_CLOCK_SECONDS");
        seconds = text ? atol(text) : 0;
        known = 1;
    }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += wrong_by();
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *into) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t)-1;
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
