/* grpc_exchange.c - a message of a call and its answer: takes the message in, has its method run, and answers. */
#include <string.h>

#include "core/system/clock.h"
#include "front/grpc/grpc_state.h"
#include "front/request/repository_order.h"

/* Part of the bytes of answers that clients have not taken which one connection may keep. */
#define CONNECTION_ANSWERS_PART 8

static struct grpc_exchange *exchange_take(struct grpc_call *call) {
    struct grpc_connection *c = call->connection;
    struct grpc_exchange *x = slot_take(&c->frontend->base, &c->stream, c->address, c->slots,
                                        grpc_method_asks_health(call->method), c->arrived_ns);
    if (!x)
        return NULL;
    c->slots++;
    list_remove(&call->silent);
    x->call = call;
    x->inference.local = peer_is_local(&c->peer);
    x->complete = x->answered = false;
    x->bytes = 0;
    list_init(&x->link);
    list_append(&call->exchanges, &x->link);
    call->exchange_count++;
    return x;
}

/* Enough of its answers have gone: takes what its calls have sent meanwhile. */
static void connection_release(struct grpc_connection *c) {
    c->held = false;
    connection_check(c, nghttp2_session_consume_connection(c->session, c->unconsumed));
    c->unconsumed = 0;
    list_for_each (it, &c->calls) {
        struct grpc_call *call = list_entry(it, struct grpc_call, link);
        if (call->kept.length > 0)
            call_resume_later(call);
    }
    connection_touch(c);
}

void grpc_exchange_detach(struct grpc_exchange *x) {
    struct grpc_call *call = x->call;
    struct grpc_connection *c = call->connection;
    list_remove(&x->link);
    if (call->receiving == x || !grpc_method_streams(call->method))
        coming_over(&call->coming);
    if (call->receiving == x)
        call->receiving = NULL;
    call->exchange_count--;
    c->slots--;
    if (x->complete && --c->complete == 0)
        list_append(&c->frontend->base.waiting, &c->waiting);
    c->answers -= x->bytes;
    if (c->held && c->answers <= c->frontend->base.config.answers_bytes_max / CONNECTION_ANSWERS_PART / 2)
        connection_release(c);
    x->call = NULL;
    if (call->unconsumed > 0 && call->exchange_count <= STREAM_EXCHANGES_MANY / 2) {
        connection_check(c, nghttp2_session_consume_stream(c->session, call->stream, call->unconsumed));
        call->unconsumed = 0;
        connection_touch(c);
    }
    if (call->kept.length > 0 && !c->held && call->exchange_count <= STREAM_EXCHANGES_MAX / 2)
        call_resume_later(call);
}

void grpc_exchange_end(struct grpc_exchange *x, bool sent) {
    struct grpc_frontend *f = x->call->connection->frontend;
    grpc_exchange_detach(x);
    x->sent = sent;
    list_append(&f->ended, &x->link);
    if (f->outgoing.count == 0)
        exchanges_free(f);
}

void exchanges_free(struct grpc_frontend *f) {
    int64_t now_ns = list_empty(&f->ended) ? 0 : clock_now_ns();
    while (!list_empty(&f->ended)) {
        struct grpc_exchange *x = list_entry(f->ended.next, struct grpc_exchange, link);
        list_remove(&x->link);
        inference_count(&x->inference, x->sent ? now_ns : 0);
        inference_free(&x->inference);
    }
}

/* Completes what the headers of a unary call's answer tell of its request. An id that was made is told only if somebody
 * may ask for it: such a header took 0.7 us, an eighth of the frontend's time for a request. */
static void call_tell(struct grpc_exchange *x, unsigned status) {
    struct grpc_call *call = x->call;
    if (!grpc_method_infers(call->method))
        return;
    bool good = status == 200 && call->connection->frontend->base.turn_ns <= x->inference.request.due_ns;
    bool named = call->id.length > 0 || x->inference.id.length > 0;
    inference_id_complete(&x->inference, &call->id);
    if (call->method == GRPC_MODEL_STREAM_INFER)
        return;
    call->trailed = x->inference.trail || call->wants_trail;
    if (!good || named || call->trailed)
        call->id = x->inference.id;
    if (call->trailed)
        call->trail = inference_trail(&x->inference, status, clock_now_ns());
}

static void answer_ready(struct grpc_exchange *x, unsigned status) {
    struct grpc_connection *c = x->call->connection;
    inference_blocks_give(&x->inference); /* the inputs are not needed: the answer points into the outputs only */
    call_tell(x, status);
    inference_answered(&x->inference, status);
    x->answered = true;
    x->piece = 0;
    x->piece_at = 0;
    x->bytes = answer_left(x);
    c->answers += x->bytes;
    c->held |= c->answers > c->frontend->base.config.answers_bytes_max / CONNECTION_ANSWERS_PART;
    call_progress(x->call);
}

/* A mistake or a refusal ends a unary call. A streaming call goes on: the answer to this message tells of it. */
static void exchange_fail(struct grpc_exchange *x, unsigned status, const char *sentence) {
    struct grpc_call *call = x->call;
    struct inference *i = &x->inference;
    if (call->method != GRPC_MODEL_STREAM_INFER) {
        call_tell(x, status);
        inference_answered(i, status);
        grpc_exchange_end(x, true);
        call_end(call, status, sentence);
        return;
    }
    grpc_answer_error(&i->answer, &i->text, sentence, i->call.id, i->call.id_length);
    answer_ready(x, status);
}

/* Begins the text of an answer. */
static struct text *text_begin(struct grpc_exchange *x) {
    static const char room[GRPC_ANSWER_ROOM];
    text_append(&x->inference.text, room, GRPC_ANSWER_ROOM);
    return &x->inference.text;
}

/* Answers with the text, or unless the status is 200, with an error. */
static void text_answer(struct grpc_exchange *x, unsigned status, const char *sentence) {
    if (status != 200) {
        exchange_fail(x, status, sentence);
    } else if (x->inference.text.failed) {
        exchange_fail(x, 503, "out of memory for the answer");
    } else {
        grpc_answer_text(&x->inference.answer, &x->inference.text);
        answer_ready(x, 200);
    }
}

void call_watch(struct grpc_call *call) {
    struct grpc_frontend *f = call->connection->frontend;
    int now = grpc_watch_now(&f->base, call->method, call->told);
    if (!call->watching || call->ended || call->told == now ||
        frontend_in_flight(&f->base) >= f->base.config.requests_max)
        return; /* where there is no slot: tried again at the next sweep, during which no connection makes way */
    struct grpc_exchange *x = exchange_take(call);
    if (!x)
        return;
    grpc_watch_put(text_begin(x), call->method, now);
    call->told = now;
    text_answer(x, 200, NULL);
}

void exchange_order_returned(void *exchange, unsigned status, const char *sentence) {
    struct grpc_exchange *x = exchange;
    x->inference.state = INFERENCE_FINISHED;
    if (!x->call) { /* the client left */
        inference_free(&x->inference);
        return;
    }
    text_begin(x); /* an empty message */
    text_answer(x, status, sentence);
}

static size_t message_bytes_max(const struct grpc_call *call) {
    return grpc_method_infers(call->method) || grpc_method_orders(call->method)
               ? call->connection->frontend->base.config.body_bytes_max
               : SERVICE_BYTES_MAX;
}

static struct block_memory memory_of(struct grpc_exchange *x) {
    return (struct block_memory){inference_block, inference_block_give, &x->inference};
}

size_t grpc_exchange_come(const struct grpc_exchange *x) {
    return x->message.bytes - x->message.to_come;
}

/* A block of the memory for inputs, for a message that comes. */
static void *message_block(void *inference, size_t bytes) {
    const struct grpc_exchange *x = container_of(inference, struct grpc_exchange, inference);
    struct grpc_call *call = x->call;
    void *block;
    while (!(block = inference_block(inference, bytes)))
        if (!coming_make_room(&call->connection->frontend->base, &call->coming, grpc_exchange_come(x)))
            break;
    return block;
}

/* Inflates the message into a block of its own, and takes that apart anew. */
static int message_inflate(struct grpc_exchange *x, struct inflater *inflater, struct sy_error *err) {
    struct grpc_message *m = &x->message;
    char *block, *compressed = m->head;
    size_t bytes, taken;
    if (x->encoding == BODY_IDENTITY)
        return error_set(err, 400, "the message is compressed, but no grpc-encoding says how");
    int status = inflate_body(inflater, x->encoding, compressed, m->head_bytes, x->bytes_max, GRPC_PREFIX_BYTES,
                              memory_of(x), &block, &bytes, err);
    if (status)
        return status;
    inference_block_give(&x->inference, compressed);
    uint32_t length = __builtin_bswap32((uint32_t)bytes);
    block[0] = 0;
    memcpy(block + 1, &length, sizeof(length));
    grpc_message_begin(m, m->split, x->bytes_max, memory_of(x));
    return grpc_message_feed(m, block, GRPC_PREFIX_BYTES + bytes, &taken, err);
}

/* Lays it out as the model's inputs. */
static int message_parse(struct grpc_exchange *x, struct sy_error *err) {
    struct inference *i = &x->inference;
    return grpc_infer_parse(&x->message, i->model, (struct infer_memory){inference_block, i}, &i->call, err);
}

static void inflate_in_bulk(struct bulk_job *job, struct bulk_tools *tools) {
    struct grpc_exchange *x = container_of(job, struct grpc_exchange, job);
    x->status = (unsigned)message_inflate(x, &tools->inflater, &x->error);
}

static void parse_in_bulk(struct bulk_job *job, struct bulk_tools *tools) {
    struct grpc_exchange *x = container_of(job, struct grpc_exchange, job);
    (void)tools;
    x->status = (unsigned)message_parse(x, &x->error);
}

static void to_bulk(struct grpc_exchange *x, void (*run)(struct bulk_job *, struct bulk_tools *), size_t bytes) {
    struct grpc_connection *c = x->call->connection;
    frontend_to_bulk(&c->frontend->base, &x->inference, &x->job, run, bytes, &c->peer);
}

static void infer_submit(struct grpc_exchange *x, unsigned status, struct sy_error *err) {
    struct inference *i = &x->inference;
    struct grpc_words words;
    struct sy_error ignored;
    if (status == 0)
        status = inference_submit(i, x->call->limit_ns, err);
    if (status == 0)
        return;
    grpc_infer_words(&x->message, &words, &ignored);
    i->call.id = words.id; /* the mistake may stand before the id in the message */
    i->call.id_length = words.id_length;
    exchange_fail(x, status, err->text);
}

static void infer_run(struct grpc_exchange *x) {
    struct inference *i = &x->inference;
    const struct grpc_frontend *f = x->call->connection->frontend;
    struct grpc_words words;
    struct sy_error err;
    bool retry;
    unsigned status = (unsigned)grpc_infer_words(&x->message, &words, &err);
    if (status == 0) {
        int model = model_index_find(f->base.models, words.model, words.model_length, words.version,
                                     words.version_length, &err);
        if (model >= 0 && words.version_length == 0)
            model = (int)model_index_turn(f->base.models, (uint32_t)model);
        if (model < 0)
            status = (unsigned)-model;
        else
            inference_model(i, f->base.models->models, (uint32_t)model);
    }
    if (status == 0 && !served_model_ready(i->model, &retry, &err))
        status = 503;
    if (status == 0 && f->base.config.bulk && x->message.head_bytes > BULK_JSON_BYTES) {
        to_bulk(x, parse_in_bulk, x->message.head_bytes);
        return;
    }
    if (status == 0)
        status = inference_late(i, x->message.head, x->message.head_bytes, x->call->limit_ns,
                                f->base.streams.reads.behind, f->base.turn_ns, &err);
    if (status == 0)
        status = (unsigned)message_parse(x, &err);
    infer_submit(x, status, &err);
}

static void message_run(struct grpc_exchange *x) {
    struct grpc_call *call = x->call;
    struct grpc_frontend *f = call->connection->frontend;
    struct inference *i = &x->inference;
    struct sy_error err;
    if (grpc_method_infers(call->method)) {
        counter_add(&i->home->counters.body_bytes, x->message.bytes);
        infer_run(x);
        return;
    }
    if (grpc_method_orders(call->method)) {
        struct repository_order order = {.context = x,
                                         .kind = call->method == GRPC_LOAD ? ORDER_LOAD : ORDER_UNLOAD,
                                         .form = ORDER_PROTOBUF,
                                         .body = x->message.head,
                                         .body_bytes = x->message.head_bytes};
        if (frontend_order(&f->base, i, &order, &err))
            exchange_fail(x, 503, err.text);
        return;
    }
    if (grpc_method_watches(call->method)) /* before the answer: a change in between is told once more */
        call->told = grpc_watch_first(&f->base, call->method, x->message.head, x->message.head_bytes);
    unsigned status = grpc_service_answer(&f->base, call->method, i->local, x->message.head, x->message.head_bytes,
                                          text_begin(x), &err);
    call->watching = call->watcher && status == 200;
    text_answer(x, status, err.text);
}

struct grpc_exchange *grpc_exchange_begin(struct grpc_call *call) {
    struct grpc_exchange *x = exchange_take(call);
    if (!x)
        return NULL;
    call->receiving = x;
    call->in.since_ns = 0;
    grpc_message_begin(&x->message, grpc_method_infers(call->method), message_bytes_max(call),
                       (struct block_memory){message_block, inference_block_give, &x->inference});
    return x;
}

void grpc_exchange_run(struct grpc_exchange *x) {
    struct grpc_call *call = x->call;
    struct grpc_frontend *f = call->connection->frontend;
    struct sy_error err;
    coming_over(&call->coming);
    call->receiving = NULL;
    x->inference.request.complete_ns = call->connection->arrived_ns;
    x->complete = true;
    if (call->connection->complete++ == 0)
        list_remove(&call->connection->waiting);
    x->inference.call.id_length = 0;
    x->method = call->method;
    x->encoding = call->encoding;
    x->accepts = call->accepts;
    x->bytes_max = message_bytes_max(call);
    if (x->message.compressed && f->base.config.bulk) {
        to_bulk(x, inflate_in_bulk, x->message.head_bytes);
        return;
    }
    int status = x->message.compressed ? message_inflate(x, &f->base.inflater, &err) : 0;
    if (status)
        exchange_fail(x, (unsigned)status, err.text);
    else
        message_run(x);
}

/* Builds the answer of what has run. The status; the sentence is in `err` unless it is 200. */
static unsigned answer_write(struct grpc_exchange *x, struct deflater *deflater, struct sy_error *err) {
    struct inference *i = &x->inference;
    const struct request *request = &i->request;
    bool retry;
    unsigned status = inference_result(i, &retry, err);
    if (status != 200)
        return status;
    if (grpc_answer_build(&i->answer, &i->text, i->model, &i->call, request->block->outputs,
                          request->block->output_count, request->first_item, x->method == GRPC_MODEL_STREAM_INFER,
                          err) < 0)
        return 500;
    if (answer_deflate(deflater, x->accepts, GRPC_PREFIX_BYTES, &i->answer, &i->packed)) {
        uint32_t length = __builtin_bswap32((uint32_t)(i->packed.length - GRPC_PREFIX_BYTES));
        i->packed.data[0] = 1; /* compressed */
        memcpy(i->packed.data + 1, &length, sizeof(length));
    }
    return 200;
}

static void write_in_bulk(struct bulk_job *job, struct bulk_tools *tools) {
    struct grpc_exchange *x = container_of(job, struct grpc_exchange, job);
    x->status = answer_write(x, &tools->grpc_deflater, &x->error);
}

static void answer_written(struct grpc_exchange *x, unsigned status, const struct sy_error *err) {
    if (status == 200)
        answer_ready(x, 200);
    else
        exchange_fail(x, status, err->text);
}

/* The client left; nobody waits for the answer. */
static void exchange_forget(struct grpc_exchange *x) {
    inference_count(&x->inference, 0);
    inference_free(&x->inference);
}

void exchange_returned(struct grpc_exchange *x) {
    struct inference *i = &x->inference;
    struct sy_error err;
    if (!x->call) {
        exchange_forget(x);
        return;
    }
    struct grpc_frontend *f = x->call->connection->frontend;
    size_t work = f->base.config.bulk ? inference_answer_work(i, false, x->accepts != BODY_IDENTITY) : 0;
    if (work > 0) {
        to_bulk(x, write_in_bulk, work);
        return;
    }
    unsigned status = answer_write(x, &f->base.deflater, &err);
    answer_written(x, status, &err);
}

void exchange_bulk_returned(struct bulk_job *job) {
    struct grpc_exchange *x = container_of(job, struct grpc_exchange, job);
    struct inference *i = &x->inference;
    bool wrote = job->run == write_in_bulk;
    inference_from_bulk(i, wrote ? INFERENCE_FINISHED : INFERENCE_UPLOAD);
    if (!wrote)
        i->request.complete_ns = clock_now_ns();
    if (!x->call)
        exchange_forget(x);
    else if (wrote)
        answer_written(x, x->status, &x->error);
    else if (job->run == parse_in_bulk)
        infer_submit(x, x->status, &x->error);
    else if (x->status)
        exchange_fail(x, x->status, x->error.text);
    else
        message_run(x);
}
