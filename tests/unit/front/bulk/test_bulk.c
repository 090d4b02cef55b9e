/* test_bulk.c - jobs there and back; who goes on while others are in their middle. */
/* Starts threads. */
#include "unit/test.h"

#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/system/yield.h"
#include "front/bulk/bulk.h"
#include "front/bulk/inbox.h"

#define JOBS  1000
#define LARGE 10

struct work {
    struct bulk_job job;
    _Atomic bool *gate; /* waits for it; NULL: does not */
    int ran;
};

static _Atomic int running;

static void work_run(struct bulk_job *job, struct bulk_tools *tools) {
    struct work *work = container_of(job, struct work, job);
    atomic_fetch_add(&running, 1);
    while (work->gate && !atomic_load(work->gate))
        yield_point();
    work->ran++;
}

static void loop_init(struct inbox *loop) {
    *loop = (struct inbox){.wake_fd = eventfd(0, 0)};
}

TEST(all_come_back_once) {
    static struct work works[JOBS];
    static struct inbox loops[2];
    struct bulk *bulk;
    assert_int_equal(bulk_create(&bulk, 3, 1 << 20, false, false, 0, NULL), 0);
    loop_init(&loops[0]);
    loop_init(&loops[1]);
    for (int i = 0; i < JOBS; i++) {
        works[i] = (struct work){.job = {.home = &loops[i % 2], .run = work_run, .client = (uint32_t)i % 7}};
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

static int threads_count(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Large jobs, more than threads, do not end before the small one has. The threads that came for them end, too. */
TEST(the_small_ends_in_the_middle_of_the_large) {
    struct inbox loop;
    struct work larges[LARGE], small = {.job = {.home = &loop, .run = work_run, .client = 2}};
    struct bulk *bulk;
    int count = 0;
    assert_int_equal(bulk_create(&bulk, 2, 1 << 20, false, false, 0, NULL), 0);
    int threads = threads_count();
    loop_init(&loop);
    atomic_store(&running, 0);
    _Atomic bool gate = false;
    for (int i = 0; i < LARGE; i++) {
        larges[i] = (struct work){.job = {.home = &loop, .run = work_run, .client = i % 2}, .gate = &gate};
        bulk_submit(bulk, &larges[i].job);
    }
    while (atomic_load(&running) < LARGE) /* all are in their middle, though only two run */
        sched_yield();
    bulk_submit(bulk, &small.job);
    struct bulk_job *job;
    while (!(job = bulk_returned(&loop)))
        sched_yield();
    assert_ptr_equal(job, &small.job);
    assert_null(bulk_job_next(job));
    atomic_store(&gate, true);
    while (count < LARGE)
        for (job = bulk_returned(&loop); job; job = bulk_job_next(job))
            count++;
    for (int i = 0; i < LARGE; i++)
        assert_int_equal(larges[i].ran, 1);
    assert_true(threads_count() > threads);
    while (threads_count() > threads) /* 10 s */
        usleep(10 * 1000);
    atomic_store(&running, 0);
    atomic_store(&gate, false);
    for (int i = 0; i < LARGE; i++)
        bulk_submit(bulk, &larges[i].job);
    while (atomic_load(&running) < LARGE)
        sched_yield();
    atomic_store(&gate, true);
    for (count = 0; count < LARGE;)
        for (job = bulk_returned(&loop); job; job = bulk_job_next(job))
            count++;
    bulk_destroy(bulk);
    close(loop.wake_fd);
}

TEST(clients_are_addresses) {
    static const uint8_t one[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
                         net[16] = {0x20, 1, [7] = 1, [15] = 1}, same_net[16] = {0x20, 1, [7] = 1, [15] = 9};
    struct bulk *bulk;
    uint32_t others = 0;
    assert_int_equal(bulk_create(&bulk, 1, 1 << 20, false, false, 0, NULL), 0);
    assert_int_equal(bulk_client(bulk, one), bulk_client(bulk, one));
    assert_int_equal(bulk_client(bulk, net), bulk_client(bulk, same_net));
    for (int i = 2; i < 100; i++) {
        uint8_t other[16];
        memcpy(other, one, sizeof(other));
        other[15] = (uint8_t)i;
        others += bulk_client(bulk, other) != bulk_client(bulk, one);
    }
    assert_true(others > 90); /* of 98, each shares its number with one in 256 */
    bulk_destroy(bulk);
}
