/* scheduler_rollouts.c - which versions get the requests that name none: decides on visitors' orders, records that in
 * the registry, and has all members keep it for the next scheduler.
 *
 * With a registry an order counts once the registry has it, so that no later leader can miss it. Without one it counts
 * at once; the members tell it to the next scheduler before that hears of any request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"

#define RECORD_AGAIN_NS (1 * NS_PER_S) /* time until a record that failed is tried again */
/* An order's record that is not answered in time is asked for again, as long as its visitor may wait; one that is
 * refused at once is not. */
#define REFUSED_NS (100 * NS_PER_MS)
#define ORDER_NS   (3 * NS_PER_S)

int scheduler_rollouts_init(struct scheduler_link *l) {
    l->recorded = true; /* there is nothing to record */
    l->proposed = calloc(1, sizeof(*l->proposed));
    return l->proposed ? 0 : -ENOMEM;
}

void scheduler_rollouts_free(struct scheduler_link *l) {
    free(l->proposed);
}

static struct rollouts *rollouts_of(struct scheduler_link *l) {
    return &l->catalogue->rollouts;
}

static void refuse(struct member *visitor, const struct sy_error *why) {
    peer_send(&visitor->peer, FRAME_REFUSED, 1, why->text, strlen(why->text));
}

/* These count from now on. */
static void apply(struct scheduler_link *l, const struct rollouts *rollouts) {
    *rollouts_of(l) = *rollouts;
    versions_again(l);
    list_for_each_entry (m, &l->members, struct member, node)
        if (m->known)
            scheduler_rollouts_tell(l, m);
}

void scheduler_rollouts_tell(struct scheduler_link *l, struct member *m) {
    bool any = rollouts_of(l)->number > 0 && (m->hello.role == ROLE_FRONTEND || m->hello.role == ROLE_BACKEND);
    char *text = any ? rollouts_write(rollouts_of(l)) : NULL;
    if (text)
        peer_send(&m->peer, FRAME_ROLLOUTS, 1, text, strlen(text));
    free(text);
}

void scheduler_rollouts_heard(struct scheduler_link *l, const char *text, size_t bytes, bool recorded) {
    struct rollouts *heard = calloc(1, sizeof(*heard));
    struct sy_error err;
    if (!heard || rollouts_read(text, bytes, heard, &err) < 0) {
        log_warn("rollouts not read", "reason=\"%s\"", heard ? err.text : "no memory");
        free(heard);
        return;
    }
    if (!recorded && heard->term > l->config.self.term) { /* nobody can know a decision of a term that is yet to come */
        free(heard);
        return;
    }
    bool later = rollouts_later(heard, rollouts_of(l));
    if (recorded) /* else there is one to record, unless nothing was ever decided */
        l->recorded = later || !rollouts_later(rollouts_of(l), heard);
    else if (later)
        l->recorded = false;
    if (later)
        apply(l, heard);
    free(heard);
}

/* Asks the registry to record `proposed`. False: there is no registry. */
static bool record(struct scheduler_link *l) {
    char *text = rollouts_write(l->proposed);
    l->recording = text && standby_record(l->standby, text);
    l->record_began_ns = clock_now_ns();
    free(text);
    return l->recording;
}

/* The order is carried out, and said so. */
static void answer(struct scheduler_link *l) {
    const struct rollout *r = rollouts_find(rollouts_of(l), l->asked);
    if (r)
        log_info("rollout", "model=%s version=%u share=%.6g before=%u", r->model, r->version,
                 (double)r->share / ROLLOUT_SHARE_ALL, r->before);
    else
        log_info("rollout is over", "model=%s", l->asked);
    json_t *json = json_pack("{s:s}", "model", l->asked);
    json_object_set_new(json, "rollout", rollout_status(l, l->asked));
    if (l->asker)
        answer_send(l->asker, json);
    else
        json_decref(json);
    l->asker = NULL;
}

void scheduler_rollouts_recorded(struct scheduler_link *l, bool done) {
    struct sy_error why;
    int64_t now_ns = clock_now_ns();
    l->recording = false;
    l->record_ns = now_ns + RECORD_AGAIN_NS;
    done |= l->ordered && !rollouts_later(l->proposed, rollouts_of(l)); /* the registry has shown it */
    l->recorded |= done;
    if (!done && l->ordered && now_ns < l->ordered_ns + ORDER_NS && now_ns > l->record_began_ns + REFUSED_NS &&
        record(l))
        return;
    if (done && rollouts_later(l->proposed, rollouts_of(l)))
        apply(l, l->proposed);
    if (done && l->ordered) {
        answer(l);
    } else if (l->asker) {
        error_set(&why, -EIO,
                  "the registry has not recorded it: nothing was changed, unless 'symphony status' says so");
        refuse(l->asker, &why);
        l->asker = NULL;
    }
    l->ordered = false;
}

void scheduler_rollouts_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    if (l->recorded || l->recording || !l->standby || !scheduler_link_leads(l))
        return;
    if (now_ns >= l->record_ns) {
        *l->proposed = *rollouts_of(l);
        l->recorded = !record(l); /* without a registry there is nothing to be done */
        l->record_ns = now_ns + RECORD_AGAIN_NS;
    }
    *until_ns = time_earlier(l->record_ns, *until_ns);
}

/* Whether backends have what the order names. 0; or -ENOENT if they do not, or -EINVAL, with a sentence. */
static int order_check(const struct scheduler_link *l, const struct rollout_order *order, struct sy_error *err) {
    const struct catalogue *c = l->catalogue;
    const struct rollout *r = rollouts_find(&c->rollouts, order->model);
    if (order->wish == ROLLOUT_NEWEST)
        return 0;
    uint32_t version = order->wish == ROLLOUT_TO ? order->version : r ? r->before : 0; /* 0: none to look for */
    char versions[200] = "";
    size_t used = 0;
    bool ensemble = false, has = version == 0;
    for (uint32_t i = 0; i < c->known_count; i++) {
        const struct known_model *known = &c->known[i];
        if (!known->model || known->backends == 0 || strcmp(known->model->name, order->model) != 0)
            continue;
        ensemble |= known->model->ensemble != NULL;
        has |= known->model->version == version && known->place != CATALOGUE_NONE;
        int wrote = snprintf(versions + used, sizeof(versions) - used, "%s%u", used ? ", " : "", known->model->version);
        used += wrote > 0 && (size_t)wrote < sizeof(versions) - used ? (size_t)wrote : 0;
    }
    if (!used)
        return error_set(err, -ENOENT, "no backend has a model '%s'", order->model);
    if (ensemble)
        return error_set(err, -EINVAL, "'%s' is an ensemble: roll out the models of its steps", order->model);
    return has ? 0
               : error_set(err, -ENOENT, "no backend has version %u of model '%s'; they have %s", version, order->model,
                           versions);
}

void scheduler_rollouts_order(struct scheduler_link *l, struct member *visitor, const char *text, size_t bytes) {
    struct rollout_order order;
    struct sy_error why;
    int rc = rollout_order_read(text, bytes, &order, &why);
    if (rc == 0)
        rc = order_check(l, &order, &why);
    if (rc == -ENOENT && clock_now_ns() < l->settled_ns) { /* the visitor asks again */
        status_send(l, visitor, NULL);
        return;
    }
    if (rc == 0 && l->recording)
        rc = error_set(&why, -EBUSY, "another rollout is being recorded; try again");
    if (rc == 0) {
        *l->proposed = *rollouts_of(l);
        rc = rollouts_order(l->proposed, &order, catalogue_carries(l->catalogue, order.model), l->config.self.term,
                            &why);
    }
    if (rc < 0) {
        refuse(visitor, &why);
        return;
    }
    l->asker = visitor;
    memcpy(l->asked, order.model, sizeof(l->asked));
    l->ordered = record(l);
    l->ordered_ns = l->record_began_ns;
    if (l->ordered)
        return;
    apply(l, l->proposed);
    answer(l);
}
