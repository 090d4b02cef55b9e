/* test_isolated_orders.c - orders to processes that a test plays, each with the other end of its channel. */
/* Starts threads. */
#include "server/process/isolated_orders.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/bulk/inbox.h"
#include "front/request/repository_order.h"
#include "model/repository/model_index.h"
#include "server/models/repository_control.h"
#include "server/process/isolated_channel.h"
#include "unit/test.h"

#define PROCESSES 2
#define MODELS    8

struct world;

/* A process, as the orders thread sees it. */
struct process {
    struct world *world;
    pthread_t thread;
    int fd;
    char told[512]; /* orders that it got, in order: "LOAD a, " */
};

struct world {
    pthread_mutex_t lock;
    struct process processes[16]; /* [count] all that ever ran */
    uint32_t count;
    struct process *runs[PROCESSES]; /* process of each accelerator */
    isolated_channel channels[PROCESSES];
    struct repository_desk *desk;
    struct inbox home;
    struct isolated_orders *orders;
    char folder[64];
    /* what happens next to an order to prepare a model */
    uint32_t ends;    /* so many times the process of accelerator 1 ends at it */
    bool fails;       /* accelerator 1 refuses it */
    uint64_t version; /* hash of what is prepared */
    /* what clients see */
    struct served_model models[MODELS];
    uint64_t hashes[MODELS];
    uint32_t listed[MODELS];
    struct model_absent known[MODELS];
    uint32_t known_count, known_times; /* times that they were told */
    struct model_index index;
};

static const char *const kinds[] = {
    [ORDER_LOAD] = "LOAD",       [ORDER_UNLOAD] = "UNLOAD", [ORDER_BEGIN] = "BEGIN",
    [ORDER_PREPARE] = "PREPARE", [ORDER_COMMIT] = "COMMIT", [ORDER_DISCARD] = "DISCARD"};

/* ---- clients ---- */

static void list(struct world *w, const char *name, uint64_t hash) {
    uint32_t i = 0;
    while (i < w->index.count && strcmp(w->models[w->listed[i]].name, name) != 0)
        i++;
    if (i == w->index.count && hash)
        w->listed[w->index.count++] = i; /* places are never free again here */
    if (hash) {
        strcpy(w->models[i].name, name);
        w->hashes[i] = hash;
    } else if (i < w->index.count) {
        w->models[i].name[0] = '\0';
    }
}

static const struct model_index *clients_lock(void *world) {
    struct world *w = world;
    pthread_mutex_lock(&w->lock);
    return &w->index;
}

static void clients_unlock(void *world) {
    struct world *w = world;
    pthread_mutex_unlock(&w->lock);
}

static uint64_t clients_hash(void *world, uint32_t place) {
    const struct world *w = world;
    return w->hashes[place];
}

static void clients_know(void *world, const struct model_absent *known, uint32_t count, bool at_once) {
    struct world *w = world;
    pthread_mutex_lock(&w->lock);
    assert_in_range(count, 0, MODELS);
    memcpy(w->known, known, count * sizeof(*known));
    w->known_count = count;
    w->known_times++;
    pthread_mutex_unlock(&w->lock);
}

static const struct isolated_clients clients = {clients_lock, clients_unlock, clients_hash, clients_know};

/* The state in which clients see a model; -1: they do not. */
static int state_of(struct world *w, const char *name) {
    int state = -1;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->known_count; i++)
        if (strcmp(w->known[i].name, name) == 0)
            state = (int)w->known[i].state;
    pthread_mutex_unlock(&w->lock);
    return state;
}

/* ---- processes ---- */

static void process_start(struct world *w, uint32_t accelerator);

static void *process_main(void *process) {
    struct process *p = process;
    struct world *w = p->world;
    struct channel_order order;
    int body;
    while (channel_order_receive(p->fd, &order, &body)) {
        struct channel_answer answer = {.status = 200, .version_count = order.kind == ORDER_PREPARE};
        if (body >= 0)
            close(body);
        pthread_mutex_lock(&w->lock);
        bool second = p == w->runs[1] && order.kind == ORDER_PREPARE, ends = second && w->ends > 0;
        size_t used = strlen(p->told);
        snprintf(p->told + used, sizeof(p->told) - used, "%s%s%s, ", kinds[order.kind], *order.name ? " " : "",
                 order.name);
        answer.versions[0] = w->version;
        if (second && w->fails)
            answer.status = (unsigned)error_set(&answer.error, 400, "accelerator 1 does not like it");
        w->ends -= ends;
        if (order.kind == ORDER_COMMIT || order.kind == ORDER_LOAD)
            list(w, order.name, w->version);
        else if (order.kind == ORDER_UNLOAD)
            list(w, order.name, 0);
        pthread_mutex_unlock(&w->lock);
        if (ends) {
            process_start(w, 1);
            break;
        }
        assert_int_equal(send(p->fd, &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
    }
    close(p->fd);
    return NULL;
}

static void process_start(struct world *w, uint32_t accelerator) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pthread_mutex_lock(&w->lock);
    struct process *p = w->runs[accelerator] = &w->processes[w->count++];
    pthread_mutex_unlock(&w->lock);
    p->world = w;
    p->fd = ends[1];
    assert_int_equal(pthread_create(&p->thread, NULL, process_main, p), 0);
    int before = atomic_exchange_explicit(&w->channels[accelerator], ends[0], memory_order_acq_rel);
    if (before >= 0)
        close(before);
    doorbell_ring(&w->desk->bell);
}

/* Waits until the process of an accelerator has been told just this since the last call. */
static void told(struct world *w, uint32_t accelerator, const char *all) {
    for (bool is = false; !is; usleep(1000)) {
        pthread_mutex_lock(&w->lock);
        struct process *p = w->runs[accelerator];
        is = strcmp(p->told, all) == 0;
        if (!is && strncmp(p->told, all, strlen(p->told)) != 0)
            fail_msg("told \"%s\" instead of \"%s\"", p->told, all);
        if (is)
            p->told[0] = '\0';
        pthread_mutex_unlock(&w->lock);
    }
}

/* ---- orders ---- */

static void give(struct world *w, enum order_kind kind, const char *name) {
    struct repository_order order = {.home = &w->home, .kind = kind, .form = ORDER_JSON, .body = "{}", .body_bytes = 2};
    struct sy_error err;
    strcpy(order.name, name);
    assert_int_equal(order_submit(w->desk, &order, &err), 0);
}

static unsigned await(struct world *w, char sentence[512]) {
    struct repository_order *back;
    while (!(back = orders_returned(&w->home)))
        usleep(1000);
    unsigned status = back->status;
    snprintf(sentence, 512, "%s", back->error.text);
    free(back);
    return status;
}

static unsigned load(struct world *w, const char *name, uint64_t version, char sentence[512]) {
    pthread_mutex_lock(&w->lock);
    w->version = version;
    pthread_mutex_unlock(&w->lock);
    give(w, ORDER_LOAD, name);
    return await(w, sentence);
}

static uint64_t hash_of(struct world *w, const char *name) {
    uint64_t hash = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->index.count; i++)
        hash = strcmp(w->models[i].name, name) == 0 ? w->hashes[i] : hash;
    pthread_mutex_unlock(&w->lock);
    return hash;
}

static int set_up(void **state) {
    struct world *w = *state = calloc(1, sizeof(*w));
    struct sy_error err;
    assert_non_null(w);
    pthread_mutex_init(&w->lock, NULL);
    w->desk = repository_desk_create();
    w->home.wake_fd = eventfd(0, EFD_NONBLOCK);
    w->index = (struct model_index){.models = w->models, .listed = w->listed};
    strcpy(w->folder, "/tmp/orders-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    static const char *paths[1];
    paths[0] = w->folder;
    for (uint32_t n = 0; n < PROCESSES; n++)
        atomic_init(&w->channels[n], -1);
    const struct isolated_orders_config config = {.desk = w->desk,
                                                  .channels = w->channels,
                                                  .count = PROCESSES,
                                                  .from = {.paths = paths, .count = 1},
                                                  .look_ns = NS_PER_MS,
                                                  .clients = &clients,
                                                  .context = w};
    assert_int_equal(isolated_orders_start(&w->orders, &config, &err), 0);
    for (uint32_t n = 0; n < PROCESSES; n++) {
        process_start(w, n);
        told(w, n, "BEGIN, ");
    }
    while (!isolated_orders_ready(w->orders))
        usleep(1000);
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;
    isolated_orders_close(w->orders);
    isolated_orders_stop(w->orders);
    for (uint32_t i = 0; i < w->count; i++)
        pthread_join(w->processes[i].thread, NULL);
    close(w->home.wake_fd);
    rmdir(w->folder);
    free(w->desk);
    free(w);
    return 0;
}

TEST_WITH(a_model_is_served_once_all_have_prepared_it, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    assert_int_equal(load(w, "a", 1, said), 200);
    told(w, 0, "PREPARE a, COMMIT a, ");
    told(w, 1, "PREPARE a, COMMIT a, ");
    assert_int_equal(hash_of(w, "a"), 1);
    assert_int_equal(state_of(w, "a"), MODEL_READY);
    assert_int_equal(load(w, "a", 2, said), 200);
    assert_int_equal(hash_of(w, "a"), 2);
}

/* Thousands of models are not copied for each order. */
TEST_WITH(clients_are_told_what_is_known_when_it_changes, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    assert_int_equal(load(w, "a", 1, said), 200);
    assert_int_equal(load(w, "b", 1, said), 200);
    pthread_mutex_lock(&w->lock);
    uint32_t times = w->known_times;
    pthread_mutex_unlock(&w->lock);
    assert_int_equal(load(w, "a", 2, said), 200);
    assert_int_equal(load(w, "b", 2, said), 200);
    pthread_mutex_lock(&w->lock);
    assert_int_equal(w->known_times, times);
    pthread_mutex_unlock(&w->lock);
    give(w, ORDER_UNLOAD, "a");
    assert_int_equal(await(w, said), 200);
    assert_int_equal(load(w, "c", 3, said), 200);
    assert_int_equal(state_of(w, "a"), -1);
    assert_int_equal(state_of(w, "b"), MODEL_READY);
    assert_int_equal(state_of(w, "c"), MODEL_READY);
}

TEST_WITH(what_one_cannot_load_none_serves, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    assert_int_equal(load(w, "a", 1, said), 200);
    told(w, 0, "PREPARE a, COMMIT a, ");
    told(w, 1, "PREPARE a, COMMIT a, ");
    w->fails = true;
    assert_int_equal(load(w, "a", 2, said), 400);
    assert_string_equal(said, "accelerator 1 does not like it");
    told(w, 0, "PREPARE a, DISCARD a, ");
    told(w, 1, "PREPARE a, ");
    assert_int_equal(hash_of(w, "a"), 1);
    assert_int_equal(state_of(w, "a"), MODEL_READY);
    assert_int_equal(load(w, "b", 3, said), 400);
    told(w, 0, "PREPARE b, DISCARD b, ");
    assert_int_equal(hash_of(w, "b"), 0);
    w->version = 1;
    process_start(w, 0);
    told(w, 0, "LOAD a, BEGIN, ");
}

TEST_WITH(a_process_that_ends_tries_again, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    assert_int_equal(load(w, "a", 1, said), 200);
    w->ends = 1;
    assert_int_equal(load(w, "b", 2, said), 200);
    told(w, 0, "PREPARE a, COMMIT a, PREPARE b, COMMIT b, ");
    told(w, 1, "LOAD a, BEGIN, PREPARE b, COMMIT b, ");
    w->ends = 2;
    assert_int_equal(load(w, "c", 3, said), 500);
    assert_string_equal(said, "load failed for model 'c': the process that loaded it ended");
    told(w, 0, "PREPARE c, DISCARD c, ");
    told(w, 1, "LOAD a, LOAD b, BEGIN, ");
    assert_int_equal(hash_of(w, "c"), 0);
}

TEST_WITH(what_is_unloaded_is_not_loaded_again, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    assert_int_equal(load(w, "a", 1, said), 200);
    assert_int_equal(load(w, "b", 2, said), 200);
    told(w, 0, "PREPARE a, COMMIT a, PREPARE b, COMMIT b, ");
    give(w, ORDER_UNLOAD, "a");
    assert_int_equal(await(w, said), 200);
    told(w, 0, "UNLOAD a, ");
    assert_int_equal(hash_of(w, "a"), 0);
    process_start(w, 0);
    told(w, 0, "LOAD b, BEGIN, ");
}

/* The repository does not have it. */
TEST_WITH(a_model_is_known_until_its_last_request_is_answered, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    assert_int_equal(load(w, "a", 1, said), 200);
    struct model_absent drains = {.name = "a", .state = MODEL_UNLOADING};
    pthread_mutex_lock(&w->lock);
    w->index.absent = &drains;
    w->index.absent_count = 1;
    pthread_mutex_unlock(&w->lock);
    give(w, ORDER_UNLOAD, "a");
    assert_int_equal(await(w, said), 200);
    for (int i = 0; i < 20; i++, usleep(1000))                 /* it looks every millisecond */
        assert_int_equal(state_of(w, "a"), MODEL_UNAVAILABLE); /* clients see that it is unloading */
    pthread_mutex_lock(&w->lock);
    w->index.absent_count = 0;
    pthread_mutex_unlock(&w->lock);
    while (state_of(w, "a") >= 0)
        usleep(1000);
}

TEST_WITH(orders_to_a_server_that_ends_are_refused, set_up, tear_down) {
    struct world *w = *state;
    char said[512];
    isolated_orders_close(w->orders);
    give(w, ORDER_LOAD, "a");
    assert_int_equal(await(w, said), 503);
    assert_string_equal(said, "the server is shutting down");
}
