#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#elif __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#error "PureduxPostgreSQL needs the PostgreSQL client for C: install libpq-dev (Debian, Ubuntu) or libpq (Homebrew)."
#endif
#ifndef LIBPQ_HAS_PIPELINING
#error "PureduxPostgreSQL needs libpq 14 or later."
#endif
