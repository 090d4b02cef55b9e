/* fuzz_grpc_body.c - gRPC messages of infer requests from anywhere, in pieces of every size.
 *
 * The input's first byte picks the model, the second the size of the pieces (0: all at once), the rest is a message
 * with its length prefix. What it is must not depend on the pieces; what is accepted must be a request that can be run
 * and answered. */
/* runs: 60000 */
#include <string.h>

#include "core/util/text.h"
#include "front/grpc/grpc_infer.h"
#include "front/grpc/grpc_message.h"
#include "infer_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX ((size_t)1 << 16)

/* Status of the message; the pieces are copies, so that a step beyond one is seen. */
static int feed(struct grpc_message *m, const uint8_t *data, size_t bytes, size_t step, size_t *taken) {
    int status = 0;
    *taken = 0;
    while (*taken < bytes && status == 0 && m->state != GRPC_COMPLETE) {
        size_t n = bytes - *taken < step ? bytes - *taken : step, used;
        struct sy_error err = {""};
        uint8_t *piece = malloc(n);
        memcpy(piece, data + *taken, n);
        status = grpc_message_feed(m, piece, n, &used, &err);
        free(piece);
        CHECK_LE(used, n);
        CHECK(used == n || m->state == GRPC_COMPLETE || status != 0);
        CHECK(status == 0 || ((status == 400 || status == 413) && err.text[0] != '\0'));
        *taken += used;
    }
    return status;
}

static void check_answer(const struct served_model *model, struct infer_call *call, bool streamed) {
    struct tensor_view outputs[TENSORS_MAX];
    struct infer_answer answer;
    struct text text = {0}, classes = {0};
    call->classes = NULL;
    outputs_fill(model, call, outputs, &classes);
    CHECK_EQ(grpc_answer_build(&answer, &text, model, call, outputs, model->signature.output_count, 0, streamed, NULL),
             0);
    CHECK_EQ(answer.piece_count, 1);
    CHECK_EQ(answer.bytes, answer.pieces[0].iov_len);
    text_free(&text);
    text_free(&classes);
}

static void check_message(const struct served_model *model, struct grpc_message *m, struct memory *memory) {
    struct grpc_words words;
    struct infer_call call;
    struct sy_error err = {""};
    size_t raw_bytes = 0;
    for (uint32_t i = 0; i < m->raw_count; i++)
        raw_bytes += m->raws[i].bytes;
    CHECK_EQ(m->head_bytes + raw_bytes, m->bytes);
    int status = grpc_infer_words(m, &words, &err);
    if (status == 0)
        status = grpc_infer_parse(m, model, (struct infer_memory){memory_take, memory}, &call, &err);
    CHECK(status == 0 || (status == 400 && err.text[0] != '\0'));
    if (status != 0)
        return;
    check_inputs(model, &call, m->head, m->head_bytes, memory);
    check_answer(model, &call, false);
    check_answer(model, &call, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    const struct served_model *model = &models[data[0] % ARRAY_COUNT(models)];
    size_t step = data[1] ? data[1] : SIZE_MAX, taken, taken_at_once;
    struct memory memory = {.count = 0}, other = {.count = 0};
    struct grpc_message m, at_once;
    grpc_message_begin(&m, true, BYTES_MAX, (struct block_memory){memory_take, memory_give, &memory});
    grpc_message_begin(&at_once, true, BYTES_MAX, (struct block_memory){memory_take, memory_give, &other});
    int status = feed(&m, data + 2, size - 2, step, &taken);
    CHECK_EQ(feed(&at_once, data + 2, size - 2, SIZE_MAX, &taken_at_once), status);
    if (status == 0) {
        CHECK_EQ(taken, taken_at_once);
        CHECK_EQ(m.state, at_once.state);
        CHECK_EQ(m.head_bytes, at_once.head_bytes);
        CHECK(m.head_bytes == 0 || memcmp(m.head, at_once.head, m.head_bytes) == 0);
        CHECK_EQ(m.raw_count, at_once.raw_count);
    }
    if (status == 0 && m.state == GRPC_COMPLETE && !m.compressed)
        check_message(model, &m, &memory);
    memory_free(&memory);
    memory_free(&other);
    return 0;
}
