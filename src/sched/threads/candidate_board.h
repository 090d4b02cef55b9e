/* candidate_board.h - the newest candidates of all models, as model threads tell them to rank threads.
 *
 * Candidates change with every request, and only the newest matter. So they are overwritten in place, and the rank
 * thread takes what it finds when it looks. A slot is written by its model's thread alone and read by rank threads. Its
 * version is odd while it is written, and a reader that saw it change looks again later (a seqlock on which no reader
 * waits). A lane says which slots are new: a bitmap for each pair of a model thread and a rank thread, so that a turn's
 * changes cost one atomic operation for every 64 models. */
#pragma once

#include "core/data/messages.h"

struct candidate_board {
    uint32_t types, models, lanes;
    uint32_t words;         /* in a lane, with a bit for each of 64 models: whole cache lines */
    size_t slot_bytes;      /* a multiple of cache lines */
    char *slots;            /* [models] */
    _Atomic uint64_t *news; /* [lanes][words]; a model thread sets bits, a rank thread takes them */
};

/* The caller has set `types`, `models` and `lanes`. No model has a candidate afterwards. 0 or -ENOMEM; call
 * candidate_board_free() in either case. */
int candidate_board_init(struct candidate_board *board);
void candidate_board_free(struct candidate_board *board);

/* The model's thread: candidates[types] replace the older ones; `origin_ns` is when what led to them was handed over.
 * Does not announce them: candidate_board_announce() does. */
void candidate_board_write(struct candidate_board *board, uint32_t model, const struct candidate *candidates,
                           int64_t origin_ns);
/* The model's thread: the slot will be written soon. A hint. */
void candidate_board_prefetch(const struct candidate_board *board, uint32_t model);
/* The model's thread: some of models 64*word to 64*word+63 are new. */
void candidate_board_announce(struct candidate_board *board, uint32_t lane, uint32_t word, uint64_t models);

/* The rank thread: takes the announcements of models 64*word to 64*word+63, a bit each, and clears them. */
uint64_t candidate_board_take(struct candidate_board *board, uint32_t lane, uint32_t word);
/* The rank thread: whether anything is announced; for the check before sleeping. */
bool candidate_board_pending(const struct candidate_board *board, uint32_t lane);
/* Any thread: copies a slot. False, with nothing copied, if the slot is just being written: it will be announced
 * afterwards. */
bool candidate_board_read(const struct candidate_board *board, uint32_t model, struct candidate *candidates,
                          int64_t *origin_ns);
