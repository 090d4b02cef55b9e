/* isolated_orders.c - carries orders to the processes of `serve --isolate`.
 *
 *     parent: desk -> orders thread --channel--> child: obeying thread -> desk -> repository's thread
 *                         <---------- answer ----------
 *
 * The child's end of a channel is CHILD_FD.
 *
 * A model is loaded in all processes or in none. Each process prepares it: loads it beside what serves. Only when all
 * have done so are they told to serve it, at which no process can fail any more; else all discard it. A process that
 * ends meanwhile is told all orders in force when it runs again, and then this one. */
#include "server/process/isolated_orders.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/system/child_call.h"
#include "core/system/clock.h"
#include "core/system/memory_file.h"
#include "core/system/thread.h"
#include "core/util/array.h"
#include "core/util/utf8.h"
#include "front/bulk/inbox.h"
#include "front/request/repository_order.h"
#include "model/config/ensemble.h"
#include "model/config/model_name.h"
#include "model/repository/model_index.h"
#include "model/repository/repository.h"
#include "model/repository/repository_look.h"
#include "server/models/cluster_models.h"
#include "server/models/repository_control.h"
#include "server/process/isolated_channel.h"

#define POLL_MS        20
#define LISTED_NS      (5 * NS_PER_S) /* time after which a loaded model that is not listed is served by no process */
#define DEPENDENTS_MAX 256
#define STRANGERS_MAX  64             /* models in the index for which is_stranger() is true */
#define REFUSED_NS     (1 * NS_PER_S) /* time after which a frontend's word that it cannot serve a model is believed */
#define SHUTS_DOWN     "the server is shutting down"
#define TRIES          2 /* tries of an order during which a process ends, since another request may have ended it */

/* A model that is loaded, with the order that loaded it. */
struct load {
    struct load *next;
    bool failed; /* whether a model of the start could not be loaded */
    struct channel_order order;
    char body[];
};

/* A model that clients see in the index. */
struct known {
    struct model_absent shown;
    bool found;     /* whether the model is in the repository */
    bool was_found; /* the same, at the look before */
    bool again;     /* whether the next look tries the same files once more */
    bool drains;    /* whether requests of the model, which was unloaded, may still be under way */
    uint64_t tried; /* stamp of the files of the last version that was to be loaded, if the repository is followed */
};

struct isolated_orders {
    struct isolated_orders_config config;
    struct known *known; /* [known_count] */
    uint32_t known_count;
    bool handed, seen_by_clients; /* known_show() has handed over `known` as it is; clients see it, too */
    int64_t look_ns;              /* time of the next look at the repository */
    int64_t idle_ns;              /* until then no order looks at all models again */
    struct repositories_seen seen;
    struct load *loads; /* list of loaded models in the order in which they were loaded */
    int *channels;      /* [config.count] channels to processes; -1: none */
    uint32_t *lives;    /* [config.count] number of processes that have been started for the accelerator */
    bool nested;        /* whether the thread is telling a new process of the orders in force */
    bool started;       /* whether a process has been told of the models of the start */
    pthread_t thread;
    _Atomic bool ready, close, closed, stop;
};

static bool is_set(const _Atomic bool *flag) {
    return atomic_load_explicit(flag, memory_order_acquire); /* with flag_set() */
}

static void flag_set(_Atomic bool *flag) {
    atomic_store_explicit(flag, true, memory_order_release);
}

/* ---- the parent ---- */

static void channel_close(struct isolated_orders *o, uint32_t n) {
    if (o->channels[n] >= 0)
        close(o->channels[n]);
    o->channels[n] = -1;
}

/* An order on its way to a process. */
struct given {
    bool to;       /* the process is to get the order */
    bool done;     /* the process has carried out the order */
    uint32_t life; /* number of the process, as in isolated_orders.lives */
    uint32_t ends; /* processes that have ended with this order */
    int rc;        /* 0, with `answer`; -EPIPE: the process has ended; -EINTR: the server ends */
    struct channel_answer answer;
};

static void news_look(struct isolated_orders *o);

/* Waits for the answer of process n to an order that it has got. */
static void answer_await(struct isolated_orders *o, uint32_t n, struct given *g) {
    bool answered = false;
    while (g->rc == 0 && !answered) {
        struct pollfd answers = {.fd = o->channels[n], .events = POLLIN};
        if (o->lives[n] != g->life || o->channels[n] < 0)
            g->rc = -EPIPE;
        else if (is_set(&o->stop) || (is_set(&o->close) && !o->nested))
            g->rc = -EINTR;
        else if (poll(&answers, 1, POLL_MS) > 0)
            g->rc = (answered = channel_answer_receive(o->channels[n], &g->answer)) ? 0 : -EPIPE;
        else if (!o->nested)
            news_look(o); /* new processes are told without waiting until this order is carried out */
    }
    if (g->rc < 0 && o->lives[n] == g->life)
        channel_close(o, n); /* a later answer would be taken for the answer to another order */
}

/* Gives an order to all processes n of which given[n].to is set, and waits for their answers. Without memory for its
 * body these are 503. */
static void order_give(struct isolated_orders *o, struct given *given, const struct channel_order *order,
                       const char *body) {
    int fd = order->body_bytes ? memory_file("order", body, order->body_bytes) : -1;
    bool possible = fd >= 0 || !order->body_bytes;
    for (uint32_t n = 0; n < o->config.count; n++) {
        if (!given[n].to)
            continue;
        given[n].life = o->lives[n];
        given[n].rc = 0;
        if (possible)
            given[n].rc = o->channels[n] < 0 ? -EPIPE : channel_order_send(o->channels[n], order, fd);
        else
            given[n].answer.status = (unsigned)error_set(&given[n].answer.error, 503, "out of memory for the order");
    }
    if (fd >= 0)
        close(fd);
    for (uint32_t n = 0; possible && n < o->config.count; n++)
        if (given[n].to)
            answer_await(o, n, &given[n]);
}

/* ---- what is known ---- */

static struct known *known_find(const struct isolated_orders *o, const char *name) {
    for (uint32_t i = 0; i < o->known_count; i++)
        if (strcmp(o->known[i].shown.name, name) == 0)
            return &o->known[i];
    return NULL;
}

/* Finds or adds a model. NULL without memory. Earlier pointers may have become invalid. */
static struct known *known_get(struct isolated_orders *o, const char *name) {
    struct known *found = known_find(o, name);
    if (found)
        return found;
    struct known *grown = array_room(o->known, o->known_count, sizeof(*grown));
    if (!grown)
        return NULL;
    o->known = grown;
    struct known *k = &o->known[o->known_count++];
    o->handed = o->seen_by_clients = false;
    *k = (struct known){.shown = {.state = MODEL_UNAVAILABLE, .reason = "unloaded"}};
    snprintf(k->shown.name, sizeof(k->shown.name), "%s", name);
    return k;
}

static void known_set(struct isolated_orders *o, const char *name, enum model_state state, bool failed,
                      const char *reason) {
    struct known *k = known_get(o, name);
    if (!k)
        return;
    struct model_absent was = k->shown;
    k->shown.state = state;
    k->shown.failed = failed;
    snprintf(k->shown.reason, sizeof(k->shown.reason), "%s", reason);
    utf8_clean(k->shown.reason, strlen(k->shown.reason));
    if (was.state != state || was.failed != failed || strcmp(was.reason, k->shown.reason) != 0)
        o->handed = o->seen_by_clients = false;
}

/* Whether a model is not in the repository, and could not be loaded: a client brought the model, or it was once in the
 * repository. */
static bool is_stranger(const struct known *k) {
    return !k->found && k->shown.failed;
}

/* Whether clients are still served by a model that was unloaded. */
static bool is_draining(const struct isolated_orders *o, const char *name) {
    const struct model_index *models = o->config.clients->lock(o->config.context);
    bool drains = false;
    for (uint32_t i = 0; i < models->count && !drains; i++)
        drains = strcmp(models->models[models->listed[i]].name, name) == 0;
    for (uint32_t i = 0; i < models->absent_count && !drains; i++)
        drains = models->absent[i].state == MODEL_UNLOADING && strcmp(models->absent[i].name, name) == 0;
    o->config.clients->unlock(o->config.context);
    return drains;
}

/* Shows clients the known models, unless they are as before; waits until clients see them, unless `at_once`. Forgets
 * models that are neither loaded nor in the repository, and the oldest strangers if there are too many: clients may
 * invent any number of names. */
static void known_show(struct isolated_orders *o, bool at_once) {
    uint32_t kept = 0, strangers = 0;
    bool drains = false;
    for (uint32_t i = 0; i < o->known_count; i++) {
        strangers += is_stranger(&o->known[i]);
        drains |= o->known[i].drains;
    }
    if (!drains && (at_once ? o->handed : o->seen_by_clients))
        return;
    for (uint32_t i = 0; i < o->known_count; i++) {
        struct known *k = &o->known[i];
        k->drains = k->drains && is_draining(o, k->shown.name);
        if (is_stranger(k) ? strangers-- <= STRANGERS_MAX
                           : k->found || k->drains || k->shown.state != MODEL_UNAVAILABLE)
            o->known[kept++] = *k;
    }
    o->known_count = kept;
    struct model_absent *shown = calloc(kept + 1, sizeof(*shown));
    for (uint32_t i = 0; shown && i < kept; i++)
        shown[i] = o->known[i].shown;
    if (shown && !is_set(&o->close)) {
        o->config.clients->know(o->config.context, shown, kept, at_once);
        o->handed = true;
        o->seen_by_clients |= !at_once;
    }
    free(shown);
}

static void found_mark(void *context, const char *name) {
    struct isolated_orders *o = context;
    for (uint32_t i = 0; i < o->known_count && !name; i++) {
        o->known[i].was_found = o->known[i].found;
        o->known[i].found = false;
    }
    struct known *k = name ? known_find(o, name) : NULL;
    if (name && !k && repository_holds(&o->config.from, name)) /* other folders, like lost+found, are no models */
        k = known_get(o, name);
    if (k)
        k->found = true;
}

static void look(struct isolated_orders *o) {
    int64_t began_ns = clock_now_ns();
    o->look_ns = began_ns + o->config.look_ns;
    repository_mark(&o->config.from, &o->seen, found_mark, o);
    for (uint32_t i = 0; i < o->known_count; i++)
        if (o->known[i].found != o->known[i].was_found)
            o->handed = o->seen_by_clients = false;
    o->idle_ns = time_rested(began_ns, clock_now_ns());
}

/* As known_order_look() (repository_known.c). */
static void order_look(struct isolated_orders *o, const char *name) {
    if (clock_now_ns() >= o->idle_ns)
        look(o);
    else if (model_name_is_valid(name) && name[0] != '.' && repository_holds(&o->config.from, name))
        found_mark(o, name);
}

/* ---- processes ---- */

/* Tells new processes, those of which given[n].to is set, all orders in force, and then to join. A model of the start
 * that the first process cannot load is not loaded. */
static void processes_tell(struct isolated_orders *o, struct given *given) {
    static const struct channel_order begin = {.kind = ORDER_BEGIN};
    o->nested = true;
    for (struct load *load = o->loads; load; load = load->next) {
        if (load->failed)
            continue;
        order_give(o, given, &load->order, load->body);
        for (uint32_t n = 0; n < o->config.count; n++) {
            if (given[n].to && given[n].rc == 0 && given[n].answer.status != 200 && !o->started) {
                load->failed = true;
                known_set(o, load->order.name, MODEL_UNAVAILABLE, true, given[n].answer.error.text);
            }
            given[n].to &= given[n].rc == 0;
        }
    }
    o->started = true;
    known_show(o, true);
    order_give(o, given, &begin, NULL);
    for (uint32_t n = 0; n < o->config.count; n++)
        given[n].to = false;
    o->nested = false;
}

/* Looks for new processes. The very first one is told before the others, since it may have to measure models. */
static void news_look(struct isolated_orders *o) {
    struct given *given = calloc(o->config.count, sizeof(*given));
    bool any = false;
    for (uint32_t n = 0; given && n < o->config.count; n++) {
        int fd = atomic_exchange_explicit(&o->config.channels[n], -1, memory_order_acq_rel); /* with who starts them */
        if (fd < 0)
            continue;
        channel_close(o, n);
        o->channels[n] = fd;
        o->lives[n]++;
        given[n].to = true;
        if (o->started)
            any = true;
        else
            processes_tell(o, given);
    }
    if (any)
        processes_tell(o, given);
    free(given);
}

/* Waits until process n runs again. */
static void process_await(struct isolated_orders *o, uint32_t n) {
    while (o->channels[n] < 0 && !is_set(&o->close)) {
        news_look(o);
        if (o->channels[n] < 0)
            clock_sleep(POLL_MS * NS_PER_MS);
    }
}

static bool is_done(const struct isolated_orders *o, const struct given *given, uint32_t n) {
    return given[n].done && given[n].life == o->lives[n];
}

/* Gives all processes that have prepared a model an order without a body. */
static void prepared_order(struct isolated_orders *o, enum order_kind kind, const char *name, struct given *given) {
    struct channel_order order = {.kind = kind, .form = ORDER_JSON};
    snprintf(order.name, sizeof(order.name), "%s", name);
    for (uint32_t n = 0; n < o->config.count; n++)
        given[n].to = is_done(o, given, n);
    order_give(o, given, &order, NULL);
}

/* Lets all processes prepare a model, process 0 before the others, since it may have to measure it. Returns the status.
 * `given` is zeroed. */
static unsigned prepare_all(struct isolated_orders *o, const struct channel_order *load, const char *body,
                            struct channel_answer *answer, struct given *given) {
    struct channel_order prepare = *load, *order = &prepare;
    prepare.kind = ORDER_PREPARE;
    for (uint32_t first = 0; first < o->config.count;) {
        unsigned status = 200;
        for (uint32_t n = 0; n < o->config.count; n++) {
            given[n].to = first > 0 ? !is_done(o, given, n) : n == 0;
            if (given[n].to)
                process_await(o, n);
        }
        order_give(o, given, order, body);
        for (uint32_t n = 0; n < o->config.count; n++) {
            struct given *g = &given[n];
            if (!g->to)
                continue;
            g->done = g->rc == 0 && g->answer.status == 200;
            if (g->rc == -EINTR)
                g->answer.status = (unsigned)error_set(&g->answer.error, 503, SHUTS_DOWN);
            else if (g->rc < 0 && ++g->ends < TRIES)
                continue;
            else if (g->rc < 0)
                g->answer.status = (unsigned)error_set(
                    &g->answer.error, 500, "load failed for model '%s': the process that loaded it ended", order->name);
            *answer = status == 200 ? g->answer : *answer;
            status = status == 200 ? g->answer.status : status;
        }
        if (status != 200)
            return status;
        for (first = 0; first < o->config.count && is_done(o, given, first);)
            first++;
    }
    return 200;
}

static struct load *load_new(const struct channel_order *order, const char *body) {
    struct load *load = malloc(sizeof(*load) + order->body_bytes);
    if (!load)
        return NULL;
    load->next = NULL;
    load->failed = false;
    load->order = *order;
    if (body)
        memcpy(load->body, body, order->body_bytes);
    return load;
}

static void loads_add(struct isolated_orders *o, struct load *load) {
    struct load **at = &o->loads;
    while (*at)
        at = &(*at)->next;
    *at = load;
}

/* Takes all loads of a model out of the list. */
static void loads_remove(struct isolated_orders *o, const char *name) {
    for (struct load **at = &o->loads, *load; (load = *at);)
        if (strcmp(load->order.name, name) == 0) {
            *at = load->next;
            free(load);
        } else {
            at = &load->next;
        }
}

/* The number of the given versions that the frontend lists, or 0 while it lists others, which they replace; if none is
 * given, of all that it lists. */
static uint32_t versions_listed(const struct isolated_orders *o, const struct model_index *models, const char *name,
                                const uint64_t *versions, uint32_t count) {
    uint32_t listed = 0, others = 0;
    for (uint32_t i = 0; i < models->count; i++) {
        uint32_t place = models->listed[i], v = 0;
        if (strcmp(models->models[place].name, name) != 0)
            continue;
        uint64_t hash = count ? o->config.clients->hash(o->config.context, place) : 0;
        while (v < count && versions[v] != hash)
            v++;
        *(v < count || count == 0 ? &listed : &others) += 1;
    }
    return others ? 0 : listed;
}

/* Waits until the frontend lists all given versions of a model, or any if none is given; if not `wanted`, until it
 * lists no version any more. Clients expect that after an order. 0, or 400 with a sentence: the frontend cannot serve
 * it, though the processes can (an ensemble whose steps do not fit, an input that cannot be prepared). */
static unsigned list_await(const struct isolated_orders *o, const char *name, bool wanted, const uint64_t *versions,
                           uint32_t count, struct sy_error *err) {
    int64_t begin_ns = clock_now_ns(), until_ns = begin_ns + LISTED_NS;
    unsigned status = 0;
    for (bool listed = !wanted; listed != wanted && !is_set(&o->close) && clock_now_ns() < until_ns && !status;) {
        const struct model_index *models = o->config.clients->lock(o->config.context);
        uint32_t found = versions_listed(o, models, name, versions, count);
        listed = found > 0 && (!wanted || found >= count);
        /* an ensemble may be there before the models of its steps */
        bool believed = wanted && !listed && clock_now_ns() > begin_ns + REFUSED_NS;
        for (uint32_t i = 0; i < models->absent_count && believed; i++) {
            const struct model_absent *absent = &models->absent[i];
            if (absent->failed && strcmp(absent->name, name) == 0 && strcmp(absent->reason, CLUSTER_MODEL_GONE) != 0)
                status = (unsigned)repository_version_failed(name, absent->version, absent->reason, err);
        }
        o->config.clients->unlock(o->config.context);
        if (listed != wanted && !status)
            clock_sleep(NS_PER_MS);
    }
    return status;
}

/* The models of an ensemble's steps, and of theirs. */
struct dependents {
    uint32_t count;
    char names[DEPENDENTS_MAX][MODEL_NAME_MAX];
};

static void dependents_add(struct dependents *d, const struct model_index *models, const char *name) {
    for (uint32_t i = 0; i < models->count; i++) {
        const struct served_model *model = &models->models[models->listed[i]];
        const struct ensemble *e = strcmp(model->name, name) == 0 ? model->ensemble : NULL;
        for (uint32_t v = 0; e && v < e->step_count; v++) {
            uint32_t k = 0;
            while (k < d->count && strcmp(d->names[k], e->steps[v].model) != 0)
                k++;
            if (k < d->count || k == DEPENDENTS_MAX)
                continue;
            strcpy(d->names[d->count++], e->steps[v].model);
            dependents_add(d, models, e->steps[v].model);
        }
    }
}

/* Finds the dependents of a model that is listed. NULL without memory; the caller frees them by free(). */
static struct dependents *dependents_find(const struct isolated_orders *o, const char *name) {
    struct dependents *d = malloc(sizeof(*d));
    if (!d)
        return NULL;
    d->count = 0;
    dependents_add(d, o->config.clients->lock(o->config.context), name);
    o->config.clients->unlock(o->config.context);
    return d;
}

/* Whether an order in force loads the model. */
static bool is_loaded(const struct isolated_orders *o, const char *name) {
    for (const struct load *l = o->loads; l; l = l->next)
        if (!l->failed && strcmp(l->order.name, name) == 0)
            return true;
    return false;
}

/* The processes have loaded an ensemble's dependents with it: these stay when the ensemble is unloaded. */
static void dependents_load(struct isolated_orders *o, const char *name) {
    struct dependents *d = dependents_find(o, name);
    for (uint32_t i = 0; d && i < d->count; i++) {
        struct channel_order order = {.kind = ORDER_LOAD, .form = ORDER_JSON};
        memcpy(order.name, d->names[i], sizeof(order.name));
        struct load *load = is_loaded(o, order.name) ? NULL : load_new(&order, NULL);
        if (!load)
            continue;
        loads_remove(o, order.name); /* one that failed */
        loads_add(o, load);
        known_set(o, order.name, MODEL_READY, false, "");
    }
    free(d);
}

/* `brings`: the order brings files, or a configuration. */
static unsigned load_all(struct isolated_orders *o, const struct channel_order *order, const char *body, bool brings,
                         struct channel_answer *answer) {
    struct load *load = load_new(order, body);
    struct given *given = calloc(o->config.count, sizeof(*given));
    if (!load || !given) {
        free(load);
        free(given);
        return (unsigned)error_set(&answer->error, 503, "out of memory for the order");
    }
    bool serves = is_loaded(o, order->name);
    order_look(o, order->name);
    bool possible = model_name_is_valid(order->name) && order->name[0] != '.'; /* others are not listed */
    bool known = possible && (known_find(o, order->name) || brings);
    if (!serves && known) {
        known_set(o, order->name, MODEL_LOADING, false, "");
        known_show(o, true);
    }
    unsigned status = prepare_all(o, order, body, answer, given);
    if (status != 200) {
        prepared_order(o, ORDER_DISCARD, order->name, given);
        if (!serves && known)
            known_set(o, order->name, MODEL_UNAVAILABLE, true, answer->error.text);
        known_show(o, false);
        free(load);
        free(given);
        return status;
    }
    known_set(o, order->name, MODEL_READY, false, "");
    known_show(o, false);
    loads_remove(o, order->name);
    loads_add(o, load); /* a process that ends from now on loads the model when it runs again */
    prepared_order(o, ORDER_COMMIT, order->name, given);
    unsigned refused = list_await(o, order->name, true, answer->versions, answer->version_count, &answer->error);
    dependents_load(o, order->name);
    if (refused && !serves) {
        prepared_order(o, ORDER_UNLOAD, order->name, given);
        known_set(o, order->name, MODEL_UNAVAILABLE, true, answer->error.text);
        loads_remove(o, order->name);
    }
    known_show(o, false);
    free(given);
    return refused ? refused : status;
}

/* No process can fail to unload a model: one that ends does not load the model again. `dependents`: the order is for
 * the dependents, too. */
static unsigned unload_all(struct isolated_orders *o, const struct channel_order *order, const char *body,
                           bool dependents, struct channel_answer *answer) {
    struct dependents *d = dependents ? dependents_find(o, order->name) : NULL;
    struct given *given = calloc(o->config.count, sizeof(*given));
    if (!given || (dependents && !d)) {
        free(d);
        free(given);
        return (unsigned)error_set(&answer->error, 503, "out of memory for the order");
    }
    for (uint32_t i = 0; i <= (d ? d->count : 0); i++) {
        const char *name = i == 0 ? order->name : d->names[i - 1];
        struct known *k = known_find(o, name);
        if (k)
            k->drains |= k->shown.state == MODEL_READY;
        if (k) /* clients see it once the scheduler has let the model go */
            known_set(o, name, MODEL_UNAVAILABLE, false, "unloaded");
        loads_remove(o, name);
    }
    known_show(o, true);
    for (uint32_t n = 0; n < o->config.count; n++)
        given[n].to = o->channels[n] >= 0;
    order_give(o, given, order, body);
    free(given);
    free(d);
    known_show(o, false);
    list_await(o, order->name, false, NULL, 0, &answer->error);
    known_show(o, false);
    return is_set(&o->close) ? (unsigned)error_set(&answer->error, 503, SHUTS_DOWN) : 200;
}

/* ---- following the repository ---- */

/* A model that is to be loaded since its files have changed, or unloaded since they have gone, the next one in a circle
 * from *at on; NULL: there is none. Sets *stamp to that of its files. */
static struct known *known_changed(const struct isolated_orders *o, uint32_t *at, uint64_t *stamp) {
    for (uint32_t i = 0; i < o->known_count; i++, ++*at) {
        *at %= o->known_count;
        struct known *k = &o->known[*at];
        *stamp = k->found ? repository_stamp(&o->config.from, k->shown.name) : 0;
        if (k->found ? *stamp != k->tried : k->shown.state == MODEL_READY || k->shown.failed)
            return k;
    }
    return NULL;
}

/* Lets the processes have the models that the repository holds now. */
static void follow(struct isolated_orders *o) {
    struct known *k;
    uint64_t stamp;
    uint32_t at = 0;
    look(o);
    while (!is_set(&o->close) && (k = known_changed(o, &at, &stamp))) {
        struct channel_order order = {.kind = k->found ? ORDER_LOAD : ORDER_UNLOAD, .form = ORDER_JSON};
        struct channel_answer answer;
        memcpy(order.name, k->shown.name, sizeof(order.name));
        k->tried = stamp;
        unsigned status = order.kind == ORDER_LOAD ? load_all(o, &order, NULL, false, &answer)
                                                   : unload_all(o, &order, NULL, false, &answer);
        if (status == 503 && (k = known_get(o, order.name)))
            k->again = true; /* not a fault of the model */
        if (status != 200 && order.kind == ORDER_UNLOAD)
            break;
    }
    for (uint32_t i = 0; i < o->known_count; i++)
        if (o->known[i].again) {
            o->known[i].again = false;
            o->known[i].tried = 0;
        }
    known_show(o, true);
}

static void carry_out(struct isolated_orders *o, struct repository_order *order) {
    struct channel_order what = {.kind = order->kind, .form = order->form, .body_bytes = order->body_bytes};
    struct channel_answer answer = {.status = 503};
    struct model_override override;
    int status = order_read(order, &override, &order->error); /* with protobuf it says the name */
    bool brings = status == 0 && (override.config || override.file_count > 0);
    bool dependents = status == 0 && override.unload_dependents;
    model_override_free(&override);
    memcpy(what.name, order->name, sizeof(what.name));
    if (status == 0) {
        status = (int)(what.kind == ORDER_LOAD ? load_all(o, &what, order->body, brings, &answer)
                                               : unload_all(o, &what, order->body, dependents, &answer));
        order->error = answer.error;
    }
    order->status = (unsigned)status;
    order_return(order);
}

/* Looks whether each process has been told of the models of the start; if so, waits until they are served. */
static void ready_look(struct isolated_orders *o) {
    struct sy_error why;
    for (uint32_t n = 0; n < o->config.count; n++)
        if (o->lives[n] == 0)
            return;
    for (const struct load *load = o->loads; load; load = load->next)
        if (!load->failed)
            list_await(o, load->order.name, true, NULL, 0, &why);
    flag_set(&o->ready);
}

static void *orders_main(void *context) {
    struct isolated_orders *o = context;
    struct doorbell *bell = &o->config.desk->bell;
    thread_begin("orders", 0, THREAD_SHARED);
    while (!is_set(&o->stop)) {
        news_look(o);
        if (!is_set(&o->ready))
            ready_look(o);
        if (is_set(&o->close) && !is_set(&o->closed)) {
            desk_close(o->config.desk);
            flag_set(&o->closed);
        }
        for (struct repository_order *order = desk_take(o->config.desk), *next; order; order = next) {
            next = order_next(order);
            carry_out(o, order);
        }
        if (clock_now_ns() >= o->look_ns && is_set(&o->ready) && !is_set(&o->close)) {
            if (o->config.follows) {
                follow(o);
            } else {
                look(o);
                known_show(o, true);
            }
        }
        bool any = desk_pending(o->config.desk) || is_set(&o->stop) || (is_set(&o->close) && !is_set(&o->closed));
        doorbell_arm(bell);
        for (uint32_t n = 0; n < o->config.count; n++)
            any |= atomic_load_explicit(&o->config.channels[n], memory_order_relaxed) >= 0;
        any |= desk_pending(o->config.desk);
        if (any)
            doorbell_cancel(bell);
        else
            doorbell_sleep(bell, clock_now_ns() + POLL_MS * NS_PER_MS);
    }
    return NULL;
}

static void orders_free(struct isolated_orders *o) {
    for (uint32_t n = 0; o->channels && o->lives && n < o->config.count; n++)
        channel_close(o, n);
    for (struct load *load = o->loads, *next; load; load = next) {
        next = load->next;
        free(load);
    }
    free(o->known);
    free(o->lives);
    free(o->channels);
    free(o);
}

int isolated_orders_start(struct isolated_orders **orders, const struct isolated_orders_config *config,
                          struct sy_error *err) {
    struct isolated_orders *o = calloc(1, sizeof(*o));
    int rc = -ENOMEM;
    if (!o)
        return error_set(err, rc, "out of memory");
    o->config = *config;
    o->channels = malloc(config->count * sizeof(*o->channels));
    o->lives = calloc(config->count, sizeof(*o->lives));
    if (!o->channels || !o->lives)
        goto err_free;
    memset(o->channels, -1, config->count * sizeof(*o->channels));
    look(o);
    bool all = config->follows || (config->name_count == 1 && strcmp(config->names[0], "*") == 0);
    for (uint32_t i = 0, count = all ? o->known_count : config->name_count; i < count; i++) {
        struct channel_order order = {.kind = ORDER_LOAD, .form = ORDER_JSON};
        snprintf(order.name, sizeof(order.name), "%s", all ? o->known[i].shown.name : config->names[i]);
        struct load *load = load_new(&order, NULL);
        if (!load)
            goto err_free;
        loads_add(o, load);
        known_set(o, order.name, MODEL_READY, false, "");
        if (config->follows)
            o->known[i].tried = repository_stamp(&config->from, order.name);
    }
    rc = -pthread_create(&o->thread, NULL, orders_main, o);
    if (rc == 0) {
        *orders = o;
        return 0;
    }
err_free:
    orders_free(o);
    return error_set(err, rc, "no thread for orders: %s", strerror(-rc));
}

bool isolated_orders_ready(const struct isolated_orders *o) {
    return is_set(&o->ready);
}

void isolated_orders_close(struct isolated_orders *o) {
    if (!o)
        return;
    flag_set(&o->close);
    while (!is_set(&o->closed)) {
        doorbell_ring(&o->config.desk->bell);
        clock_sleep(NS_PER_MS);
    }
}

void isolated_orders_stop(struct isolated_orders *o) {
    if (!o)
        return;
    flag_set(&o->stop);
    doorbell_ring(&o->config.desk->bell);
    pthread_join(o->thread, NULL);
    orders_free(o);
}

/* ---- a child ---- */

struct isolated_obedience {
    struct repository_desk *desk;
    struct inbox inbox;
    pthread_t thread;
};

/* Hands an order in, and waits until it comes back. */
static void order_obey(struct isolated_obedience *d, const struct channel_order *what, const char *body,
                       struct channel_answer *answer) {
    struct repository_order order = {
        .home = &d->inbox, .kind = what->kind, .form = what->form, .body = body, .body_bytes = what->body_bytes};
    struct repository_order *back = NULL;
    memcpy(order.name, what->name, sizeof(order.name));
    answer->status = (unsigned)order_submit(d->desk, &order, &answer->error);
    while (answer->status == 0 && !(back = orders_returned(&d->inbox))) {
        struct pollfd woken = {.fd = d->inbox.wake_fd, .events = POLLIN};
        poll(&woken, 1, -1);
        inbox_woken(&d->inbox);
    }
    if (!back)
        return;
    answer->status = back->status;
    answer->error = back->error;
    answer->version_count = back->version_count;
    memcpy(answer->versions, back->versions, sizeof(answer->versions));
    free(back);
}

static void *obey_main(void *context) {
    struct isolated_obedience *d = context;
    struct channel_order order;
    int fd;
    thread_begin("obey", 0, THREAD_SHARED);
    while (channel_order_receive(CHILD_FD, &order, &fd)) {
        struct channel_answer answer = {.status = 503};
        void *body = order.body_bytes == 0 ? NULL
                     : fd >= 0             ? mmap(NULL, order.body_bytes, PROT_READ, MAP_PRIVATE, fd, 0)
                                           : MAP_FAILED; /* it came without its descriptor: there is none left */
        if (body == MAP_FAILED)
            error_set(&answer.error, 503, "out of memory for the order");
        else
            order_obey(d, &order, body, &answer);
        if (body && body != MAP_FAILED)
            munmap(body, order.body_bytes);
        if (fd >= 0)
            close(fd);
        if (channel_answer_send(CHILD_FD, &answer) < 0)
            break;
    }
    return NULL;
}

int isolated_obey(struct isolated_obedience **obedience, struct repository_desk *desk, struct sy_error *err) {
    struct isolated_obedience *d = calloc(1, sizeof(*d));
    int rc = d ? inbox_open(&d->inbox) : -ENOMEM;
    if (rc == 0) {
        d->desk = desk;
        rc = -pthread_create(&d->thread, NULL, obey_main, d);
        if (rc < 0)
            inbox_close(&d->inbox);
    }
    if (rc < 0) {
        free(d);
        return error_set(err, rc, "no thread for orders: %s", strerror(-rc));
    }
    *obedience = d;
    return 0;
}

void isolated_obedience_close(struct isolated_obedience *d) {
    (void)d;
    shutdown(CHILD_FD, SHUT_RDWR);
}

void isolated_obedience_end(struct isolated_obedience *d) {
    pthread_join(d->thread, NULL);
    inbox_close(&d->inbox);
    free(d);
}
