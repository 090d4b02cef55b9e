/* candidate_board.c - seqlocks over relaxed atomic words, so that a torn read is detected and never undefined. */
#include "sched/threads/candidate_board.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATE_WORDS (sizeof(struct candidate) / sizeof(uint64_t))

struct slot {
    _Atomic uint64_t version; /* number of writes, times 2; odd: the slot is being written */
    _Atomic int64_t origin_ns;
    _Atomic uint64_t words[]; /* [types][CANDIDATE_WORDS] */
};
_Static_assert(sizeof(struct candidate) % sizeof(uint64_t) == 0, "candidates are copied by words");

static size_t lines(size_t bytes) {
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static void *zeroed(size_t bytes) {
    void *memory = aligned_alloc(CACHE_LINE, lines(bytes ? bytes : 1));
    if (memory)
        memset(memory, 0, lines(bytes ? bytes : 1));
    return memory;
}

void candidate_board_free(struct candidate_board *board) {
    free(board->slots);
    free((void *)board->news);
}

static struct slot *slot_of(const struct candidate_board *board, struct variant_id variant) {
    return (struct slot *)(void *)(board->slots + variant.n * board->slot_bytes);
}

void candidate_board_write(struct candidate_board *board, struct variant_id variant, const struct candidate *candidates,
                           int64_t origin_ns) {
    struct slot *slot = slot_of(board, variant);
    const char *from = (const char *)candidates;
    uint64_t version = atomic_load_explicit(&slot->version, memory_order_relaxed); /* own word */

    atomic_store_explicit(&slot->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* with the fence in candidate_board_read(): odd before the words */
    atomic_store_explicit(&slot->origin_ns, origin_ns, memory_order_relaxed);
    for (uint32_t i = 0; i < board->types * CANDIDATE_WORDS; i++) {
        uint64_t word;
        memcpy(&word, from + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&slot->words[i], word, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->version, version + 2, memory_order_release); /* with candidate_board_read() */
}

void candidate_board_prefetch(const struct candidate_board *board, struct variant_id variant) {
    __builtin_prefetch(slot_of(board, variant), 1);
}

int candidate_board_init(struct candidate_board *board) {
    board->slot_bytes = lines(sizeof(struct slot) + board->types * sizeof(struct candidate));
    board->words = (uint32_t)(lines((board->models + 63) / 64 * sizeof(uint64_t)) / sizeof(uint64_t));
    board->slots = zeroed(board->models * board->slot_bytes);
    board->news = zeroed((size_t)board->lanes * board->words * sizeof(*board->news));
    if (!board->slots || !board->news)
        return -ENOMEM;
    struct candidate none[ACCELERATOR_TYPES_MAX];
    for (uint32_t t = 0; t < ACCELERATOR_TYPES_MAX; t++)
        none[t] = candidate_none();
    for (uint32_t m = 0; m < board->models; m++)
        candidate_board_write(board, (struct variant_id){m}, none, 0);
    return 0;
}

void candidate_board_announce(struct candidate_board *board, uint32_t lane, uint32_t word, uint64_t models) {
    _Atomic uint64_t *news = &board->news[(size_t)lane * board->words + word];
    atomic_fetch_or_explicit(news, models, memory_order_release); /* with candidate_board_take() */
}

uint64_t candidate_board_take(struct candidate_board *board, uint32_t lane, uint32_t word) {
    _Atomic uint64_t *news = &board->news[(size_t)lane * board->words + word];
    if (!atomic_load_explicit(news, memory_order_relaxed)) /* the usual case costs no locked operation */
        return 0;
    return atomic_exchange_explicit(news, 0, memory_order_acquire); /* with candidate_board_announce() */
}

bool candidate_board_pending(const struct candidate_board *board, uint32_t lane) {
    const _Atomic uint64_t *news = &board->news[(size_t)lane * board->words];
    for (uint32_t i = 0; i < board->words; i++)
        if (atomic_load_explicit(&news[i], memory_order_relaxed)) /* looked at again by take */
            return true;
    return false;
}

bool candidate_board_read(const struct candidate_board *board, struct variant_id variant, struct candidate *candidates,
                          int64_t *origin_ns) {
    const struct slot *slot = slot_of(board, variant);
    uint64_t words[ACCELERATOR_TYPES_MAX * CANDIDATE_WORDS];
    uint64_t version = atomic_load_explicit(&slot->version, memory_order_acquire); /* with the writer's last store */

    if (version % 2)
        return false;
    int64_t origin = atomic_load_explicit(&slot->origin_ns, memory_order_relaxed);
    for (uint32_t i = 0; i < board->types * CANDIDATE_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire); /* with the writer's fence: a changed word shows a changed version */
    if (atomic_load_explicit(&slot->version, memory_order_relaxed) != version)
        return false;
    memcpy(candidates, words, board->types * sizeof(*candidates));
    *origin_ns = origin;
    return true;
}
