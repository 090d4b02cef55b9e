/* candidate_board.h - the newest candidates of all models, as model threads tell them to rank threads.
 *
 * Candidates change with every request, and only the newest matter. So a model has one slot, which is overwritten in
 * place, and a rank thread reads the slot when it looks. A slot is written by its model's thread alone and read by rank
 * threads. The slot's version is odd while the slot is written. A reader that sees the version change reads the slot
 * again later (a seqlock on which no reader waits). A lane says which slots are new: a bitmap for each pair of a model
 * thread and a rank thread, so that the changes of a turn cost one atomic operation for every 64 models. */
#pragma once

#include "core/data/messages.h"

struct candidate_board {
    uint32_t types, models, lanes;
    uint32_t words;         /* words of a lane, each with a bit for each of 64 models; whole cache lines */
    size_t slot_bytes;      /* bytes of a slot, a multiple of CACHE_LINE */
    char *slots;            /* [models] */
    _Atomic uint64_t *news; /* [lanes][words]; a model thread sets bits, a rank thread takes them */
};

/* The caller has set `types`, `models` and `lanes`. No model has a candidate afterwards. 0 or -ENOMEM; call
 * candidate_board_free() in either case. */
int candidate_board_init(struct candidate_board *board);
void candidate_board_free(struct candidate_board *board);

/* The model's thread: candidates[types] replace the older ones. `origin_ns`: time at which the message that led to them
 * was handed over. The candidates are not announced: candidate_board_announce() does that. */
void candidate_board_write(struct candidate_board *board, struct variant_id variant, const struct candidate *candidates,
                           int64_t origin_ns);
/* The model's thread: the slot will be written soon. A hint. */
void candidate_board_prefetch(const struct candidate_board *board, struct variant_id variant);
/* The model's thread: announces the candidates of some of models 64*word to 64*word+63, a bit each in `models`. */
void candidate_board_announce(struct candidate_board *board, uint32_t lane, uint32_t word, uint64_t models);

/* The rank thread: returns and clears the announcements of models 64*word to 64*word+63, a bit each. */
uint64_t candidate_board_take(struct candidate_board *board, uint32_t lane, uint32_t word);
/* The rank thread: whether anything is announced; for the check before sleeping. */
bool candidate_board_pending(const struct candidate_board *board, uint32_t lane);
/* Any thread: copies a slot. False: nothing is copied, since the slot is just being written; it is announced
 * afterwards. */
bool candidate_board_read(const struct candidate_board *board, struct variant_id variant, struct candidate *candidates,
                          int64_t *origin_ns);
