/* inside.c - bench_inside: inferences that begin and end in the server's own process. Their cost is that of any request
 * without its protocol; bench/wire.py compares them with HTTP and gRPC.
 *
 *     bench_inside REPOSITORY MODEL [--outstanding N] [--pause-us U] [--in-place] [--seconds T]
 *
 * Serves the repository on one CPU accelerator, as `symphony serve --accelerators cpu:1` does, and drives the model
 * from a frontend of its own, in a closed loop. Slots, memory, checks, hand-over, model thread, rank thread and
 * executor are the same as for the protocols' frontends, but nothing is received, parsed, written or sent. Inputs are
 * copied into the slab, where a body would be received; with --in-place they are used where the caller has them. After
 * an answer the next request waits for U. The first tenth of the time is not counted. Prints a line of JSON; processor
 * times are microseconds a request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/util/assert.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/thread.h"
#include "server/commands/options.h"
#include "server/models/deployment.h"
#include "server/process/server.h"
#include "front/request/inference.h"
#include "lab/load/latency.h"
#include "model/profile/worker.h"
#include "sched/threads/wiring.h"

#define SLO_NS      (10 * NS_PER_S)
#define QUEUE_MAX   65536
#define SPIN        2 /* as `symphony serve` has it */
#define TURN_MS_MAX 100

struct settings {
    int64_t outstanding, pause_us;
    double seconds;
    bool in_place;
};

/* What the process has used. */
struct usage {
    int64_t thread_ns, process_ns;
    long sleeps;
};

struct bench {
    struct settings settings;
    const char *repository;
    struct repository_control control; /* of models that neither come nor go */
    struct deployment deployment;
    struct server *server;
    struct inferences_config config;
    struct inferences inferences;
    int epoll_fd; /* of the frontend's port */
    uint32_t model;
    void *data[TENSORS_MAX]; /* of one request */
    uint32_t wanted;         /* requests that may be sent now */
    int64_t count_ns, end_ns, send_ns;
    struct latency latency;
    uint64_t failed;
    struct usage before;
};

static void die(const char *what, const struct sy_error *err) {
    fprintf(stderr, "bench_inside: %s: %s\n", what, err->text);
    exit(1);
}

/* ---- the server ---- */

static void serve(struct bench *b, const char *repository, const char *model) {
    struct accelerator_group cpu = {.kind = ACCELERATOR_CPU, .count = 1, .type = "cpu"};
    struct deployment_options how = {.groups = &cpu, .group_count = 1, .slo_ns = SLO_NS};
    struct sy_error err;
    cpu_set_t allowed;
    thread_cores_allowed(&allowed);
    CPU_ZERO(&how.cores);
    CPU_SET(thread_core_nth(&allowed, (unsigned)CPU_COUNT(&allowed) - 1), &how.cores);
    b->repository = repository;
    b->control.from = (struct repositories){.paths = &b->repository, .count = 1};
    if (deployment_from_repositories(&b->deployment, &b->control, &how, &err) < 0)
        die(repository, &err);
    struct server_config config = {
        .models = b->deployment.models,
        .model_count = b->deployment.model_count,
        .control = &b->control,
        .accelerators = b->deployment.accelerators,
        .type_count = b->deployment.type_count,
        .model_threads = 1,
        .rank_threads = 1,
        .frontends = 1,
        .frontends_inside = 1,
        .policy = &policy_deferred,
        .host = "127.0.0.1",
        .grpc_port = -1,
        .metrics_port = -1,
        .executor_cores = how.cores,
        .spin = SPIN,
        .learn = true,
        .queue_max = QUEUE_MAX,
    };
    if (server_start(&b->server, &config, &err) < 0)
        die("the server does not start", &err);
    while (!server_is_ready(b->server)) {
        if (server_failed(b->server, &err))
            die("nothing is served", &err);
        nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    }
    b->config = server_inside(b->server, 0, sizeof(struct inference));
    CHECK_EQ(inferences_init(&b->inferences, &b->config), 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK_EQ(epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, port_event_fd(b->config.port), &event), 0);
    while (b->model < config.model_count && strcmp(config.models[b->model].name, model) != 0)
        b->model++;
    CHECK_LT(b->model, config.model_count);
    CHECK_EQ(atomic_load_explicit(&config.models[b->model].state, memory_order_relaxed), MODEL_READY);
}

/* ---- requests ---- */

/* The dims of one item of an input, as the model was profiled. */
static void item_dims(const struct served_model *model, uint32_t input, int64_t *dims) {
    memcpy(dims, model->reference_dims[input], sizeof(model->reference_dims[input]));
    if (model->signature.batched)
        dims[0] = 1;
}

/* Makes the inputs in memory that accelerators read, so that requests can use them in place. */
static void data_make(struct bench *b) {
    const struct served_model *model = &b->deployment.models[b->model];
    int64_t dims[TENSOR_DIMS_MAX];
    for (uint32_t i = 0; i < model->signature.input_count; i++) {
        const struct tensor_spec *input = &model->signature.inputs[i];
        item_dims(model, i, dims);
        size_t bytes = (size_t)dims_product(dims, 0, input->dim_count) * datatype_bytes_min(input->type);
        b->data[i] = slab_take(b->inferences.slab, bytes);
        CHECK(b->data[i]);
        memset(b->data[i], 0, bytes);
    }
}

static unsigned request_fill(struct bench *b, struct inference *inference, struct sy_error *err) {
    const struct served_model *model = inference->model;
    struct infer_call *call = &inference->call;
    int64_t dims[TENSOR_DIMS_MAX];
    int status = infer_call_begin(call, model, (struct infer_memory){inference_block, inference}, err);
    for (uint32_t i = 0, index; i < model->signature.input_count && status == 0; i++) {
        const struct tensor_spec *input = &model->signature.inputs[i];
        item_dims(model, i, dims);
        status = infer_call_input(call, model, input->name, strlen(input->name), &index, err);
        status = status ? status : infer_call_shape(call, model, index, input->type, dims, input->dim_count, err);
        if (status)
            break;
        size_t bytes = call->inputs[index].bytes;
        void *data = b->settings.in_place ? b->data[i] : inference_block(inference, bytes);
        CHECK(data);
        if (!b->settings.in_place)
            memcpy(data, b->data[i], bytes);
        status = infer_call_data(call, model, index, data, bytes, err);
    }
    return (unsigned)(status ? status : infer_call_finish(call, model, err));
}

static void request_send(struct bench *b, int64_t now_ns) {
    struct sy_error err;
    struct inference *inference = inference_take(&b->inferences, now_ns);
    CHECK(inference);
    inference_model(inference, b->deployment.models, b->model);
    unsigned status = request_fill(b, inference, &err);
    status = status ? status : inference_submit(inference, 0, &err);
    if (status)
        die("a request is not taken", &err);
}

static void request_answered(struct bench *b, struct inference *inference) {
    struct infer_call *call = &inference->call;
    const struct request *request = &inference->request;
    struct tensor_view part;
    struct sy_error err;
    bool retry;
    unsigned status = inference_result(inference, &retry, &err);
    for (uint32_t i = 0; i < call->output_count && status == 200; i++)
        if (infer_output_slice(&part, inference->model, call, &call->outputs[i], request->block->outputs,
                               request->block->output_count, request->first_item, &err) < 0)
            status = 500;
    inference_answered(inference, status);
    if (request->arrival_ns >= b->count_ns && inference->answered_ns < b->end_ns) {
        latency_add(&b->latency, inference->answered_ns - request->arrival_ns);
        b->failed += status != 200;
    }
    inference_count(inference, true);
    inference_free(inference);
    b->wanted++;
    b->send_ns = b->settings.pause_us > 0 ? inference->answered_ns + b->settings.pause_us * NS_PER_US : 0;
}

/* ---- the loop, like that of a protocol's frontend ---- */

static int64_t turn(struct bench *b) {
    struct inference *inference;
    while ((inference = inferences_next(&b->inferences)))
        request_answered(b, inference);
    int64_t now_ns = clock_now_ns();
    for (; b->wanted > 0 && now_ns >= b->send_ns && now_ns < b->end_ns; b->wanted--)
        request_send(b, clock_now_ns());
    port_flush(b->config.port);
    return now_ns;
}

static void rest(struct bench *b, int64_t now_ns) {
    struct epoll_event event;
    int wait_ms = TURN_MS_MAX;
    if (b->wanted > 0)
        wait_ms = b->send_ns > now_ns ? (int)((b->send_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS) : 0;
    if (!port_arm(b->config.port, TIME_NEVER))
        return;
    epoll_wait(b->epoll_fd, &event, 1, wait_ms);
    port_disarm(b->config.port);
}

static int64_t cpu_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * NS_PER_S + at.tv_nsec;
}

static struct usage usage_now(void) {
    struct rusage process;
    getrusage(RUSAGE_SELF, &process);
    return (struct usage){cpu_ns(CLOCK_THREAD_CPUTIME_ID), cpu_ns(CLOCK_PROCESS_CPUTIME_ID), process.ru_nvcsw};
}

static void run(struct bench *b) {
    int64_t now_ns = clock_now_ns();
    b->count_ns = now_ns + (int64_t)(b->settings.seconds * 0.1 * NS_PER_S);
    b->end_ns = now_ns + (int64_t)(b->settings.seconds * NS_PER_S);
    b->wanted = (uint32_t)b->settings.outstanding;
    for (bool counting = false; now_ns < b->end_ns; rest(b, now_ns)) {
        if (!counting && now_ns >= b->count_ns) {
            counting = true;
            b->before = usage_now();
        }
        now_ns = turn(b);
    }
}

static void report(const struct bench *b) {
    struct usage after = usage_now();
    double count = b->latency.count ? (double)b->latency.count : 1,
           thread_ns = (double)(after.thread_ns - b->before.thread_ns),
           process_ns = (double)(after.process_ns - b->before.process_ns);
    printf("{\"requests\":%llu,\"failed\":%llu,\"requests_per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"frontend_us\":%.3f,\"others_us\":%.3f,\"sleeps\":%.3f}\n",
           (unsigned long long)b->latency.count, (unsigned long long)b->failed,
           (double)b->latency.count / (b->settings.seconds * 0.9), (double)latency_quantile_ns(&b->latency, 0.5) / 1e3,
           (double)latency_quantile_ns(&b->latency, 0.99) / 1e3, thread_ns / count / 1e3,
           (process_ns - thread_ns) / count / 1e3, (double)(after.sleeps - b->before.sleeps) / count);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_INT(S, outstanding, "outstanding", "N", 1, PORT_REQUESTS_MAX, "requests at once"),
    OPTION_INT(S, pause_us, "pause-us", "U", 0, 10000000, "between an answer and the next request"),
    OPTION_FLAG(S, in_place, "in-place", "inputs are not copied"),
    OPTION_DOUBLE(S, seconds, "seconds", "T", 0.01, 1e6, "how long"),
    OPTION_END,
};
static const struct options options = {.command = "bench_inside",
                                       .usage = "REPOSITORY MODEL [OPTION]...",
                                       .rows = rows,
                                       .args_min = 2,
                                       .args_max = 2,
                                       .args_name = "argument"};

int main(int argc, char **argv) {
    static struct bench bench = {.settings = {.outstanding = 1, .seconds = 1}};
    struct bench *b = &bench;
    if (argc == 3 && strcmp(argv[2], WORKER_ARGUMENT) == 0) /* models are profiled in a child, which is this program */
        return worker_main();
    int args, status = options_parse(&options, argc, argv, &b->settings, &args);
    if (status != OPTIONS_GO_ON)
        return status;
    log_set_level(LOG_WARN);
    serve(b, argv[1], argv[2]);
    data_make(b);
    thread_begin("inside", 0, THREAD_PROMPT);
    run(b);
    report(b);
    while (b->inferences.running > 0)
        turn(b);
    close(b->epoll_fd);
    for (uint32_t i = 0; i < TENSORS_MAX; i++)
        slab_give(b->data[i]);
    inferences_destroy(&b->inferences);
    server_stop(b->server, 0, NS_PER_S);
    deployment_free(&b->deployment);
    return 0;
}
