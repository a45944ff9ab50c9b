// Time and random numbers of a simulated process. The functions of the C library and of Foundation that are defined
// here take precedence over the originals, because the executable's symbols do. Until a simulation begins, they ask the
// kernel.

#define _GNU_SOURCE

#include "CSimulation.h"

// Also defines __GLIBC__.
#include <stdint.h>

#if defined(__linux__) && defined(__GLIBC__)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef long system_call(long, ...);

static const int64_t second = 1000000000;
// The wall clock of a simulation begins on 2025-01-01.
static const int64_t start = 1735689600;

static atomic_bool has_time = 0;
static _Atomic int64_t time_now = 0;
static _Atomic int64_t wall_ahead = 0;
static atomic_bool has_seed = 0;
static _Atomic uint64_t state = 0;
// Shared with the copies that `simulation_fork` makes.
static _Atomic uint64_t *steps = NULL;

void simulation_set_time(int64_t time, int64_t wall) {
  time_now = time;
  wall_ahead = wall;
  has_time = 1;
}

void simulation_set_seed(uint64_t seed) {
  state = seed;
  has_seed = 1;
}

uint64_t simulation_random_state(void) { return state; }

int64_t simulation_real_time(void) {
  struct timespec now;
  if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0) return 0;
  return now.tv_sec * second + now.tv_nsec;
}

void simulation_count_step(void) {
  if (steps) ++*steps;
}

uint64_t simulation_step_count(void) { return steps ? *steps : 0; }

// The threads of Dispatch block most signals, and the copies of the process inherit this.
static void unblock(int number) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, number);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void simulation_limit_time(unsigned seconds) {
  unblock(SIGALRM);
  alarm(seconds);
}

int simulation_fork(unsigned seconds) {
  pid_t parent = getpid();
  if (!steps) {
    void *page = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return -1;
    steps = page;
  }
  int child = (int)fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have exited before `prctl`.
    if (getppid() != parent) _exit(1);
    if (seconds > 0) {
      struct rlimit limit = {seconds, seconds + 1};
      setrlimit(RLIMIT_CPU, &limit);
    }
    struct rlimit size = {256 << 20, 256 << 20};
    setrlimit(RLIMIT_FSIZE, &size);
    unblock(SIGXCPU);
    unblock(SIGXFSZ);
  }
  return child;
}

static bool is_debugged(void) {
  static const char key[] = "\nTracerPid:";
  char status[4096] = "";
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  ssize_t count = read(file, status, sizeof status - 1);
  close(file);
  char *line = count > 0 ? strstr(status, key) : NULL;
  return line == NULL || atoi(line + sizeof key - 1) != 0;
}

void simulation_await_debugger(void) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  struct timespec pause = {0, 100000000};
  while (!is_debugged()) syscall(SYS_nanosleep, &pause, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!has_time) return (int)syscall(SYS_clock_gettime, clock, time);
  int64_t now = time_now;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now += start * second + wall_ahead;
  time->tv_sec = now / second;
  time->tv_nsec = now % second;
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  // Callers may ask for the time zone alone. The C library declares the parameter as nonnull, so a plain check is removed.
  struct timeval *volatile given = time;
  if (given == NULL) return 0;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *time, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

// SplitMix64.
static uint64_t next(void) {
  uint64_t mixed = state += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

// The Swift runtime gets random numbers from `syscall(SYS_getrandom, …)`.
long syscall(long number, ...) {
  static _Atomic(system_call *) original = NULL;
  if (!original) original = (system_call *)dlsym(RTLD_NEXT, "syscall");
  if (!original) {
    errno = ENOSYS;
    return -1;
  }
  va_list list;
  va_start(list, number);
  long a[6];
  for (int index = 0; index < 6; index++) a[index] = va_arg(list, long);
  va_end(list);
  if (number == SYS_getrandom && has_seed) {
    for (long index = 0; index < a[1]; index++) ((unsigned char *)a[0])[index] = (unsigned char)next();
    return a[1];
  }
  return original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t getrandom(void *buffer, size_t size, unsigned int flags) {
  return syscall(SYS_getrandom, buffer, size, flags);
}

int getentropy(void *buffer, size_t size) {
  if (size > 256) {
    errno = EIO;
    return -1;
  }
  return getrandom(buffer, size, 0) == (ssize_t)size ? 0 : -1;
}

void arc4random_buf(void *buffer, size_t size) {
  // A request of the kernel may return less.
  for (size_t done = 0; done < size;) {
    ssize_t count = getrandom((char *)buffer + done, size - done, 0);
    if (count > 0) done += (size_t)count;
  }
}

uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof number);
  return number;
}

uint32_t arc4random_uniform(uint32_t limit) {
  // The remainder of 64 bits: its bias is at most one in four billion.
  uint64_t number;
  arc4random_buf(&number, sizeof number);
  return limit ? (uint32_t)(number % limit) : 0;
}

// Replaces Foundation's function behind `UUID()` (version 4).
void _foundation_uuid_generate_random(unsigned char *uuid) {
  getrandom(uuid, 16, 0);
  uuid[6] = (uuid[6] & 0x0F) | 0x40;
  uuid[8] = (uuid[8] & 0x3F) | 0x80;
}

#else

void simulation_set_time(int64_t time, int64_t wall) { (void)time, (void)wall; }
void simulation_set_seed(uint64_t seed) { (void)seed; }
uint64_t simulation_random_state(void) { return 0; }
int64_t simulation_real_time(void) { return 0; }
void simulation_count_step(void) {}
uint64_t simulation_step_count(void) { return 0; }
void simulation_limit_time(unsigned seconds) { (void)seconds; }
int simulation_fork(unsigned seconds) { return (void)seconds, -1; }
void simulation_await_debugger(void) {}

#endif
