/* timeline.c - notes what an accelerator did, and reads it while more is noted. */
#include "core/data/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int timelines_init(struct timelines *t, uint32_t count, uint64_t bytes) {
    uint64_t each = count ? bytes / count / TIMELINE_ENTRY_BYTES : 0;
    *t = (struct timelines){.count = count};
    each = each < TIMELINE_MOST ? each : TIMELINE_MOST;
    while (each & (each - 1))
        each &= each - 1;
    t->of = calloc(count + 1, sizeof(*t->of));
    if (!t->of)
        return -ENOMEM;
    if (each < 2)
        return 0;
    t->heads = aligned_alloc(_Alignof(struct timeline_head), count * sizeof(*t->heads));
    t->slots = calloc(count * each, TIMELINE_ENTRY_BYTES);
    if (!t->heads || !t->slots)
        return -ENOMEM;
    memset(t->heads, 0, count * sizeof(*t->heads));
    for (uint32_t i = 0; i < count; i++)
        t->of[i] = (struct timeline){.head = &t->heads[i], .tape = {t->slots + i * each * TIMELINE_WORDS, each - 1}};
    return 0;
}

void timelines_free(struct timelines *t) {
    free((void *)t->slots);
    free(t->heads);
    free(t->of);
}

void timeline_note(struct timeline *t, const struct timeline_entry *entry) {
    if (!t || !t->head)
        return;
    tape_note(&t->tape, &t->head->noted, entry, TIMELINE_WORDS);
    if (entry->kind == TIMELINE_RUN)
        atomic_store_explicit(&t->head->running, 0, memory_order_relaxed); /* statistics */
}

uint64_t timeline_read(const struct timeline *t, struct timeline_entry *into, uint64_t most) {
    return t->head ? tape_read(&t->tape, &t->head->noted, TIMELINE_WORDS, into, most) : 0;
}

bool timeline_running(const struct timeline *t, uint32_t *model_key, uint32_t *items, int64_t *since_ns) {
    uint64_t running = t->head ? atomic_load_explicit(&t->head->running, memory_order_acquire) : 0; /* with begin() */
    if (!running)
        return false;
    *model_key = (uint32_t)(running >> 32);
    *items = (uint32_t)running & ~TIMELINE_BUSY;
    *since_ns = atomic_load_explicit(&t->head->since_ns, memory_order_relaxed); /* statistics */
    return true;
}

const char *idle_why_name(enum idle_why why) {
    static const char *const names[IDLE_WHYS] = {
        [IDLE_NOTHING] = "nothing queued", [IDLE_COMPANY] = "waits for company",
        [IDLE_ABSENT] = "no model here",   [IDLE_HANDED] = "hand-over",
        [IDLE_UNKNOWN] = "idle",
    };
    return names[why];
}

void timeline_loads_note(struct timeline_loads *loads, const struct timeline_entry *load) {
    loads->of[loads->count++ % TIMELINE_LOADS] = *load;
}

const struct timeline_entry *timeline_loads_find(const struct timeline_loads *loads, uint32_t model_key) {
    for (uint32_t i = 1; i <= TIMELINE_LOADS && i <= loads->count; i++) {
        const struct timeline_entry *load = &loads->of[(loads->count - i) % TIMELINE_LOADS];
        if (load->model_key == model_key)
            return load;
    }
    return NULL;
}

/* Appends a part, unless it takes no time. */
static void part_add(struct idle_part *parts, uint32_t *count, enum idle_why why, int64_t *from_ns, int64_t until_ns) {
    if (until_ns <= *from_ns)
        return;
    parts[(*count)++] = (struct idle_part){why, *from_ns, until_ns};
    *from_ns = until_ns;
}

uint32_t timeline_idle(int64_t from_ns, const struct timeline_entry *batch, const struct timeline_entry *load,
                       struct idle_part *parts) {
    int64_t start_ns = batch->start_ns, came_ns = start_ns - batch->came_us * NS_PER_US;
    int64_t ready_ns = batch->ready_us == UINT32_MAX ? came_ns : start_ns - batch->ready_us * NS_PER_US;
    uint32_t count = 0;
    if (batch->came_us == 0) {
        part_add(parts, &count, IDLE_UNKNOWN, &from_ns, start_ns);
        return count;
    }
    part_add(parts, &count, IDLE_NOTHING, &from_ns, came_ns);
    part_add(parts, &count, IDLE_COMPANY, &from_ns, ready_ns < start_ns ? ready_ns : start_ns);
    if (load) {
        int64_t loaded_ns = load->start_ns + load->took_us * NS_PER_US;
        part_add(parts, &count, IDLE_ABSENT, &from_ns, loaded_ns < start_ns ? loaded_ns : start_ns);
    }
    part_add(parts, &count, IDLE_HANDED, &from_ns, start_ns);
    return count;
}
