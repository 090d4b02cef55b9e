/* near.c - the edit distance of two short names. */
#include "core/util/near.h"

#include <ctype.h>
#include <string.h>

#define LENGTH_MAX 64 /* no option or command has so long a name */
#define WRONG_MAX  2

static char plain(char c) {
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

unsigned near_distance(const char *typed, size_t length, const char *name) {
    unsigned rows[3][LENGTH_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    size_t other = strlen(name), same = 0;
    if (length >= LENGTH_MAX || other >= LENGTH_MAX)
        return NEAR_NOT;
    while (same < length && same < other && plain(typed[same]) == name[same])
        same++;
    if (same == length && same >= 3)
        return 0;
    for (size_t k = 0; k <= other; k++)
        last[k] = (unsigned)k;
    for (size_t i = 1; i <= length; i++) {
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= other; k++) {
            char c = plain(typed[i - 1]);
            unsigned least = last[k - 1] + (c != name[k - 1]);
            least = last[k] + 1 < least ? last[k] + 1 : least;
            least = row[k - 1] + 1 < least ? row[k - 1] + 1 : least;
            if (i > 1 && k > 1 && c == name[k - 2] && plain(typed[i - 2]) == name[k - 1] && before[k - 2] + 1 < least)
                least = before[k - 2] + 1;
            row[k] = least;
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[other] <= WRONG_MAX && last[other] * 2 <= length ? last[other] : NEAR_NOT;
}
