/* scheduler_status.c - writes the status for visitors: members of the cluster, models, accelerators, links. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/aside.h"
#include "cluster/roles/scheduler_link_state.h"
#include "core/data/advice.h"
#include "core/system/clock.h"

static void set_incarnation(json_t *json, uint64_t incarnation) {
    json_object_set_new(json, "incarnation", json_sprintf("%016llx", (unsigned long long)incarnation));
}

static void set_number(json_t *json, const char *name, uint64_t number) {
    json_object_set_new(json, name, json_integer((json_int_t)number));
}

static void set_seconds(json_t *json, const char *name, int64_t ns) {
    json_object_set_new(json, name, json_real((double)(ns / NS_PER_MS) / 1e3));
}

static void set_micros(json_t *json, const char *name, int64_t ns) {
    json_object_set_new(json, name, json_real((double)ns / 1e3));
}

/* ---- members ---- */

/* A backend's accelerators by type: how many there are, and how many of them serve, are leaving, and are gone. */
static json_t *accelerators_status(const struct scheduler_link *l, const struct member *m) {
    static const char *const states[] = {
        [ACCELERATOR_SERVING] = "serving", [ACCELERATOR_LEAVING] = "leaving", [ACCELERATOR_GONE] = "gone"};
    json_t *list = json_array();
    for (uint32_t c = 0; c < m->class_count; c++) {
        uint32_t count = 0, in_state[3] = {0};
        for (uint32_t i = 0; i < m->accelerator_count; i++) {
            if (l->accelerators[m->accelerators[i]].class != m->classes[c])
                continue;
            count++;
            in_state[wiring_accelerator_state(l->wiring, m->accelerators[i])]++;
        }
        json_t *one = json_pack("{s:s, s:f}", "type", l->catalogue->classes[m->classes[c]].type, "slow",
                                m->speed[c].slow ? m->speed[c].than : 1.0);
        set_number(one, "count", count);
        for (uint32_t s = 0; s < 3; s++)
            set_number(one, states[s], in_state[s]);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *brought_status(const struct scheduler_link *l, const struct member *m) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->brought_count; i++) {
        const struct known_model *known = &l->catalogue->known[m->brought[i].known];
        if (!m->brought[i].ends && !known->waits)
            json_array_append_new(list, json_sprintf("%s/%u", known->model->name, known->model->version));
    }
    return list;
}

/* Models that it has and that are not served: those that it could not load, then those that were not taken, and those
 * for which there is no room. */
static json_t *aside_status(const struct scheduler_link *l, const struct member *m) {
    json_t *list = m->aside ? json_deep_copy(m->aside) : json_array();
    for (const struct late_model *late = m->late; late; late = late->next)
        aside_add(list, late->name, late->version, late->reason);
    for (uint32_t i = 0; i < m->brought_count; i++) {
        const struct known_model *known = &l->catalogue->known[m->brought[i].known];
        if (!m->brought[i].ends && known->waits)
            aside_add(list, known->model->name, known->model->version, known->waits);
    }
    return list;
}

static void backend_status(const struct scheduler_link *l, const struct member *m, json_t *json) {
    uint32_t batches = 0;
    if (!m->accelerators)
        return; /* it has not announced all its accelerators yet */
    for (uint32_t i = 0; i < m->accelerator_count; i++)
        list_for_each (node, &l->accelerators[m->accelerators[i]].plans)
            batches++;
    json_object_set_new(json, "accelerators", accelerators_status(l, m));
    json_object_set_new(json, "models", brought_status(l, m));
    json_object_set_new(json, "aside", aside_status(l, m));
    set_number(json, "batches", batches);
    json_object_set_new(json, "cordoned", json_boolean(m->cordoned));
}

static json_t *member_status(const struct scheduler_link *l, const struct member *m, int64_t now_ns) {
    json_t *json = json_pack("{s:s, s:s, s:s, s:s}", "role", cluster_role_name(m->hello.role), "name", m->hello.name,
                             "address", *m->hello.address ? m->hello.address : m->from, "version", m->hello.version);
    set_number(json, "format", m->peer.format);
    set_number(json, "number", m->hello.number);
    set_incarnation(json, m->hello.incarnation);
    set_seconds(json, "joined_s", now_ns - m->since_ns);
    if (clock_sync_known(&m->health.clock)) {
        set_micros(json, "round_trip_us", clock_sync_round_trip_ns(&m->health.clock));
        set_micros(json, "clock_error_us", clock_sync_error_ns(&m->health.clock, now_ns));
        json_object_set_new(json, "clock_ahead_s",
                            json_real((double)(clock_sync_peer(&m->health.clock, now_ns) - now_ns) / 1e9));
    }
    set_number(json, "received_bytes", m->peer.bytes_in);
    set_number(json, "sent_bytes", m->peer.bytes_out);
    const struct link_tallies *tallies = &l->report.tallies;
    const struct link_tally *tally = m->peer.tally ? &tallies->of[m->peer.tally - 1] : &tallies->others;
    set_number(json, "late", tally->counts[LINK_LATE]);
    set_number(json, "lost", tally->counts[LINK_LOST]);
    if (m->hello.role == ROLE_BACKEND)
        backend_status(l, m, json);
    else
        set_number(json, "threads", m->hello.lanes);
    return json;
}

/* ---- models ---- */

static json_t *known_status(const struct known_model *known) {
    json_t *json = json_pack("{s:s}", "name", known->model->name);
    int64_t slo_ns = known->model->best_effort ? 0 : known->model->slo_ns;
    set_number(json, "version", known->model->version);
    json_object_set_new(json, "slo_ms", slo_ns ? json_real((double)slo_ns / 1e6) : json_null());
    set_number(json, "backends", known->backends);
    return json;
}

static json_t *models_status(const struct scheduler_link *l) {
    json_t *models = json_array();
    for (uint32_t p = 0; p < l->config.models_max; p++) {
        const struct served_place *place = &l->places[p];
        const struct known_model *known = &l->catalogue->known[place->known];
        if (model_life_state(l->life, p) != LIFE_SERVING || !known->model)
            continue;
        json_t *json = known_status(known);
        double share = (double)known->share / ROLLOUT_SHARE_ALL;
        bool carries = catalogue_carries(l->catalogue, known->model->name) == known->model->version;
        json_object_set_new(json, "share", json_real(known->share > 0 ? share : carries));
        set_number(json, "queued", place->queued);
        set_number(json, "batches", place->sent);
        json_array_append_new(models, json);
    }
    /* ensembles are behind the models; none of their requests waits or runs here */
    for (uint32_t i = 0; i < l->catalogue->known_count; i++) {
        const struct known_model *known = &l->catalogue->known[i];
        if (!known->model || !known->told)
            continue;
        json_t *json = known_status(known);
        json_object_set_new(json, "share", json_null());
        json_object_set_new(json, "queued", json_null());
        json_object_set_new(json, "batches", json_null());
        json_array_append_new(models, json);
    }
    return models;
}

/* ---- rollouts ---- */

static uint32_t backends_of(const struct scheduler_link *l, const char *model, uint32_t version) {
    uint32_t i = catalogue_served(l->catalogue, model, version);
    return i == CATALOGUE_NONE ? 0 : l->catalogue->known[i].backends;
}

json_t *rollout_status(const struct scheduler_link *l, const char *model) {
    const struct rollout *r = rollouts_find(&l->catalogue->rollouts, model);
    if (!r)
        return json_null();
    json_t *json = json_object();
    json_object_set_new(json, "model", json_string(model));
    set_number(json, "version", r->version);
    json_object_set_new(json, "share", json_real((double)r->share / ROLLOUT_SHARE_ALL));
    json_object_set_new(json, "before", r->before ? json_integer(r->before) : json_null());
    set_number(json, "backends", backends_of(l, model, r->version));
    set_number(json, "backends_before", backends_of(l, model, r->before));
    json_object_set_new(json, "rolls", json_boolean(catalogue_rolls(l->catalogue, r)));
    return json;
}

/* ---- the whole status ---- */

/* Whether this scheduler leads, and all members have had time to join. */
static bool is_settled(const struct scheduler_link *l, int64_t now_ns) {
    return scheduler_link_leads(l) && now_ns >= l->settled_ns;
}

static json_t *scheduler_status(const struct scheduler_link *l, int64_t now_ns) {
    const struct hello *self = &l->config.self;
    json_t *json = json_pack("{s:s, s:s, s:b, s:b}", "name", self->name, "version", self->version, "leads",
                             (int)scheduler_link_leads(l), "settled", (int)is_settled(l, now_ns));
    if (!scheduler_link_leads(l)) {
        const char *leader = l->standby ? standby_leader(l->standby) : "";
        json_object_set_new(json, "leader", *leader ? json_string(leader) : json_null());
    }
    set_incarnation(json, self->incarnation);
    set_number(json, "term", self->term);
    set_seconds(json, "uptime_s", now_ns - l->started_ns);
    set_number(json, "requests", l->counters.requests);
    set_number(json, "batches", l->counters.batches);
    set_number(json, "lost", lost_sum(l->counters.lost));
    set_number(json, "requests_now", l->in_scheduler);
    set_number(json, "accelerators", l->accelerators_there);
    int64_t wanted = advice_get(l->config.advice);
    json_object_set_new(json, "accelerators_wanted", wanted == ADVICE_NONE ? json_null() : json_integer(wanted));
    return json;
}

static json_t *status(const struct scheduler_link *l) {
    int64_t now_ns = clock_now_ns();
    json_t *json = json_object(), *members = json_array(), *rollouts = json_array();
    list_for_each_entry (m, &l->members, const struct member, node)
        if (m->known)
            json_array_append_new(members, member_status(l, m, now_ns));
    for (uint32_t i = 0; i < l->catalogue->rollouts.count; i++)
        json_array_append_new(rollouts, rollout_status(l, l->catalogue->rollouts.of[i].model));
    json_object_set_new(json, "scheduler", scheduler_status(l, now_ns));
    json_object_set_new(json, "members", members);
    json_object_set_new(json, "models", models_status(l));
    json_object_set_new(json, "rollouts", rollouts);
    return json;
}

static void answer_sent(void *text, uint64_t tag) {
    (void)tag;
    free(text);
}

void status_send(struct scheduler_link *l, struct member *visitor, const struct member *only) {
    answer_send(visitor, only ? member_status(l, only, clock_now_ns()) : status(l));
}

void answer_send(struct member *visitor, json_t *json) {
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));
    size_t bytes = text ? strlen(text) : 0;
    json_decref(json);
    if (text && peer_frame(&visitor->peer, FRAME_STATUS, 1, 0, bytes))
        peer_body(&visitor->peer, text, bytes, answer_sent, text, 0);
    else
        free(text);
}

struct member *status_member(struct scheduler_link *l, const char *text, uint32_t bytes, struct sy_error *err) {
    char wanted[HELLO_NAME_MAX], *end;
    struct member *found = NULL, *numbered = NULL;
    uint32_t count = 0;

    snprintf(wanted, sizeof(wanted), "%.*s", (int)(bytes < HELLO_NAME_MAX ? bytes : HELLO_NAME_MAX - 1), text);
    unsigned long number = strtoul(wanted, &end, 10);
    list_for_each_entry (m, &l->members, struct member, node) {
        if (!m->known || m->hello.role == ROLE_SCHEDULER)
            continue;
        if (*wanted >= '0' && *wanted <= '9' && !*end && m->hello.number == number)
            numbered = m;
        else if (strcmp(m->hello.name, wanted) == 0) {
            found = m;
            count++;
        }
    }
    if (numbered && count) {
        error_set(
            err, -ENOENT,
            "'%s' is the number of the %s '%s', and the name of the %s of number %u; use that name or that number",
            wanted, cluster_role_name(numbered->hello.role), numbered->hello.name, cluster_role_name(found->hello.role),
            found->hello.number);
        return NULL;
    }
    if (numbered)
        return numbered;
    if (count == 1)
        return found;
    if (count)
        error_set(err, -ENOENT, "%u members are called '%s'; give the number of one", count, wanted);
    else
        error_set(err, -ENOENT, "no member has the name or number '%s'", wanted);
    return NULL;
}
