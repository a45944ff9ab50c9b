/// A library for `LD_PRELOAD` that logs a process' changes below a directory, in order, and its flushes (`fsync`,
/// `fdatasync`). `DiskJournal` reads the log.
enum DiskJournalLibrary {
  static let source = #"""
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdarg.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/uio.h>
    #include <unistd.h>

    // A record is this header, then the names and the bytes. Numbers rise by one.
    struct record {
      uint64_t kind, name, other, bytes, number, file, second, offset;
    };

    enum { LIMIT = 65536 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int journal = -1;
    static const char *root;
    static uint64_t numbers;
    // The inode of each open file below the directory, by descriptor.
    static uint64_t tracked[LIMIT];

    __attribute__((constructor)) static void begin(void) {
      root = getenv("DISK_JOURNAL_ROOT");
      const char *path = getenv("DISK_JOURNAL");
      if (root && path) journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      unsetenv("LD_PRELOAD");
    }

    static void note(char kind, uint64_t file, uint64_t second, uint64_t offset, const char *name, const char *other,
                     const void *bytes, size_t count) {
      struct record record = {kind, name ? strlen(name) : 0, other ? strlen(other) : 0, count, ++numbers, file, second,
                              offset};
      struct iovec parts[4] = {{&record, sizeof record}, {(void *)name, record.name}, {(void *)other, record.other},
                               {(void *)bytes, count}};
      ssize_t written = writev(journal, parts, 4);
      if (written != (ssize_t)(sizeof record + record.name + record.other + count)) _exit(70);
    }

    static uint64_t is_tracked(int fd) { return journal >= 0 && fd >= 0 && fd < LIMIT ? tracked[fd] : 0; }

    static uint64_t inode(int fd) {
      struct stat status;
      return fstat(fd, &status) == 0 ? status.st_ino : 0;
    }

    // The directory of a path's last name; 0 if it is not below the root.
    static uint64_t home(int directory, const char *path, const char **last) {
      uint64_t own = is_tracked(directory);
      const char *slash = strrchr(path, '/');
      *last = slash ? slash + 1 : path;
      if (!own || path[0] == '/') return 0;
      if (!slash) return own;
      char above[4096];
      struct stat status;
      if (slash - path >= (long)sizeof above) return 0;
      memcpy(above, path, slash - path);
      above[slash - path] = 0;
      return fstatat(directory, above, &status, 0) == 0 ? status.st_ino : 0;
    }

    static int opened(int fd, int directory, const char *path) {
      if (fd < 0 || fd >= LIMIT || journal < 0) return fd;
      int is_below = path[0] == '/' ? strncmp(path, root, strlen(root)) == 0 : is_tracked(directory) != 0;
      tracked[fd] = is_below ? inode(fd) : 0;
      return fd;
    }

    #define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

    #define OPENAT(name)                                                                                              \
      int name(int directory, const char *path, int flags, ...) {                                                     \
        va_list list;                                                                                                 \
        va_start(list, flags);                                                                                        \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;                                       \
        va_end(list);                                                                                                 \
        const char *last;                                                                                             \
        uint64_t where = flags & O_CREAT && journal >= 0 ? home(directory, path, &last) : 0;                          \
        if (!where) return opened(REAL(name, directory, path, flags, mode), directory, path);                         \
        pthread_mutex_lock(&lock);                                                                                    \
        int is_new = faccessat(directory, path, F_OK, 0) != 0;                                                        \
        int fd = REAL(name, directory, path, flags, mode);                                                            \
        int code = errno;                                                                                             \
        if (fd >= 0 && is_new) note('N', where, inode(fd), 0, last, 0, 0, 0);                                         \
        if (fd >= 0 && !is_new && flags & O_TRUNC) note('T', inode(fd), 0, 0, 0, 0, 0, 0);                            \
        opened(fd, directory, path);                                                                                  \
        pthread_mutex_unlock(&lock);                                                                                  \
        errno = code;                                                                                                 \
        return fd;                                                                                                    \
      }
    OPENAT(openat)
    OPENAT(openat64)

    #define OPEN(name)                                                                                                \
      int name(const char *path, int flags, ...) {                                                                    \
        va_list list;                                                                                                 \
        va_start(list, flags);                                                                                        \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;                                       \
        va_end(list);                                                                                                 \
        return opened(REAL(name, path, flags, mode), AT_FDCWD, path);                                                 \
      }
    OPEN(open)
    OPEN(open64)

    int close(int fd) {
      if (fd >= 0 && fd < LIMIT) tracked[fd] = 0;
      return REAL(close, fd);
    }

    #define PWRITE(name)                                                                                              \
      ssize_t name(int fd, const void *bytes, size_t count, off_t offset) {                                           \
        uint64_t file = is_tracked(fd);                                                                               \
        if (!file) return REAL(name, fd, bytes, count, offset);                                                       \
        pthread_mutex_lock(&lock);                                                                                    \
        ssize_t written = REAL(name, fd, bytes, count, offset);                                                       \
        int code = errno;                                                                                             \
        if (written > 0) note('W', file, 0, offset, 0, 0, bytes, written);                                            \
        pthread_mutex_unlock(&lock);                                                                                  \
        errno = code;                                                                                                 \
        return written;                                                                                               \
      }
    PWRITE(pwrite)
    PWRITE(pwrite64)

    #define FTRUNCATE(name)                                                                                           \
      int name(int fd, off_t size) {                                                                                  \
        uint64_t file = is_tracked(fd);                                                                               \
        if (!file) return REAL(name, fd, size);                                                                       \
        pthread_mutex_lock(&lock);                                                                                    \
        int result = REAL(name, fd, size);                                                                            \
        int code = errno;                                                                                             \
        if (result == 0) note('T', file, 0, size, 0, 0, 0, 0);                                                        \
        pthread_mutex_unlock(&lock);                                                                                  \
        errno = code;                                                                                                 \
        return result;                                                                                                \
      }
    FTRUNCATE(ftruncate)
    FTRUNCATE(ftruncate64)

    // Writes before the call are durable when it has returned.
    #define SYNC(name)                                                                                                \
      int name(int fd) {                                                                                              \
        uint64_t file = is_tracked(fd);                                                                               \
        if (!file) return REAL(name, fd);                                                                             \
        pthread_mutex_lock(&lock);                                                                                    \
        uint64_t before = numbers;                                                                                    \
        pthread_mutex_unlock(&lock);                                                                                  \
        int result = REAL(name, fd);                                                                                  \
        int code = errno;                                                                                             \
        pthread_mutex_lock(&lock);                                                                                    \
        if (result == 0) note('S', file, 0, before, 0, 0, 0, 0);                                                      \
        pthread_mutex_unlock(&lock);                                                                                  \
        errno = code;                                                                                                 \
        return result;                                                                                                \
      }
    SYNC(fsync)
    SYNC(fdatasync)

    int mkdirat(int directory, const char *path, mode_t mode) {
      const char *last;
      uint64_t where = journal >= 0 ? home(directory, path, &last) : 0;
      if (!where) return REAL(mkdirat, directory, path, mode);
      pthread_mutex_lock(&lock);
      int result = REAL(mkdirat, directory, path, mode);
      int code = errno;
      struct stat status;
      if (result == 0 && fstatat(directory, path, &status, 0) == 0) note('N', where, status.st_ino, 1, last, 0, 0, 0);
      pthread_mutex_unlock(&lock);
      errno = code;
      return result;
    }

    int unlinkat(int directory, const char *path, int flags) {
      const char *last;
      uint64_t where = journal >= 0 ? home(directory, path, &last) : 0;
      if (!where) return REAL(unlinkat, directory, path, flags);
      pthread_mutex_lock(&lock);
      int result = REAL(unlinkat, directory, path, flags);
      int code = errno;
      if (result == 0) note('U', where, 0, 0, last, 0, 0, 0);
      pthread_mutex_unlock(&lock);
      errno = code;
      return result;
    }

    int renameat(int directory, const char *path, int target, const char *other) {
      const char *last, *next;
      uint64_t from = journal >= 0 ? home(directory, path, &last) : 0;
      uint64_t to = journal >= 0 ? home(target, other, &next) : 0;
      if (!from || !to) return REAL(renameat, directory, path, target, other);
      pthread_mutex_lock(&lock);
      int result = REAL(renameat, directory, path, target, other);
      int code = errno;
      if (result == 0) note('R', from, to, 0, last, next, 0, 0);
      pthread_mutex_unlock(&lock);
      errno = code;
      return result;
    }
    """#
}
