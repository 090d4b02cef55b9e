/* unsent.c - connections whose answers wait for their clients. */
#include "front/net/unsent.h"

void unsent_changed(struct unsent_home *home, struct unsent *u, uint64_t bytes, int64_t now_ns) {
    home->bytes += bytes - u->bytes;
    if (bytes == 0) {
        list_remove(&u->link);
    } else if (u->bytes == 0) {
        u->taken = unsent_taken(u);
        u->lately = 0;
        u->since_ns = now_ns;
        list_append(&home->list, &u->link);
    }
    u->bytes = bytes;
}

uint64_t unsent_taken(const struct unsent *u) {
    uint64_t pending = stream_pending(u->stream);
    return u->handed > pending ? u->handed - pending : 0;
}

uint64_t unsent_lately(const struct unsent *u) {
    uint64_t taken = unsent_taken(u);
    return u->lately / 2 + (taken > u->taken ? taken - u->taken : 0);
}

void unsent_look(struct unsent_home *home) {
    list_for_each (it, &home->list) {
        struct unsent *u = list_entry(it, struct unsent, link);
        u->lately = unsent_lately(u);
        u->taken = unsent_taken(u);
    }
}

struct unsent *unsent_least(struct unsent_home *home) {
    struct unsent *least = NULL;
    struct list_node *first = home->list.next;
    uint64_t least_lately = 0;
    int looked = 0;
    if (first == home->list.prev) /* none, or one */
        return NULL;
    do {
        struct unsent *u = list_entry(home->list.next, struct unsent, link);
        uint64_t now = unsent_lately(u);
        if (!least || now < least_lately || (now == least_lately && u->since_ns < least->since_ns)) {
            least = u;
            least_lately = now;
        }
        list_remove(&u->link);
        list_append(&home->list, &u->link);
    } while (home->list.next != first && ++looked < UNSENT_LOOKED_AT);
    return least;
}
