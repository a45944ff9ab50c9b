#if __has_include(<nats/nats.h>)
#include <nats/nats.h>
#else
#error "PureduxNATS needs the NATS client for C: install libnats-dev (Debian, Ubuntu) or cnats (Homebrew)."
#endif
