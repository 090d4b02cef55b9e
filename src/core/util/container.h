/* container.h - gets from an embedded member to the struct that holds it; counts the elements of arrays. */
#pragma once

#include <stddef.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_COUNT(a)                  (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE                      64
