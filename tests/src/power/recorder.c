/* Put before the C library of a hub under test: writes down, in their order, all that becomes of files below RECORD_BELOW, into RECORD_TO.
 * A record is four numbers (kind, inode, at, length) and so many bytes; what each kind means is said in log.rs.
 * An effect and its record are one under the lock of the file RECORD_TO, which whoever kills the hub takes first.
 * A sync only waits a moment: what counts as durable is decided by who replays the record. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE = 1, SIZE, ENTRY, GONE, RENAME, SYNC_BEGINS, SYNC_ENDS };

#define SYNC_TAKES_US 200
#define LISTING_MAX 65536

static char below[PATH_MAX];
static int record = -1;
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

#define NEXT(type, name, ...) ((type)dlsym(RTLD_NEXT, name))(__VA_ARGS__)

__attribute__((constructor)) static void begin(void) {
    const char *dir = getenv("RECORD_BELOW"), *to = getenv("RECORD_TO");
    if (!dir || !to || !realpath(dir, below)) return;
    record = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void lock(void) {
    pthread_mutex_lock(&threads);
    while (flock(record, LOCK_EX)) {}
}
static void unlock(void) {
    int error = errno;
    flock(record, LOCK_UN);
    pthread_mutex_unlock(&threads);
    errno = error;
}

static void note(enum kind kind, uint64_t inode, uint64_t at, const void *bytes, size_t n) {
    int error = errno;
    uint64_t head[4] = {kind, inode, at, n};
    struct iovec parts[2] = {{head, sizeof head}, {(void *)bytes, n}};
    if (syscall(SYS_writev, record, parts, 2) != (ssize_t)(sizeof head + n)) abort();
    errno = error;
}

static int is_below(const char *path) {
    size_t n = strlen(below);
    return !strncmp(path, below, n) && (path[n] == '/' || !path[n]);
}

/* Whether this is a file or directory of ours, and what is known of it. */
static int ours(int fd, struct stat *about) {
    char link[64], path[PATH_MAX];
    int error = errno, is = 0;
    if (record >= 0 && !fstat(fd, about) && (S_ISREG(about->st_mode) || S_ISDIR(about->st_mode))) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n < 0 ? 0 : n] = 0;
        is = is_below(path);
    }
    errno = error;
    return is;
}

/* A name in a directory of ours. */
struct place {
    char path[PATH_MAX];
    const char *name;
    ino_t dir;
};
static int find(int dirfd, const char *path, struct place *place) {
    char dir[PATH_MAX], real[PATH_MAX];
    struct stat about;
    int error = errno, is = 0, n;
    if (record < 0) return 0;
    if (dirfd == AT_FDCWD || *path == '/') n = snprintf(place->path, PATH_MAX, "%s", path);
    else n = snprintf(place->path, PATH_MAX, "/proc/self/fd/%d/%s", dirfd, path);
    if (n < PATH_MAX) {
        char *slash = strrchr(place->path, '/');
        place->name = slash ? slash + 1 : place->path;
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - place->path) + 1 : 1, slash ? place->path : ".");
        is = realpath(dir, real) && is_below(real) && !stat(real, &about);
        if (is) place->dir = about.st_ino;
    }
    errno = error;
    return is;
}

/* "inode mode name", and for a link what it leads to. */
static int line_of(char *line, size_t max, const char *path, const char *name) {
    char target[PATH_MAX];
    struct stat about;
    if (lstat(path, &about)) return 0;
    ssize_t n = S_ISLNK(about.st_mode) ? readlink(path, target, sizeof target - 1) : -1;
    target[n < 0 ? 0 : n] = 0;
    return snprintf(line, max, "%llu %u %s%s%s\n", (unsigned long long)about.st_ino, about.st_mode, name, n < 0 ? "" : "\t", target);
}

static void note_entry(const struct place *place) {
    char line[2 * PATH_MAX];
    int error = errno, n = line_of(line, sizeof line, place->path, place->name);
    if (n) note(ENTRY, place->dir, 0, line, n);
    errno = error;
}

/* All that is in a directory, however it came there. */
static size_t list(int fd, char *into) {
    char dir[64], path[PATH_MAX];
    size_t n = 0;
    snprintf(dir, sizeof dir, "/proc/self/fd/%d/", fd);
    DIR *open = opendir(dir);
    struct dirent *entry;
    while (open && (entry = readdir(open)) && n < LISTING_MAX - 2 * PATH_MAX) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s%s", dir, entry->d_name);
        n += line_of(into + n, LISTING_MAX - n, path, entry->d_name);
    }
    if (open) closedir(open);
    return n;
}

/* Writing. */

#define WRITES(call, from, at_expression)                                 \
    struct stat about;                                                    \
    if (!ours(fd, &about)) return call;                                   \
    lock();                                                               \
    fstat(fd, &about);                                                    \
    off_t begins = at_expression;                                         \
    ssize_t done = call;                                                  \
    if (done > 0) note(WRITE, about.st_ino, begins, from, done);          \
    unlock();                                                             \
    return done;
#define HERE ((fcntl(fd, F_GETFL) & O_APPEND) ? about.st_size : lseek(fd, 0, SEEK_CUR))

ssize_t write(int fd, const void *from, size_t n) {
    WRITES(NEXT(ssize_t (*)(int, const void *, size_t), "write", fd, from, n), from, HERE)
}
ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    WRITES(NEXT(ssize_t (*)(int, const void *, size_t, off_t), "pwrite", fd, from, n, at), from, at)
}
ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
    WRITES(NEXT(ssize_t (*)(int, const void *, size_t, off64_t), "pwrite64", fd, from, n, at), from, at)
}
/* Part by part; whoever asked for more asks again. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    struct stat about;
    if (!ours(fd, &about) || count < 1) return NEXT(ssize_t (*)(int, const struct iovec *, int), "writev", fd, parts, count);
    return write(fd, parts[0].iov_base, parts[0].iov_len);
}

#define RESIZES(call)                                             \
    struct stat about;                                            \
    if (!ours(fd, &about)) return call;                           \
    lock();                                                       \
    int failed = call;                                            \
    if (!failed && !fstat(fd, &about)) note(SIZE, about.st_ino, about.st_size, 0, 0); \
    unlock();                                                     \
    return failed;

int ftruncate(int fd, off_t n) { RESIZES(NEXT(int (*)(int, off_t), "ftruncate", fd, n)) }
int ftruncate64(int fd, off64_t n) { RESIZES(NEXT(int (*)(int, off64_t), "ftruncate64", fd, n)) }
int posix_fallocate(int fd, off_t at, off_t n) { RESIZES(NEXT(int (*)(int, off_t, off_t), "posix_fallocate", fd, at, n)) }
int posix_fallocate64(int fd, off64_t at, off64_t n) { RESIZES(NEXT(int (*)(int, off64_t, off64_t), "posix_fallocate64", fd, at, n)) }
int fallocate(int fd, int mode, off_t at, off_t n) { RESIZES(NEXT(int (*)(int, int, off_t, off_t), "fallocate", fd, mode, at, n)) }
int fallocate64(int fd, int mode, off64_t at, off64_t n) { RESIZES(NEXT(int (*)(int, int, off64_t, off64_t), "fallocate64", fd, mode, at, n)) }
/* Nothing is copied past the record: the caller falls back on reading and writing. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t n, unsigned flags) {
    (void)from, (void)from_at, (void)to, (void)to_at, (void)n, (void)flags;
    errno = ENOSYS;
    return -1;
}

/* Syncs. */

static int sync_of(int fd, const struct stat *about) {
    static uint64_t tickets;
    static char listing[LISTING_MAX];
    lock();
    uint64_t ticket = ((uint64_t)getpid() << 32) + ++tickets;
    size_t n = S_ISDIR(about->st_mode) ? list(fd, listing) : 0;
    note(SYNC_BEGINS, about->st_ino, ticket, listing, n);
    unlock();
    usleep(SYNC_TAKES_US);
    lock();
    note(SYNC_ENDS, about->st_ino, ticket, 0, 0);
    unlock();
    return 0;
}
int fsync(int fd) {
    struct stat about;
    return ours(fd, &about) ? sync_of(fd, &about) : NEXT(int (*)(int), "fsync", fd);
}
int fdatasync(int fd) {
    struct stat about;
    return ours(fd, &about) ? sync_of(fd, &about) : NEXT(int (*)(int), "fdatasync", fd);
}

/* Names. */

static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    struct place place;
    struct stat about;
    if (!(flags & (O_CREAT | O_TRUNC)) || !find(dirfd, path, &place))
        return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    lock();
    int error = errno, is_new = lstat(place.path, &about) != 0;
    errno = error;
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    if (fd >= 0 && is_new) note_entry(&place);
    else if (fd >= 0 && (flags & O_TRUNC)) note(SIZE, about.st_ino, 0, 0, 0);
    unlock();
    return fd;
}
#define MODE                                       \
    va_list more;                                  \
    va_start(more, flags);                         \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
    va_end(more);

int open(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dirfd, const char *path, int flags, ...) { MODE return open_at(dirfd, path, flags, mode); }
int openat64(int dirfd, const char *path, int flags, ...) { MODE return open_at(dirfd, path, flags | O_LARGEFILE, mode); }

#define MAKES(dirfd, path, call)                       \
    struct place place;                                \
    if (!find(dirfd, path, &place)) return call;       \
    lock();                                            \
    int failed = call;                                 \
    if (!failed) note_entry(&place);                   \
    unlock();                                          \
    return failed;

int mkdir(const char *path, mode_t mode) { MAKES(AT_FDCWD, path, NEXT(int (*)(const char *, mode_t), "mkdir", path, mode)) }
int symlink(const char *to, const char *path) { MAKES(AT_FDCWD, path, NEXT(int (*)(const char *, const char *), "symlink", to, path)) }
int link(const char *from, const char *path) { MAKES(AT_FDCWD, path, NEXT(int (*)(const char *, const char *), "link", from, path)) }
int linkat(int from_dir, const char *from, int dirfd, const char *path, int flags) {
    MAKES(dirfd, path, NEXT(int (*)(int, const char *, int, const char *, int), "linkat", from_dir, from, dirfd, path, flags))
}

#define REMOVES(dirfd, path, call)                                                   \
    struct place place;                                                              \
    if (!find(dirfd, path, &place)) return call;                                     \
    lock();                                                                          \
    int failed = call;                                                               \
    if (!failed) note(GONE, place.dir, 0, place.name, strlen(place.name));           \
    unlock();                                                                        \
    return failed;

int unlink(const char *path) { REMOVES(AT_FDCWD, path, NEXT(int (*)(const char *), "unlink", path)) }
int rmdir(const char *path) { REMOVES(AT_FDCWD, path, NEXT(int (*)(const char *), "rmdir", path)) }
int unlinkat(int dirfd, const char *path, int flags) {
    REMOVES(dirfd, path, NEXT(int (*)(int, const char *, int), "unlinkat", dirfd, path, flags))
}

int rename(const char *from, const char *to) {
    struct place old, new;
    char line[3 * PATH_MAX];
    int failed;
    if (!find(AT_FDCWD, from, &old) || !find(AT_FDCWD, to, &new)) return NEXT(int (*)(const char *, const char *), "rename", from, to);
    lock();
    failed = NEXT(int (*)(const char *, const char *), "rename", from, to);
    if (!failed) {
        int n = snprintf(line, sizeof line, "%s\n", old.name);
        n += line_of(line + n, sizeof line - n, new.path, new.name);
        note(RENAME, old.dir, new.dir, line, n);
    }
    unlock();
    return failed;
}
