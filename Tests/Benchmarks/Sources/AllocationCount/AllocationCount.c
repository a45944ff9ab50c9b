// Counts allocations by replacing malloc and its kin, as an executable on Linux may. The C library's own functions are
// called by their other names.
#define _GNU_SOURCE
#include "AllocationCount.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__linux__) && defined(__GLIBC__)
#include <link.h>
#include <malloc.h>
#include <string.h>

static _Atomic uint64_t count;

// The address range of the thread pool's code. Its allocations for moving a job between threads are not counted: they
// depend on the number of threads.
static _Atomic uintptr_t pool_start, pool_end;

static int find_pool(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  if (!info->dlpi_name || !strstr(info->dlpi_name, "libdispatch")) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    pool_start = info->dlpi_addr + part->p_vaddr;
    pool_end = pool_start + part->p_memsz;
  }
  return 1;
}

__attribute__((constructor)) static void find_pool_once(void) { dl_iterate_phdr(find_pool, NULL); }

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

// Inlined, so that the return address is the allocating caller's.
__attribute__((always_inline)) static inline void counted(void) {
  uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  if (caller >= pool_start && caller < pool_end) return;
  atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

void *malloc(size_t size) {
  counted();
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  counted();
  return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) {
  counted();
  return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  counted();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
  counted();
  *block = __libc_memalign(alignment, size);
  return *block || size == 0 ? 0 : ENOMEM;
}

uint64_t allocation_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

uint64_t heap_bytes_in_use(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
#else
uint64_t allocation_count(void) { return 0; }
uint64_t heap_bytes_in_use(void) { return 0; }
#endif
