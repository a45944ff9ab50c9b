#include <stdint.h>

/// The number of allocations by the process; always zero where they cannot be counted.
uint64_t allocation_count(void);

/// The number of heap bytes in use.
uint64_t heap_bytes_in_use(void);
