/* server_trails.c - answers /v2/symphony/requests from the trails that frontends keep. Disturbs no thread. */
#include "server/process/server_trails.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "core/system/clock.h"
#include "front/v2/requests_answer.h"
#include "server/process/server_state.h"

/* Trails of all frontends that a query wants. */
struct found {
    struct trail *trails;
    uint64_t count;
};

static int64_t end_ns(const struct trail *trail) {
    return trail->arrival_ns + trail->took_us * NS_PER_US;
}

static int newest_first(const void *a, const void *b) {
    int64_t end_a = end_ns(a), end_b = end_ns(b);
    return (end_a < end_b) - (end_a > end_b);
}

static int slowest_first(const void *a, const void *b) {
    uint32_t took_a = ((const struct trail *)a)->took_us, took_b = ((const struct trail *)b)->took_us;
    return (took_a < took_b) - (took_a > took_b);
}

/* Reads all frontends' trails, and keeps those that are wanted. False: no memory. */
static bool trails_find(const struct server *s, const struct requests_query *query, struct found *found) {
    uint64_t keep = s->config.clients.trails_keep, room = keep * TRAIL_STATES * s->frontends.count;
    found->trails = malloc((room + 1) * sizeof(*found->trails)); /* untouched pages cost nothing */
    if (!found->trails)
        return false;
    for (uint32_t f = 0; f < s->frontends.count; f++)
        for (uint32_t state = 0; state < TRAIL_STATES; state++) {
            struct trail *at = found->trails + found->count;
            uint64_t count =
                query->states >> state & 1 ? trails_read(&s->frontends.list[f]->inferences.trails, state, at, keep) : 0;
            for (uint64_t i = 0; i < count; i++) {
                if (requests_query_wants(query, &at[i], server_trail_names(&s->models, &at[i], 0).model))
                    found->trails[found->count++] = at[i];
            }
        }
    return true;
}

int trail_follower_init(struct trail_follower *f, struct model_list *models, bool traced) {
    *f = (struct trail_follower){
        .models = models,
        .first = traced ? TRAIL_TRACED : 0,
        .end = traced ? TRAIL_TRACED + 1 : TRAIL_STATES,
    };
    f->next = calloc((size_t)models->frontends->count * (f->end - f->first) + 1, sizeof(*f->next));
    return f->next ? 0 : -ENOMEM;
}

void trail_follower_free(struct trail_follower *f) {
    free(f->next);
}

uint64_t trail_follower_read(struct trail_follower *f, struct trail *into, uint64_t most) {
    const struct frontends *fs = f->models->frontends;
    uint32_t each = f->end - f->first;
    for (; f->ring < fs->count * each; f->ring++) {
        const struct trails *trails = &fs->list[f->ring / each]->inferences.trails;
        uint32_t ring = f->first + f->ring % each;
        uint64_t *next = &f->next[f->ring];
        while (*next < trails_noted(trails, ring)) {
            uint64_t before = *next, count = trails_read_on(trails, ring, next, into, most);
            f->lost += *next - before - count;
            if (count > 0)
                return count;
        }
    }
    f->ring = 0;
    return 0;
}

uint64_t trail_follower_missing(struct trail_follower *f, bool last) {
    int64_t now_ns = clock_now_ns();
    uint64_t lost = f->lost;
    if (lost == 0 || (!last && now_ns - f->said_ns < 60 * NS_PER_S))
        return 0;
    f->lost = 0;
    f->said_ns = now_ns;
    return lost;
}

int64_t server_trails_wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec - clock_now_ns();
}

struct trail_names server_trail_names(const struct model_list *list, const struct trail *trail, int64_t wall_ns) {
    const struct model_index *listed = atomic_load_explicit(&list->now.now, memory_order_relaxed); /* under the lock */
    const struct served_model *model = &list->models[trail->model];
    const struct model_gone *gone = &list->gone[trail->model];
    struct trail_names names = {
        .before = model_index_name(listed, trail->past.before),
        .wall_ns = wall_ns + trail->arrival_ns,
    };
    if (model_index_name(listed, trail->model) && (uint32_t)served_model_key(model) == trail->model_key) {
        names.model = model->name;
        names.version = model->version;
    } else if (gone->key && (uint32_t)gone->key == trail->model_key) {
        names.model = gone->name;
        names.version = gone->version;
    }
    return names;
}

int server_requests(void *server, const char *text, size_t length, struct text *out, struct sy_error *err) {
    struct server *s = server;
    struct requests_query query;
    struct found found = {.trails = NULL};
    int64_t wall_ns = server_trails_wall_ns();
    int status = requests_query_read(&query, text, length, err);
    if (status)
        return status;
    model_list_lock(&s->models);
    bool read = trails_find(s, &query, &found);
    if (found.count > 0)
        qsort(found.trails, found.count, sizeof(*found.trails), query.slow ? slowest_first : newest_first);
    text_put(out, "{\"requests\":[");
    for (uint64_t i = 0; i < found.count && i < query.limit; i++) {
        if (i > 0)
            text_put_char(out, ',');
        const struct trail_names names = server_trail_names(&s->models, &found.trails[i], wall_ns);
        requests_trail_put(out, &found.trails[i], &names);
    }
    text_printf(out, "],\"found\":%llu}", (unsigned long long)found.count);
    model_list_unlock(&s->models);
    free(found.trails);
    return read && !out->failed ? 0 : error_set(err, 500, "out of memory for the requests' trails");
}
