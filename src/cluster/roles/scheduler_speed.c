/* scheduler_speed.c - finds backends that run batches slower than the others of their type (speed.h), and has their
 * accelerators change to a class whose profiles say so (scheduler_changes.c).
 *
 * With a central policy, and with `serve --isolate`, whose backends' classes change alike, it only says so. */
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"

#define LOOK_NS (1 * NS_PER_S)

void scheduler_speed_run(struct scheduler_link *l, const struct accelerator_place *a, const struct sent_plan *p) {
    const struct thread_model *model = &l->places[p->place].model;
    const struct profile *profile = model->profiles[p->class];
    uint32_t i = 0; /* number of its class among its member's */
    while (a->member && i < a->member->class_count && a->member->classes[i] != p->class)
        i++;
    if (!a->member || i == a->member->class_count || !profile || p->unlike || p->ran.items > profile->batch_max)
        return;
    if (model->variant_count > 1)
        return; /* its profile is of one shape of many */
    double factor = l->catalogue->classes[p->class].factor;
    speed_run(&a->member->speed[i], p->ran.run_ns, (int64_t)((double)profile->latency_ns[p->ran.items] / factor),
              clock_now_ns());
}

double scheduler_speed_of(const struct member *m) {
    double worst = 1;
    for (uint32_t i = 0; i < m->class_count; i++)
        worst = m->speed[i].slow && m->speed[i].than > worst ? m->speed[i].than : worst;
    return worst;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Collects the usual ratios of all backends' runs on a type, in ascending order. */
static uint32_t usual_of(const struct scheduler_link *l, const char *type, double *usual, int64_t now_ns) {
    uint32_t count = 0;
    FOR_EACH_TOLD (l, m, ROLE_BACKEND)
        for (uint32_t i = 0; i < m->class_count; i++) {
            double one = speed_usual(&m->speed[i], now_ns);
            if (one > 0 && strcmp(l->catalogue->classes[m->classes[i]].type, type) == 0)
                usual[count++] = one;
        }
    qsort(usual, count, sizeof(*usual), compare);
    return count;
}

static void say(const struct member *m, const char *type, double than, enum speed_change change) {
    if (change == SPEED_IS_SLOW)
        log_warn("a backend is slower than others of its type", "backend=%s type=%s times=%.3g", m->hello.name, type,
                 than);
    else
        log_info(change == SPEED_IS_WELL ? "a backend is as fast as others of its type again"
                                         : "a slow backend is tried as others are",
                 "backend=%s type=%s", m->hello.name, type);
}

void scheduler_speed_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    static const char none[] = "";
    const char *types[CENTRAL_TYPES_MAX] = {none};
    if (now_ns < l->speed_ns) {
        *until_ns = time_earlier(l->speed_ns, *until_ns);
        return;
    }
    double *usual = scheduler_link_leads(l) ? malloc(HELLO_NUMBERS * sizeof(*usual)) : NULL;
    uint32_t type_count = 0;
    l->speed_ns = now_ns + LOOK_NS;
    for (uint32_t k = 0; usual && k < catalogue_classes(l->catalogue); k++) {
        const struct accelerator_class *class = &l->catalogue->classes[k];
        uint32_t t = 0;
        while (t < type_count && strcmp(types[t], class->type) != 0)
            t++;
        if (class->backends == 0 || t < type_count)
            continue;
        types[type_count++] = class->type;
        uint32_t count = usual_of(l, class->type, usual, now_ns);
        FOR_EACH_TOLD (l, m, ROLE_BACKEND)
            for (uint32_t i = 0; i < m->class_count; i++) {
                struct speed *speed = &m->speed[i];
                double than = speed->than, own = speed_usual(speed, now_ns);
                if (strcmp(l->catalogue->classes[m->classes[i]].type, class->type) != 0)
                    continue;
                enum speed_change change = speed_look(speed, speed_others(usual, count, own), now_ns);
                if (change == SPEED_AS_BEFORE)
                    continue;
                say(m, class->type, change == SPEED_IS_SLOW ? speed->than : than, change);
                if (l->wiring->central || l->config.backends)
                    speed->factor = l->catalogue->classes[m->classes[i]].factor;
                m->models_changed = true;
                l->changing = true;
            }
    }
    free(usual);
}
