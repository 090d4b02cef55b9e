/* test_block_pool.c - blocks are recycled, and the pool goes with the last one, whatever thread holds it. */
/* Starts threads. */
#include "unit/test.h"

#include <pthread.h>

#include "back/engine/block_pool.h"

struct counts {
    _Atomic int discarded, finished;
};

static void finish(void *context) {
    struct counts *counts = context;
    counts->finished++;
}

static void discard(struct pooled_block *block) {
    struct counts *counts = block->values[0];
    counts->discarded++;
    block->values[0] = NULL;
}

TEST(blocks_come_back) {
    struct counts counts = {0};
    struct block_pool *pool = block_pool_new(1, discard, finish, &counts);
    struct pooled_block *first = block_pool_get(pool);
    first->values[0] = &counts;
    atomic_fetch_add(&first->block.references, 1);
    output_block_put(&first->block);
    assert_int_equal(counts.discarded, 0);
    output_block_put(&first->block);
    assert_int_equal(counts.discarded, 1);
    assert_ptr_equal(block_pool_get(pool), first);
    first->values[0] = &counts;
    block_pool_leave(pool);
    assert_int_equal(counts.finished, 0);
    output_block_put(&first->block);
    assert_int_equal(counts.discarded, 2);
    assert_int_equal(counts.finished, 1);
}

/* One thread takes blocks, two put them: under ThreadSanitizer this is the proof of the orders. */
#define BLOCKS 20000
struct put_job {
    struct pooled_block *_Atomic slots[64];
};

static void *putter(void *arg) {
    struct put_job *job = arg;
    for (int i = 0; i < BLOCKS; i++) {
        struct pooled_block *block;
        while (!(block = atomic_exchange(&job->slots[i % 64], NULL)))
            sched_yield();
        output_block_put(&block->block);
    }
    return NULL;
}

TEST(blocks_come_back_from_other_threads) {
    static struct put_job jobs[2];
    struct counts counts = {0};
    struct block_pool *pool = block_pool_new(1, discard, finish, &counts);
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        pthread_create(&threads[t], NULL, putter, &jobs[t]);
    for (int i = 0; i < BLOCKS; i++)
        for (int t = 0; t < 2; t++) {
            struct pooled_block *block = block_pool_get(pool), *none;
            block->values[0] = &counts;
            do {
                none = NULL;
            } while (!atomic_compare_exchange_strong(&jobs[t].slots[i % 64], &none, block) && !sched_yield());
        }
    block_pool_leave(pool);
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    assert_int_equal(counts.discarded, 2 * BLOCKS);
    assert_int_equal(counts.finished, 1);
}
