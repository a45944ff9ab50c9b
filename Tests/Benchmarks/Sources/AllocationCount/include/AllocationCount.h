#include <stdint.h>

/// How many allocations the process has made; always zero where they cannot be counted.
uint64_t allocation_count(void);

/// How many bytes of the heap are in use.
uint64_t heap_bytes_in_use(void);
