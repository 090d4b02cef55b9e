/* virtual_grpc.c - clients that speak gRPC with the frontends: a few connections to each, with several requests at once
 * on each, which they cancel one by one. Some have calls that are streams of requests, which they send in pieces, end
 * when they like, and cancel with all that is under way; and some take no answers for a while. */
#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util/assert.h"
#include "inference.pb-c.h"
#include "sim/virtual_clients.h"

#define CONNECTIONS_MAX 32
#define EACH_MAX        3 /* connections to a frontend */
#define PREFIX_BYTES    5 /* in front of a message */
#define RECEIVE_BYTES   65536
#define SERVICE         "/inference.GRPCInferenceService/"
#define WAITING_MOST    8 /* requests of a stream without an answer */
#define STREAMED        0.6
#define STREAM_ENDS     0.1               /* requests that are a stream's last */
#define PIECES          0.2               /* requests of streams that come in pieces */
#define REST_NS         (100 * NS_PER_MS) /* from one to the next at most */
#define WINDOW_SHUT_NS  (200 * NS_PER_MS) /* answers are not taken for so long at most */
#define WINDOW_BYTES    (1 << 20)         /* afterwards */
#define GOAWAY          0.01              /* looks at a connection after which a client says that it goes */

typedef Inference__ModelInferRequest Message;
typedef Inference__ModelInferRequest__InferInputTensor Input;
typedef Inference__ModelInferRequest__ParametersEntry Entry;
typedef Inference__InferParameter Parameter;

/* A call on its connection: of one request, or, if it is `streamed`, of any number. */
struct stream {
    struct list_node link;
    struct grpc_connection *connection;
    struct request *requests[WAITING_MOST]; /* [waiting] that wait for their answers, in order */
    uint32_t waiting;
    bool streamed;
    bool last;          /* the client sends nothing behind what it has to send */
    bool rests;         /* nothing more is sent before `goes_on_ns`, */
    int64_t goes_on_ns; /* or until there is something */
    size_t piece_bytes; /* what is sent before the next rest */
    int64_t opens_ns;   /* its window is opened then; 0: it is open */
    int32_t id;
    int code; /* gRPC's status; -1: it has not come */
    char *out, *in;
    size_t out_bytes, out_done, in_bytes;
    char said[256];
};

struct grpc_connection {
    bool used, connected;
    int fd;
    struct virtual_role *frontend;
    struct virtual_process *process; /* that the frontend was when it was made */
    nghttp2_session *session;
    bool goes;       /* the client has said that it begins no more calls */
    bool shut;       /* its calls take no more than */
    uint32_t window; /* so many bytes of answers at first */
    struct list_node streams;
};

static struct grpc_connection connections[CONNECTIONS_MAX];
static int epoll_fd;

void grpc_begin(int fd) {
    memset(connections, 0, sizeof(connections));
    epoll_fd = fd;
}

/* ---- ends ---- */

static void stream_free(struct stream *s) {
    list_remove(&s->link);
    free(s->out);
    free(s->in);
    free(s);
}

static struct request *first_take(struct stream *s) {
    struct request *first = s->requests[0];
    memmove(s->requests, s->requests + 1, --s->waiting * sizeof(first));
    return first;
}

static void connection_close(struct grpc_connection *n) {
    nghttp2_session_del(n->session);
    list_for_each_safe (node, &n->streams)
        stream_free(list_entry(node, struct stream, link));
    close(n->fd);
    n->used = false;
}

static void connection_broken(struct grpc_connection *n, const char *how) {
    bool excused = n->process->over || n->process != n->frontend->process || !n->connected;
    list_for_each (node, &n->streams) {
        struct stream *s = list_entry(node, struct stream, link);
        while (s->waiting > 0)
            request_broken(first_take(s), n->frontend->name, excused, how);
    }
    connection_close(n);
}

/* HTTP's status for gRPC's, as frontends have it the other way round (front/grpc/grpc_status.h). */
static int status_of(int code) {
    return code == 0 ? 200 : code == 5 ? 404 : code == 13 ? 500 : code == 14 ? 503 : 1000 + code;
}

static void answer_check(const struct request *r, const Inference__ModelInferResponse *answer, size_t bytes) {
    if (answer && answer->n_raw_output_contents == 1)
        request_check(r, (const char *)answer->raw_output_contents[0].data, answer->raw_output_contents[0].len);
    else
        cluster_wrong("request %u is answered with %zu bytes that are no answer", request_number(r), bytes);
}

/* The call has ended, with a status. A frontend that ends a stream may do so to all of its requests. */
static void stream_answered(struct stream *s) {
    if (s->code == 0 && !s->streamed) {
        Inference__ModelInferResponse *answer = NULL;
        if (s->in_bytes >= PREFIX_BYTES)
            answer = inference__model_infer_response__unpack(NULL, s->in_bytes - PREFIX_BYTES,
                                                             (const uint8_t *)s->in + PREFIX_BYTES);
        answer_check(s->requests[0], answer, s->in_bytes);
        if (answer)
            inference__model_infer_response__free_unpacked(answer, NULL);
    } else if (s->code == 0) {
        cluster_wrong("%s has ended a stream, and not answered request %u", s->connection->frontend->name,
                      request_number(s->requests[0]));
    }
    while (s->waiting > 0)
        request_answered(first_take(s), status_of(s->code), s->said, strlen(s->said));
}

/* Takes the answers of a stream that have come. */
static void stream_read(struct stream *s) {
    size_t at = 0;
    while (s->in_bytes - at >= PREFIX_BYTES) {
        uint32_t bytes;
        memcpy(&bytes, s->in + at + 1, sizeof(bytes));
        bytes = ntohl(bytes);
        if (s->in_bytes - at - PREFIX_BYTES < bytes)
            break;
        Inference__ModelStreamInferResponse *answer =
            inference__model_stream_infer_response__unpack(NULL, bytes, (const uint8_t *)s->in + at + PREFIX_BYTES);
        struct request *r = s->waiting > 0 ? first_take(s) : NULL;
        const char *said = answer ? answer->error_message : "";
        if (!r)
            cluster_wrong("%s answers what nobody asked, in a stream", s->connection->frontend->name);
        else if (!*said)
            answer_check(r, answer ? answer->infer_response : NULL, bytes);
        if (r)
            request_answered(r, *said ? 503 : 200, said, strlen(said));
        if (answer)
            inference__model_stream_infer_response__free_unpacked(answer, NULL);
        if (s->waiting > 0 && s->requests[0]->last_ns < virtual_world.now_ns) /* answers come in order */
            s->requests[0]->last_ns = virtual_world.now_ns;
        at += PREFIX_BYTES + bytes;
    }
    memmove(s->in, s->in + at, s->in_bytes - at);
    s->in_bytes -= at;
}

/* ---- HTTP/2 ---- */

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t bytes, int flags, void *connection) {
    struct grpc_connection *n = connection;
    (void)session, (void)flags;
    ssize_t sent = send(n->fd, data, bytes, MSG_NOSIGNAL);
    return sent >= 0 ? sent : errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static ssize_t on_body_wanted(nghttp2_session *session, int32_t id, uint8_t *to, size_t bytes, uint32_t *flags,
                              nghttp2_data_source *source, void *connection) {
    struct stream *s = source->ptr;
    size_t left = s->piece_bytes - s->out_done, part = left < bytes ? left : bytes;
    (void)session, (void)id, (void)connection;
    memcpy(to, s->out + s->out_done, part);
    s->out_done += part;
    if (s->out_done == s->out_bytes && s->last)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    s->rests = part == 0 && !(*flags & NGHTTP2_DATA_FLAG_EOF);
    return s->rests ? NGHTTP2_ERR_DEFERRED : (ssize_t)part;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *connection) {
    struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags, (void)connection;
    if (s && name_bytes == strlen("grpc-status") && memcmp(name, "grpc-status", name_bytes) == 0)
        s->code = atoi((const char *)value);
    if (s && name_bytes == strlen("grpc-message") && memcmp(name, "grpc-message", name_bytes) == 0)
        snprintf(s->said, sizeof(s->said), "%.*s", (int)value_bytes, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t bytes,
                   void *connection) {
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);
    (void)flags, (void)connection;
    if (!s)
        return 0;
    s->in = realloc(s->in, s->in_bytes + bytes);
    CHECK(s->in || bytes == 0);
    memcpy(s->in + s->in_bytes, data, bytes);
    s->in_bytes += bytes;
    if (s->streamed)
        stream_read(s);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *connection) {
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);
    struct grpc_connection *n = connection;
    char how[48];
    if (!s)
        return 0;
    snprintf(how, sizeof(how), "its stream closed with error %u", error);
    if (s->waiting > 0 && s->code >= 0)
        stream_answered(s);
    while (s->waiting > 0) { /* a frontend that ends says what it has not taken, and a client may ask another */
        struct request *r = first_take(s);
        request_broken(r, n->frontend->name, error == NGHTTP2_REFUSED_STREAM && r->frontend->asked_ns > 0, how);
    }
    stream_free(s);
    return 0;
}

static void session_begin(struct grpc_connection *n) {
    nghttp2_session_callbacks *callbacks;
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, n->window};
    CHECK_EQ(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    CHECK_EQ(nghttp2_session_client_new(&n->session, callbacks, n), 0);
    nghttp2_session_callbacks_del(callbacks);
    CHECK_EQ(nghttp2_submit_settings(n->session, NGHTTP2_FLAG_NONE, &window, n->shut), 0);
}

/* Sends what there is to be sent, and ends a connection that is of no more use. */
static void connection_go_on(struct grpc_connection *n) {
    if (n->connected && nghttp2_session_send(n->session) < 0) {
        connection_broken(n, "it cannot be sent");
        return;
    }
    bool ends = !nghttp2_session_check_request_allowed(n->session) && list_empty(&n->streams);
    if (ends || (!nghttp2_session_want_read(n->session) && !nghttp2_session_want_write(n->session))) {
        connection_broken(n, "it has nothing to say");
        return;
    }
    bool writes = !n->connected || nghttp2_session_want_write(n->session);
    struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = n};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, n->fd, &event);
}

/* False: the connection has ended. */
static bool connection_read(struct grpc_connection *n) {
    static uint8_t bytes[RECEIVE_BYTES];
    for (;;) {
        ssize_t got = recv(n->fd, bytes, sizeof(bytes), 0);
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0) {
            connection_broken(n, got ? strerror(errno) : "it closed");
            return false;
        }
        ssize_t taken = nghttp2_session_mem_recv(n->session, bytes, (size_t)got);
        if (taken != got) {
            cluster_wrong("%s speaks no HTTP/2: %s", n->frontend->name, nghttp2_strerror((int)taken));
            connection_broken(n, "no HTTP/2");
            return false;
        }
    }
}

bool grpc_event(void *connection, uint32_t events) {
    struct grpc_connection *n = connection;
    if (n < connections || n >= connections + CONNECTIONS_MAX)
        return false;
    if (!n->used)
        return true;
    if (events & EPOLLERR && !n->connected) {
        connection_broken(n, "not connected");
        return true;
    }
    n->connected |= (events & EPOLLOUT) != 0;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !connection_read(n))
        return true;
    connection_go_on(n);
    return true;
}

/* ---- requests ---- */

static struct grpc_connection *connection_to(struct virtual_role *frontend) {
    struct grpc_connection *free_one = NULL, *least = NULL;
    uint32_t wanted = 1 + (uint32_t)virtual_below(EACH_MAX), count = 0;
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct grpc_connection *n = &connections[i];
        if (!n->used) {
            free_one = free_one ? free_one : n;
        } else if (n->frontend == frontend && n->process == frontend->process &&
                   nghttp2_session_check_request_allowed(n->session) && !n->goes && count++ < wanted) {
            least = n;
        }
    }
    if (least && (count >= wanted || !free_one))
        return least;
    if (!free_one)
        return NULL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(CLUSTER_GRPC_PORT)};
    address.sin_addr = virtual_address(frontend->host);
    *free_one = (struct grpc_connection){.used = true, .frontend = frontend, .process = frontend->process};
    list_init(&free_one->streams);
    free_one->shut = cluster.streams && virtual_chance(0.3);
    free_one->window = free_one->shut && virtual_chance(0.5) ? (uint32_t)virtual_below(2000) : 0;
    session_begin(free_one);
    free_one->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(free_one->fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EINPROGRESS);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = free_one};
    CHECK_EQ(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, free_one->fd, &event), 0);
    return free_one;
}

/* Appends it to what is to be sent. */
static void message_pack(struct stream *s, const struct request *r) {
    char model[16], input_name[] = "INPUT", type[] = "FP32";
    char keys[][12] = {"priority", "best_effort", "timeout"};
    int64_t shape[] = {r->items, r->width};
    Parameter values[ARRAY_COUNT(keys)];
    Entry entries[ARRAY_COUNT(keys)], *entry_list[ARRAY_COUNT(keys)];
    Input input = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT, *inputs[] = {&input};
    Message message = INFERENCE__MODEL_INFER_REQUEST__INIT;
    ProtobufCBinaryData raw = {.len = (size_t)r->items * r->width * sizeof(uint32_t)};
    bool best_effort = request_is_best_effort(r);
    const bool has[] = {cluster.levels && !best_effort, best_effort, request_timeout_us(r) > 0};

    cluster_model(request_number(r), model);
    for (uint32_t i = 0; i < ARRAY_COUNT(keys); i++) {
        values[i] = (Parameter)INFERENCE__INFER_PARAMETER__INIT;
        entries[i] = (Entry)INFERENCE__MODEL_INFER_REQUEST__PARAMETERS_ENTRY__INIT;
        values[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
        entries[i].key = keys[i];
        entries[i].value = &values[i];
        if (has[i])
            entry_list[message.n_parameters++] = &entries[i];
    }
    values[0].int64_param = r->level;
    values[1].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    values[1].bool_param = true;
    values[2].int64_param = request_timeout_us(r);
    raw.data = malloc(raw.len);
    CHECK(raw.data);
    request_elements(r, (char *)raw.data);
    input.name = input_name;
    input.datatype = type;
    input.n_shape = ARRAY_COUNT(shape);
    input.shape = shape;
    message.model_name = model;
    message.n_inputs = message.n_raw_input_contents = 1;
    message.inputs = inputs;
    message.parameters = entry_list;
    message.raw_input_contents = &raw;
    size_t bytes = inference__model_infer_request__get_packed_size(&message);
    s->out = realloc(s->out, s->out_bytes + PREFIX_BYTES + bytes);
    CHECK(s->out);
    char *at = s->out + s->out_bytes;
    s->out_bytes += PREFIX_BYTES + bytes;
    const uint8_t prefix[PREFIX_BYTES] = {0, (uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8),
                                          (uint8_t)bytes};
    memcpy(at, prefix, sizeof(prefix));
    inference__model_infer_request__pack(&message, (uint8_t *)at + PREFIX_BYTES);
    free(raw.data);
}

#define HEADER(name_, value_)                                                                                          \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name_), (uint8_t *)(uintptr_t)(value_), sizeof(name_) - 1, sizeof(value_) - 1,          \
            NGHTTP2_NV_FLAG_NONE                                                                                       \
    }

static struct stream *stream_new(struct virtual_role *frontend, bool streamed) {
    struct grpc_connection *n = connection_to(frontend);
    if (!n)
        return NULL;
    struct stream *s = calloc(1, sizeof(*s));
    CHECK(s);
    s->connection = n;
    s->code = -1;
    s->streamed = streamed;
    s->last = !streamed;
    s->opens_ns = n->shut ? virtual_world.now_ns + virtual_between(1, WINDOW_SHUT_NS) : 0;
    list_append(&n->streams, &s->link);
    return s;
}

/* A stream to the frontend that takes one more. */
static struct stream *stream_of(const struct virtual_role *frontend) {
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct grpc_connection *n = &connections[i];
        if (!n->used || n->frontend != frontend || n->process != frontend->process)
            continue;
        list_for_each (node, &n->streams) {
            struct stream *s = list_entry(node, struct stream, link);
            if (s->streamed && !s->last && s->waiting < WAITING_MOST && s->code < 0)
                return s;
        }
    }
    return NULL;
}

bool grpc_send(struct virtual_role *frontend, struct request *r) {
    nghttp2_nv headers[] = {HEADER(":path", SERVICE "ModelInfer"),
                            HEADER(":method", "POST"),
                            HEADER(":scheme", "http"),
                            HEADER(":authority", "c"),
                            HEADER("te", "trailers"),
                            HEADER("content-type", "application/grpc")};
    const nghttp2_nv streamed_path = HEADER(":path", SERVICE "ModelStreamInfer");
    bool streamed = cluster.streams && virtual_chance(STREAMED);
    struct stream *s = streamed ? stream_of(frontend) : NULL;
    s = s ? s : stream_new(frontend, streamed);
    if (!s)
        return false;
    struct grpc_connection *n = s->connection;
    s->requests[s->waiting++] = r;
    message_pack(s, r);
    if (streamed) {
        s->last = virtual_chance(STREAM_ENDS);
        if (s->goes_on_ns == 0 && virtual_chance(PIECES))
            s->goes_on_ns = virtual_world.now_ns + virtual_between(1, REST_NS);
        headers[0] = streamed_path;
    }
    r->slow |= s->goes_on_ns > 0 || s->opens_ns > 0;
    s->piece_bytes = s->goes_on_ns ? s->piece_bytes : s->out_bytes;
    const nghttp2_data_provider body = {.source.ptr = s, .read_callback = on_body_wanted};
    if (s->id == 0)
        s->id = nghttp2_submit_request(n->session, NULL, headers, ARRAY_COUNT(headers), &body, s);
    else if (s->rests)
        nghttp2_session_resume_data(n->session, s->id);
    CHECK(s->id > 0);
    connection_go_on(n);
    return true;
}

/* What rests goes on: with a piece, or to its end. */
static void stream_go_on(struct stream *s) {
    bool rests_again = virtual_chance(0.5);
    s->goes_on_ns = rests_again ? virtual_world.now_ns + virtual_between(1, REST_NS) : 0;
    s->piece_bytes += rests_again ? virtual_below(s->out_bytes - s->piece_bytes) : s->out_bytes - s->piece_bytes;
    for (uint32_t i = 0; i < s->waiting; i++)
        request_begins(s->requests[i]);
    nghttp2_session_resume_data(s->connection->session, s->id);
}

static void stream_look(struct stream *s) {
    nghttp2_session *session = s->connection->session;
    int64_t now_ns = virtual_world.now_ns;
    /* a stream whose headers wait for the frontend to read has no window yet */
    if (s->opens_ns > 0 && now_ns >= s->opens_ns &&
        nghttp2_session_get_stream_effective_local_window_size(session, s->id) >= 0) {
        s->opens_ns = 0;
        for (uint32_t i = 0; i < s->waiting; i++)
            s->requests[i]->last_ns = s->requests[i]->last_ns > now_ns ? s->requests[i]->last_ns : now_ns;
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, s->id, WINDOW_BYTES);
    }
    if (s->goes_on_ns > 0 && now_ns >= s->goes_on_ns)
        stream_go_on(s);
    if (s->waiting == 0)
        return;
    bool leaves = false,
         late = s->piece_bytes == s->out_bytes && s->opens_ns == 0 && now_ns > request_due_ns(s->requests[0]);
    for (uint32_t i = 0; i < s->waiting; i++)
        leaves |= now_ns > s->requests[i]->leaves_ns;
    if (!leaves && !late)
        return;
    if (!leaves)
        request_unanswered(first_take(s), s->connection->frontend->name);
    while (s->waiting > 0)
        request_end(first_take(s), END_LEFT, 0);
    s->last = true;
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
}

void grpc_look(void) {
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct grpc_connection *n = &connections[i];
        if (!n->used)
            continue;
        bool any = false;
        list_for_each (node, &n->streams) {
            struct stream *s = list_entry(node, struct stream, link);
            stream_look(s);
            any |= s->waiting > 0;
        }
        if (cluster.streams && any && !n->goes && virtual_chance(GOAWAY)) {
            n->goes = true;
            nghttp2_submit_goaway(n->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
        }
        if (n->process->over && !any) /* not noticed: its host is off */
            connection_close(n);
        else
            connection_go_on(n);
    }
}

void grpc_end(void) {
    for (uint32_t i = 0; i < CONNECTIONS_MAX; i++)
        if (connections[i].used)
            connection_close(&connections[i]);
}
