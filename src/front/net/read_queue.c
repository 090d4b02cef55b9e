/* read_queue.c - two lists, and how long reads have waited lately. */
#include "front/net/read_queue.h"

#define SLO_DEFAULT_NS NS_PER_S /* SLO if no model has one */

static void interval_begin(struct read_queue *q, int64_t now_ns) {
    q->begun_ns = now_ns;
    q->reads = q->long_reads = 0;
}

void read_queue_init(struct read_queue *q) {
    *q = (struct read_queue){.long_ns = SLO_DEFAULT_NS / READ_QUEUE_LONG_PART};
    list_init(&q->waiting);
    list_init(&q->left);
}

void read_queue_limit(struct read_queue *q, int64_t slo_ns, int64_t least_ns) {
    int64_t long_ns = slo_ns / READ_QUEUE_LONG_PART;
    q->long_ns = long_ns > least_ns ? long_ns : least_ns;
}

void read_queue_note(struct read_queue *q, int64_t waited_ns, int64_t now_ns) {
    int64_t passed_ns = now_ns - q->begun_ns, interval_ns = q->long_ns / READ_QUEUE_INTERVAL_PART;
    if (passed_ns >= 2 * interval_ns) {
        interval_begin(q, now_ns);
    } else if (passed_ns >= interval_ns) {
        q->behind |= 2 * q->long_reads > q->reads;
        interval_begin(q, now_ns);
    }
    q->reads++;
    q->long_reads += waited_ns >= q->long_ns;
}

void read_queue_slept(struct read_queue *q, int64_t slept_ns, int64_t now_ns) {
    q->slept_ns += slept_ns;
    if (now_ns - q->sleep_begun_ns < q->long_ns / READ_QUEUE_INTERVAL_PART)
        return;
    q->has_time = 2 * q->slept_ns >= now_ns - q->sleep_begun_ns;
    q->sleep_begun_ns = now_ns;
    q->slept_ns = 0;
}

void read_queue_add(struct read_queue *q, struct read_place *place, uint32_t events, int64_t now_ns) {
    place->events = events;
    place->since_ns = now_ns;
    place->waits = true;
    list_append(&q->waiting, &place->link);
}

void read_queue_remove(struct read_place *place) {
    if (!place->waits)
        return;
    place->waits = false;
    list_remove(&place->link);
}

struct read_place *read_queue_next(struct read_queue *q, int64_t now_ns, bool in_order) {
    while (!list_empty(&q->waiting)) { /* connections that have waited for long go to `left` */
        struct read_place *first = list_entry(q->waiting.next, struct read_place, link);
        if (now_ns - first->since_ns < q->long_ns)
            break;
        list_remove(&first->link);
        list_append(&q->left, &first->link);
    }
    bool any = !list_empty(&q->waiting), late = !list_empty(&q->left);
    if (!any && !late)
        q->behind = q->has_time = false;
    if (!any && (!late || !(q->has_time || in_order)))
        return NULL;
    bool oldest = in_order || ++q->turn % READ_QUEUE_OLDEST_EVERY == 0;
    struct list_node *list = late && (oldest || !any) ? &q->left : &q->waiting;
    struct read_place *next = list_entry(oldest ? list->next : list->prev, struct read_place, link);
    read_queue_remove(next);
    return next;
}
