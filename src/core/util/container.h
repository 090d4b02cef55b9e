/* container.h - from an embedded member to the struct that holds it; sizes of arrays. */
#pragma once

#include <stddef.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_COUNT(a)                  (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE                      64
