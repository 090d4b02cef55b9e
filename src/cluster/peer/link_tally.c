/* link_tally.c - finds a peer's tally, or begins one. */
#include "cluster/peer/link_tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void link_tallies_free(struct link_tallies *t) {
    free(t->of);
}

uint32_t link_tally_of(struct link_tallies *t, enum cluster_role role, const char *name) {
    for (uint32_t i = 0; i < t->count; i++)
        if (t->of[i].role == role && strcmp(t->of[i].name, name) == 0)
            return i + 1;
    if (t->count == t->room) {
        uint32_t room = t->room ? 2 * t->room : 16;
        struct link_tally *grown = room <= LINK_TALLIES_MOST ? realloc(t->of, room * sizeof(*grown)) : NULL;
        if (!grown)
            return 0;
        t->of = grown;
        t->room = room;
    }
    t->of[t->count] = (struct link_tally){.role = role};
    snprintf(t->of[t->count].name, sizeof(t->of[t->count].name), "%s", name);
    return ++t->count;
}
