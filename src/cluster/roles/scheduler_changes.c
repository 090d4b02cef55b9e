/* scheduler_changes.c - a backend's models come and go while it serves.
 *
 * The scheduler treats a backend's accelerators as a class, which is their type together with the backend's models
 * (catalogue.h). When the models change, the accelerators change their class:
 *
 *     choose the new classes, which count from now on: models get places that know both   (reconcile())
 *     wait until no place is needed any more that knows only an old class                 (may_switch())
 *     choose them again if the models have changed meanwhile                              (classes_choose())
 *     each accelerator leaves, ends its batches, and joins as one of the new class        (class_switch())
 *     models that ended: the backend is told that no more plans for them come             (ends_look())
 *
 * A model that ends does not count as a model of its backend from the first step on. If no other backend has it, its
 * place leaves, and its last requests still run on that backend.
 *
 * The backends of `serve --isolate` all get the same orders. There a class waits until all its backends have changed
 * alike, and is then given their models (class_alter()). No accelerator leaves, all places stay as they are, and a
 * place that leaves delays nothing, however long its last requests take to come in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/system/log.h"

#define CHOOSE_NS (100 * NS_PER_MS) /* time between attempts to choose classes while none is free */

/* ---- models that wait for others of their name to go ---- */

/* Sets the name and version of a late model by its description. */
static void late_name(struct late_model *late, const char *text, uint32_t bytes) {
    json_t *json = json_loadb(text, bytes, 0, NULL);
    const char *name = json_string_value(json_object_get(json, "name"));
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    snprintf(late->name, sizeof(late->name), "%s", name ? name : "");
    late->version = version >= 1 && version <= UINT32_MAX ? (uint32_t)version : 0;
    json_decref(json);
}

int late_note(struct scheduler_link *l, struct member *m, struct remote_id remote, const char *text, uint32_t bytes,
              int rc, const struct sy_error *why, struct sy_error *err) {
    bool waits = rc == -EEXIST;
    struct late_model *late = malloc(sizeof(*late) + (waits ? bytes : 0));
    if (!late)
        return error_set(err, -ENOMEM, "no memory for a model's description");
    late->next = m->late;
    late->remote = remote;
    late->waits = waits;
    late->bytes = waits ? bytes : 0;
    memcpy(late->text, text, late->bytes);
    late_name(late, text, bytes);
    snprintf(late->reason, sizeof(late->reason), "%s", why->text);
    m->late = late;
    m->late_count++;
    l->changing = true;
    return 0;
}

void late_free(struct member *m) {
    for (struct late_model *late = m->late, *next; late; late = next) {
        next = late->next;
        free(late);
    }
    m->late = NULL;
}

/* Takes the waiting models whose names are free now. */
static void late_look(struct scheduler_link *l, struct member *m) {
    struct sy_error err;
    for (struct late_model **at = &m->late, *late; (late = *at);) {
        struct brought_model *brought = member_brings(m);
        int rc =
            brought && late->waits ? catalogue_bring(l->catalogue, late->text, late->bytes, brought, &err) : -EEXIST;
        if (rc == 0)
            rc = member_has_ended(l, m, brought, &err);
        if (rc < 0) { /* -EEXIST; other reasons, too, can pass only when models go */
            at = &late->next;
            continue;
        }
        member_brought(m, brought, late->remote);
        m->models_changed = true;
        *at = late->next;
        m->late_count--;
        free(late);
    }
}

static bool late_drop(struct member *m, struct remote_id remote) {
    for (struct late_model **at = &m->late, *late; (late = *at); at = &late->next)
        if (late->remote.n == remote.n) {
            *at = late->next;
            m->late_count--;
            free(late);
            return true;
        }
    return false;
}

/* ---- models that end ---- */

static void rests_tell(struct member *m, struct remote_id remote) {
    peer_send(&m->peer, FRAME_MODEL_RESTS, 1, &remote, sizeof(remote));
}

int member_model_ends(struct scheduler_link *l, struct member *m, struct remote_id remote, struct sy_error *err) {
    if (!m->told)
        return error_set(err, -EPROTO, "a model that ends before all has been told");
    late_drop(m, remote);
    for (uint32_t i = 0; i < m->brought_count; i++)
        if (m->brought[i].remote.n == remote.n && !m->brought[i].ends) {
            catalogue_take(l->catalogue, &m->brought[i]);
            l->catalogue->known[m->brought[i].known].unloaded = l->catalogue->known[m->brought[i].known].backends == 0;
            m->models_changed = true;
            l->changed = l->changing = true;
            return 0;
        }
    rests_tell(m, remote); /* its model was never taken */
    return 0;
}

static bool is_settled(const struct member *m) {
    for (uint32_t i = 0; i < m->class_count; i++)
        if (m->targets[i] != m->classes[i])
            return false;
    return !m->models_changed;
}

/* Whether plans for an ended model are at its backend, or may still be sent there. */
static bool is_needed(const struct scheduler_link *l, const struct member *m, const struct brought_model *ended) {
    if (plans_of(l, m, ended->remote) || loads_hold(l, m, ended->known))
        return true;
    if (l->config.orders_loads)
        return memory_holds(l, m, ended->known);
    if (m->remote_of_known[ended->known].n != ended->remote.n)
        return false; /* the backend has the model again, and plans go there */
    for (uint32_t p = 0; p < l->config.models_max; p++)
        for (uint32_t i = 0; i < m->class_count && model_life_state(l->life, p) != LIFE_FREE; i++)
            if (l->places[p].known == ended->known && l->places[p].runs_on >> m->classes[i] & 1)
                return true;
    return false;
}

/* Forgets ended models that are not needed any more. True: some are left. */
static bool ends_look(struct scheduler_link *l, struct member *m) {
    bool left = false;
    for (uint32_t i = 0; i < m->brought_count; i++) {
        if (!m->brought[i].ends)
            continue;
        if (is_needed(l, m, &m->brought[i])) {
            left = true;
            continue;
        }
        rests_tell(m, m->brought[i].remote);
        catalogue_put_down(l->catalogue, &m->brought[i]);
        l->changed = true; /* it may be forgotten, or have been brought again */
        m->brought[i--] = m->brought[--m->brought_count];
    }
    return left;
}

/* ---- classes ---- */

/* With `serve --isolate`: gives a class the models that a backend has now, if all backends of the class have the same
 * ones. True: it is done, or the others are still to follow. */
static bool class_alter(struct scheduler_link *l, const struct member *m, uint32_t class, bool *waits) {
    list_for_each_entry (other, &l->members, const struct member, node) {
        bool of_class = false;
        for (uint32_t i = 0; i < other->class_count; i++)
            of_class |= other->classes[i] == class;
        if (of_class && !catalogue_alike(l->catalogue->classes[class].type, m->brought, m->brought_count,
                                         other->brought, other->brought_count)) {
            *waits = true;
            return true;
        }
    }
    return catalogue_class_change(l->catalogue, class, m->brought, m->brought_count);
}

/* Chooses the new classes of a backend's accelerators, none of which changes now. What was chosen before is forgotten:
 * the last model of a name may wait for the next one to be served, and that for these classes. False: there are too
 * many classes. */
static bool classes_choose(struct scheduler_link *l, struct member *m, int64_t now_ns) {
    struct catalogue *c = l->catalogue;
    bool waits = false;
    for (uint32_t i = 0; i < m->class_count; i++) {
        if (m->targets[i] != m->classes[i])
            catalogue_class_leave(c, m->targets[i]);
        m->targets[i] = m->classes[i];
        catalogue_class_grow(c, m->classes[i], m->brought, m->brought_count);
        bool fits = catalogue_class_fits(c, m->classes[i], m->brought, m->brought_count);
        bool as_fast = c->classes[m->classes[i]].factor == m->speed[i].factor;
        if ((fits && as_fast) || (l->config.backends && class_alter(l, m, m->classes[i], &waits)))
            continue;
        m->targets[i] = catalogue_class(c, c->classes[m->classes[i]].type, m->speed[i].factor, m->brought,
                                        m->brought_count, classes_used(l), classes_closed(l));
        if (m->targets[i] != CATALOGUE_NONE)
            continue;
        m->targets[i] = m->classes[i];
        if (fits)
            continue; /* its runs are planned as those of others: the tables follow in part */
        m->choose_ns = now_ns + CHOOSE_NS;
        l->classes_short = true;
    }
    m->models_changed = m->choose_ns > now_ns;
    m->choose_ns = m->models_changed ? m->choose_ns : 0;
    l->changed |= !waits;
    m->models_changed |= waits;
    return m->choose_ns == 0;
}

/* Whether the accelerators may change: of the places that know only the old class, none is coming, and none is of a
 * model that the backend keeps or that no backend has any more. */
static bool may_switch(const struct scheduler_link *l, uint32_t before, uint32_t target) {
    const struct catalogue *c = l->catalogue;
    for (uint32_t p = 0; p < l->config.models_max; p++) {
        const struct served_place *place = &l->places[p];
        enum life_state state = model_life_state(l->life, p);
        if (state == LIFE_FREE || !(place->runs_on >> before & 1) || place->runs_on >> target & 1)
            continue;
        bool stays = c->classes[target].models[place->known / 64] >> place->known % 64 & 1;
        if (stays || c->known[place->known].backends == 0 || state == LIFE_ENTERING)
            return false;
    }
    return !l->changed;
}

/* The next step of an accelerator that changes its class. True: more steps follow. */
static bool accelerator_switch(struct scheduler_link *l, uint32_t accelerator, uint32_t target) {
    struct accelerator_place *a = &l->accelerators[accelerator];
    enum accelerator_state state = wiring_accelerator_state(l->wiring, accelerator);
    if (!a->switches) {
        if (a->up && state != ACCELERATOR_SERVING)
            return true; /* the scheduling thread has not read yet that it joined */
        bool owes = a->owes;
        a->switches = true;
        accelerator_news(l, accelerator, NEWS_LEAVES);
        a->owes = owes;
        return true;
    }
    if (state != ACCELERATOR_GONE || !list_empty(&a->plans) || memory_moves(l, accelerator))
        return true;
    a->class = (uint8_t)target;
    a->switches = false;
    if (a->joined)
        accelerator_news(l, accelerator, NEWS_JOINS);
    return false;
}

/* Does the next step of a class's accelerators on the way to their target. */
static void class_switch(struct scheduler_link *l, struct member *m, uint32_t i) {
    uint32_t before = m->classes[i], target = m->targets[i];
    bool left = false;
    if (!m->switching[i] && !may_switch(l, before, target))
        return;
    m->switching[i] = true;
    for (uint32_t k = 0; k < m->accelerator_count; k++)
        if (l->accelerators[m->accelerators[k]].class == before)
            left |= accelerator_switch(l, m->accelerators[k], target);
    if (left)
        return;
    m->switching[i] = false;
    m->classes[i] = target;
    catalogue_class_leave(l->catalogue, before);
    l->changed = true;
}

void member_accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news) {
    struct accelerator_place *a = &l->accelerators[accelerator];
    a->joined = news == NEWS_JOINS;
    if (!a->switches && !(a->joined && a->leaves)) /* else it joins when it has left */
        accelerator_news(l, accelerator, news);
    a->owes = !a->joined;
    if (a->owes)
        accelerator_leaves(l, accelerator);
}

/* ---- all changes ---- */

static bool member_look(struct scheduler_link *l, struct member *m, int64_t now_ns) {
    bool busy = false;
    if (m->late && l->changed)
        late_look(l, m);
    if (is_settled(m))
        return ends_look(l, m);
    for (uint32_t i = 0; i < m->class_count; i++)
        busy |= m->switching[i];
    bool waits = m->choose_ns > 0;
    if (!busy && m->models_changed && now_ns >= m->choose_ns && !classes_choose(l, m, now_ns) && !waits)
        log_warn("a backend's models wait", "backend=%s reason=\"there are too many types of accelerators\"",
                 m->hello.name);
    for (uint32_t i = 0; i < m->class_count; i++)
        if (m->targets[i] != m->classes[i])
            class_switch(l, m, i);
    return true;
}

bool changes_look(struct scheduler_link *l, int64_t now_ns) {
    bool busy = false, late = false;
    if (!l->changing)
        return false;
    list_for_each_entry (m, &l->members, struct member, node) {
        if (m->known && m->told && m->hello.role == ROLE_BACKEND)
            busy |= member_look(l, m, now_ns);
        for (const struct late_model *one = m->late; one; one = one->next)
            late |= one->waits;
    }
    l->changing = busy || late;
    return busy;
}

void changes_forget(struct scheduler_link *l, struct member *m) {
    for (uint32_t i = 0; i < m->class_count; i++)
        if (m->targets[i] != m->classes[i])
            catalogue_class_leave(l->catalogue, m->targets[i]);
    for (uint32_t i = 0; m->accelerators && i < m->accelerator_count; i++)
        l->accelerators[m->accelerators[i]].switches = false;
    late_free(m);
}
