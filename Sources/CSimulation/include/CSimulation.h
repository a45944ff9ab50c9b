#ifndef PUREDUX_SIMULATION_H
#define PUREDUX_SIMULATION_H

#include <stdint.h>

/// Sets the time, in nanoseconds, that the clocks of this process show from now on. The wall clock is ahead by `wall`.
void simulation_set_time(int64_t time, int64_t wall);

/// Seeds the system's random numbers, which are reproducible from now on.
void simulation_set_seed(uint64_t seed);

/// Determines the next random numbers.
uint64_t simulation_random_state(void);

/// The time of the kernel's monotonic clock, in nanoseconds, also in a simulation.
int64_t simulation_real_time(void);

/// Counts a step, if this process or its parent has called `simulation_fork`.
void simulation_count_step(void);

/// The number of steps that this process and all copies of it have counted.
uint64_t simulation_step_count(void);

/// Ends the process after so many seconds of real time, unless the limit is set again. Zero removes the limit.
void simulation_limit_time(unsigned seconds);

/// Like `fork`, which Swift cannot call. The copy is killed when the calling thread ends, when it has used so many
/// seconds of processor time (if these are not zero), and when it writes more than 256 MB to one file. Only the calling
/// thread exists in it.
int simulation_fork(unsigned seconds);

/// Allows any debugger to attach to this process, and returns when one has attached.
void simulation_await_debugger(void);

#endif
