/* test_pulls.c - a backend pulls from frontends in other processes, by each transport: what executors see is what the
 * frontends have, and a frontend that does not deliver costs its own requests only. */
/* Starts threads. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cluster/peer/fabric.h"
#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

#define FRONTENDS_MAX 3
#define TRIES         20
#define TRY_NS        (8 * NS_PER_S) /* at most: a frontend that is stopped for so long is not taken for dead */
#define AWAIT_NS      (100 * NS_PER_MS)
#define PREPARE_NS    (20 * NS_PER_MS)
#define MEMORY        ((size_t)256 << 20)
#define MOST          1000000            /* bytes of an input: some parts of any transport */
#define LARGE         ((size_t)65 << 20) /* inputs of this size are never copied by the link thread */
#define LARGE_COUNT   1

enum inputs {
    INPUTS_THERE,
    INPUTS_PROMISED, /* prepared when their requests have been submitted */
    INPUTS_LARGE,    /* LARGE_COUNT of them, and as many small ones; then there are no more requests */
};

/* Frontends are forked before this process has threads. */
struct scene {
    struct members_scheduler scheduler;
    struct members_backend backend;
    uint32_t frontend_count;
    pid_t frontends[FRONTENDS_MAX];
    enum inputs inputs;                 /* of frontends' requests */
    _Atomic uint32_t left_out, awaited; /* requests whose inputs were not there, and those that came meanwhile */
    _Atomic uint32_t whole, halves;     /* batches of all frontends' requests, and of fewer */
    _Atomic uint32_t wrong;             /* batches with inputs that are wrong */
};

static struct scene scene;
static enum transport_kind transport;

static void choose(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(transport);
}

/* Waits for an input, but not for ever: its frontend may have given its request up. */
static void input_await(const struct wiring *wiring, uint64_t handle) {
    int64_t until_ns = clock_now_ns() + AWAIT_NS;
    while (members_unready(wiring, handle) && clock_now_ns() < until_ns)
        usleep(100);
}

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    struct scene *s = context;
    bool right = true;
    for (uint32_t i = 0; i < plan->request_count; i++) {
        bool unready = members_unready(wiring, plan->handles[i]);
        if (unready &&
            wiring_card(wiring, plan->handles[i])->inputs[0].bytes % 2) /* a batch that runs before takes until then */
            input_await(wiring, plan->handles[i]);
        if (unready && members_unready(wiring, plan->handles[i])) {
            atomic_fetch_add_explicit(&s->left_out, 1, memory_order_relaxed);
            continue;
        }
        atomic_fetch_add_explicit(&s->awaited, unready, memory_order_relaxed);
        struct tensor_view x = card_view(wiring_card(wiring, plan->handles[i]), 0, wiring->regions);
        bool filled = members_filled(x.data, x.bytes);
        right &= filled || card_has_ended(wiring_card(wiring, plan->handles[i]));
    }
    atomic_fetch_add_explicit(&s->wrong, !right, memory_order_relaxed); /* statistics, as the others */
    atomic_fetch_add_explicit(plan->request_count == s->frontend_count ? &s->whole : &s->halves, 1,
                              memory_order_relaxed);
}

/* Inputs of an even length are prepared only once a batch has run without them; the others a while after they were
 * promised: for some a batch waits by then. */
static void inputs_prepare(struct members_frontend *f) {
    int64_t now_ns = clock_now_ns();
    for (struct members_request *r = f->requests; r < f->requests + MEMBERS_AWAY; r++) {
        bool due = r->input.bytes % 2 ? now_ns - r->request.arrival_ns > PREPARE_NS : r->request.left_out > 0;
        if (r->away && r->request.preparing && due)
            members_prepared(f, r, true);
    }
    port_flush(f->port);
}

/* Of many sizes, up to MOST, which a few requests already come near to. */
static size_t bytes_of(uint64_t request) {
    if (scene.inputs == INPUTS_LARGE)
        return request % 2 ? LARGE : 1000;
    return 1 + request * 7919 * 31 % MOST;
}

static void frontend_run(int scheduler_port) {
    struct members_frontend *f = calloc(1, sizeof(*f));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    members_frontend_open(f, scheduler_port, MEMBERS_BEAT_NS, MEMORY, NULL);
    const bool promised = scene.inputs == INPUTS_PROMISED;
    const uint32_t away_most = promised ? 2 : 16; /* with more, all are prepared before their turn comes */
    const uint64_t requests = scene.inputs == INPUTS_LARGE ? 2 * LARGE_COUNT : UINT64_MAX;
    for (;;) {
        while (f->fill < requests && f->submitted - f->back < away_most &&
               members_submit_as(f, bytes_of(f->fill), promised))
            f->fill++;
        port_flush(f->port);
        members_wait(f, promised ? 1 : 100);
        members_take(f);
        inputs_prepare(f);
    }
}

static bool fabric_is_here(void) {
    static const struct fabric_events none;
    struct fabric *fabric;
    struct sy_error err;
    if (fabric_open(&fabric, "tcp", &none, NULL, &err) < 0) {
        print_message("%s\n", err.text);
        return false;
    }
    fabric_close(fabric);
    return true;
}

static void scene_open(enum transport_kind kind, uint32_t frontends, enum inputs inputs) {
    if (kind == TRANSPORT_FABRIC && !fabric_is_here())
        skip();
    transport = kind;
    members_fabric = kind == TRANSPORT_FABRIC ? "tcp" : NULL;
    memset(&scene, 0, sizeof(scene));
    scene.inputs = inputs;
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    scene.scheduler.frontends = scene.frontend_count = frontends;
    for (uint32_t i = 0; i < frontends; i++)
        if ((scene.frontends[i] = fork()) == 0)
            frontend_run(scene.scheduler.port);
    scene.backend.look = look;
    scene.backend.context = &scene;
    members_scheduler_start(&scene.scheduler);
    members_backend_open(&scene.backend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, choose);
}

static void scene_close(void) {
    for (uint32_t i = 0; i < scene.frontend_count; i++) {
        kill(scene.frontends[i], SIGKILL);
        waitpid(scene.frontends[i], NULL, 0);
    }
    members_backend_close(&scene.backend);
    members_scheduler_stop(&scene.scheduler);
    assert_int_equal(scene.wrong, 0);
}

/* Waits for more batches of a kind: true; or for so long. */
static bool batches_come(_Atomic uint32_t *count, uint32_t more, int64_t most_ns) {
    uint32_t wanted = atomic_load_explicit(count, memory_order_relaxed) + more;
    int64_t until_ns = clock_now_ns() + most_ns;
    while (atomic_load_explicit(count, memory_order_relaxed) < wanted) {
        if (clock_now_ns() > until_ns)
            return false;
        usleep(1000);
    }
    return true;
}

static void batches(_Atomic uint32_t *count, uint32_t more) {
    if (!batches_come(count, more, MEMBERS_WAIT_NS))
        fail_msg("%u whole batches, %u others, %u requests left out, %u awaited", scene.whole, scene.halves,
                 scene.left_out, scene.awaited);
}

static void executors_see_what_frontends_have(void **state) {
    scene_open(*(enum transport_kind *)*state, 2, INPUTS_THERE);
    batches(&scene.whole, 100);
    scene_close();
}

/* Bytes that the backend's link has received from the frontends, as last reported. */
static uint64_t link_bytes(void) {
    struct link_report *report = backend_link_report(scene.backend.link);
    uint64_t bytes = 0;
    pthread_mutex_lock(&report->lock);
    for (uint32_t i = 0; i < report->count; i++)
        if (report->rows[i].role == ROLE_FRONTEND)
            bytes += report->rows[i].bytes_in;
    pthread_mutex_unlock(&report->lock);
    return bytes;
}

/* Waits for so many; true: they have come. */
static bool link_bytes_come(uint64_t bytes) {
    int64_t until_ns = clock_now_ns() + MEMBERS_WAIT_NS;
    while (link_bytes() < bytes && clock_now_ns() < until_ns)
        usleep(1000);
    return link_bytes() >= bytes;
}

/* A copy of hundreds of megabytes would keep the link thread from its heartbeats. */
static void large_inputs_of_this_host_come_over_the_link(void **state) {
    (void)state;
    scene_open(TRANSPORT_SHM, 1, INPUTS_LARGE);
    batches(&scene.whole, 2 * LARGE_COUNT);
    assert_true(link_bytes_come(LARGE_COUNT * LARGE));
    scene_close();
}

/* Smaller ones are copied. */
static void other_inputs_of_this_host_do_not(void **state) {
    (void)state;
    scene_open(TRANSPORT_SHM, 1, INPUTS_THERE);
    batches(&scene.whole, 120);
    assert_true(link_bytes_come(1));
    assert_true(link_bytes() < 20 * MOST); /* of 120 requests of half of MOST */
    scene_close();
}

/* Plans come before the inputs: some batches begin without them, some find them in time; none reads what is not there.
 * Whoever is left out comes again. */
static void inputs_that_are_prepared_come_when_they_are_there(void **state) {
    scene_open(*(enum transport_kind *)*state, 2, INPUTS_PROMISED);
    batches(&scene.left_out, 10);
    batches(&scene.awaited, 10);
    batches(&scene.whole, 50);
    scene_close();
}

/* A frontend dies while backends wait for its inputs. */
static void who_dies_amid_preparations_costs_its_own_requests(void **state) {
    scene_open(*(enum transport_kind *)*state, 2, INPUTS_PROMISED);
    batches(&scene.awaited, 5);
    kill(scene.frontends[1], SIGKILL);
    atomic_store_explicit(&scene.scheduler.frontends, 1, memory_order_relaxed); /* a lone number */
    batches(&scene.awaited, 5);
    batches(&scene.halves, 20);
    scene_close();
}

/* What is read of memory needs nobody's help, so by shm the batches stay whole, if the frontend that stops has left
 * requests for as many. */
static void who_stops_costs_its_own_requests(void **state) {
    enum transport_kind kind = *(enum transport_kind *)*state;
    int64_t try_ns = NS_PER_S;
    bool came = false;
    scene_open(kind, 2, INPUTS_THERE);
    for (int i = 0; i < TRIES && !came; i++) {
        batches(&scene.whole, 20);
        kill(scene.frontends[0], SIGSTOP);
        came = batches_come(kind == TRANSPORT_SHM ? &scene.whole : &scene.halves, 3, try_ns);
        kill(scene.frontends[0], SIGCONT);
        try_ns = 2 * try_ns < TRY_NS ? 2 * try_ns : TRY_NS;
    }
    assert_true(came);
    batches(&scene.whole, 20);
    scene_close();
}

/* It dies in the middle of what is pulled from it; from the others it goes on. */
static void who_dies_costs_its_own_requests(void **state) {
    scene_open(*(enum transport_kind *)*state, FRONTENDS_MAX, INPUTS_THERE);
    batches(&scene.whole, 20);
    for (uint32_t left = FRONTENDS_MAX - 1; left > 0; left--) {
        kill(scene.frontends[left], SIGKILL);
        atomic_store_explicit(&scene.scheduler.frontends, left, memory_order_relaxed); /* a lone number */
        batches(&scene.halves, 40);
    }
    scene_close();
}

int main(void) {
    static enum transport_kind shm = TRANSPORT_SHM, fabric = TRANSPORT_FABRIC, tcp = TRANSPORT_TCP;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(executors_see_what_frontends_have, &shm),
        cmocka_unit_test_prestate(executors_see_what_frontends_have, &fabric),
        cmocka_unit_test_prestate(executors_see_what_frontends_have, &tcp),
        cmocka_unit_test(large_inputs_of_this_host_come_over_the_link),
        cmocka_unit_test(other_inputs_of_this_host_do_not),
        cmocka_unit_test_prestate(inputs_that_are_prepared_come_when_they_are_there, &shm),
        cmocka_unit_test_prestate(inputs_that_are_prepared_come_when_they_are_there, &fabric),
        cmocka_unit_test_prestate(inputs_that_are_prepared_come_when_they_are_there, &tcp),
        cmocka_unit_test_prestate(who_dies_amid_preparations_costs_its_own_requests, &shm),
        cmocka_unit_test_prestate(who_dies_amid_preparations_costs_its_own_requests, &fabric),
        cmocka_unit_test_prestate(who_dies_amid_preparations_costs_its_own_requests, &tcp),
        cmocka_unit_test_prestate(who_stops_costs_its_own_requests, &shm),
        cmocka_unit_test_prestate(who_stops_costs_its_own_requests, &fabric),
        cmocka_unit_test_prestate(who_stops_costs_its_own_requests, &tcp),
        cmocka_unit_test_prestate(who_dies_costs_its_own_requests, &shm),
        cmocka_unit_test_prestate(who_dies_costs_its_own_requests, &fabric),
        cmocka_unit_test_prestate(who_dies_costs_its_own_requests, &tcp),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
