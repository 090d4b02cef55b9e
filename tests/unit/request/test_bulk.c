/* test_bulk.c - jobs there and back; who overtakes whom. */
/* Starts threads. */
#include "unit/cmocka_all.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "request/bulk.h"
#include "request/inbox.h"
#include "request/slab.h"

#define JOBS 1000

struct work {
    struct bulk_job job;
    _Atomic bool *gate; /* waits for it; NULL: does not */
    int ran;
};

static _Atomic int running;

static void work_run(struct bulk_job *job, struct bulk_tools *tools) {
    struct work *work = container_of(job, struct work, job);
    (void)tools;
    atomic_fetch_add(&running, 1);
    while (work->gate && !atomic_load(work->gate))
        sched_yield();
    work->ran++;
}

static void loop_init(struct inbox *loop) {
    *loop = (struct inbox){.wake_fd = eventfd(0, 0)};
}

static void all_come_back_once(void **state) {
    static struct work works[JOBS];
    static struct inbox loops[2];
    struct bulk *bulk;
    (void)state;
    assert_int_equal(bulk_create(&bulk, 3, 1 << 20, false, false, 0, NULL), 0);
    loop_init(&loops[0]);
    loop_init(&loops[1]);
    for (int i = 0; i < JOBS; i++) {
        works[i] = (struct work){.job = {.home = &loops[i % 2], .run = work_run, .bytes = (size_t)i % 7 * 1000}};
        bulk_submit(bulk, &works[i].job);
    }
    for (int back = 0; back < JOBS;)
        for (int l = 0; l < 2; l++) {
            for (struct bulk_job *job = bulk_returned(&loops[l]); job; job = bulk_job_next(job), back++)
                assert_ptr_equal(job->home, &loops[l]);
            sched_yield();
        }
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(works[i].ran, 1);
    bulk_destroy(bulk);
    close(loops[0].wake_fd);
    close(loops[1].wake_fd);
}

/* Ten seconds' worth of work, submitted first, behind a small one. */
static void short_ones_overtake(void **state) {
    struct inbox loop;
    _Atomic bool gate = false;
    struct work first = {.job = {.home = &loop, .run = work_run}, .gate = &gate};
    struct work large = {.job = {.home = &loop, .run = work_run, .bytes = (size_t)1 << 30}};
    struct work small = {.job = {.home = &loop, .run = work_run, .bytes = 1000}};
    struct bulk *bulk;
    int count = 0;
    (void)state;
    assert_int_equal(bulk_create(&bulk, 1, 1 << 20, false, false, 0, NULL), 0);
    loop_init(&loop);
    atomic_store(&running, 0);
    bulk_submit(bulk, &first.job);
    while (atomic_load(&running) == 0)
        sched_yield();
    bulk_submit(bulk, &large.job);
    bulk_submit(bulk, &small.job);
    atomic_store(&gate, true);
    const struct bulk_job *order[3];
    while (count < 3)
        for (struct bulk_job *job = bulk_returned(&loop); job; job = bulk_job_next(job))
            order[count++] = job;
    assert_ptr_equal(order[0], &first.job);
    assert_ptr_equal(order[1], &small.job);
    assert_ptr_equal(order[2], &large.job);
    bulk_destroy(bulk);
    close(loop.wake_fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_back_once),
        cmocka_unit_test(short_ones_overtake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
