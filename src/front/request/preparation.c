/* preparation.c - makes the preparation of a request from the inputs that its client sent, and takes it back. */
#include "front/request/preparation.h"

#include <errno.h>
#include <stddef.h>

#include "core/data/strings.h"
#include "core/system/clock.h"
#include "core/util/assert.h"
#include "core/util/container.h"
#include "core/util/counter.h"
#include "front/request/inference.h"
#include "front/request/preparer.h"

/* The inputs that are to be prepared. */
struct order {
    struct inferences *home;
    const struct served_model *model;
    struct infer_call *call;
    struct preparation *preparation;
};

/* ---- checks ---- */

static int image_read(const struct served_model *model, uint32_t input, const struct string *file,
                      struct preparation_item *item, struct sy_error *err) {
    const struct served_preparation *how = &model->preparations[input];
    struct sy_error why;
    if (file->length > how->bytes_max)
        return error_set(err, 400,
                         "input '%.64s': image %u has %zu bytes; model '%.64s' takes at most %u (max_bytes in its "
                         "symphony.yaml)",
                         item->input, item->number, file->length, model->name, how->bytes_max);
    if (image_header_read(file->data, file->length, &item->header, &why) < 0)
        return error_set(err, 400, "input '%.64s': image %u %.400s", item->input, item->number, why.text);
    item->file = file->data;
    item->file_bytes = file->length;
    const struct tensor_spec *spec = how->transform ? &how->transform->input : &model->signature.inputs[input];
    const int64_t *dims = spec->dims + spec->dim_count - IMAGE_CHANNELS; /* height, width and channels; -1: any */
    const struct image_header *header = &item->header;
    uint64_t pixels = image_pixels(header);
    if (pixels > how->pixels_max)
        return error_set(err, 400,
                         "input '%.64s': image %u has %u x %u pixels, %llu bytes once decoded; model '%.64s' takes at "
                         "most %u pixels (max_pixels in its symphony.yaml)",
                         item->input, item->number, header->width, header->height,
                         (unsigned long long)pixels * IMAGE_CHANNELS, model->name, how->pixels_max);
    if ((dims[0] >= 0 && header->height != dims[0]) || (dims[1] >= 0 && header->width != dims[1]))
        return error_set(err, 400,
                         "input '%.64s': image %u is %u pixels high and %u wide, but model '%.64s' takes "
                         "[height,width] [%lld,%lld]",
                         item->input, item->number, header->height, header->width, model->name, (long long)dims[0],
                         (long long)dims[1]);
    return 0;
}

static struct preparation_item item_begin(const struct served_model *model, uint32_t input, uint32_t number) {
    const struct served_preparation *how = &model->preparations[input];
    return (struct preparation_item){
        .input = model->signature.inputs[input].name,
        .number = number,
        .transform = how->transform,
        .transform_name = how->file,
    };
}

/* Reads the images of one input into items[], which has room. Those that become the input as they are must be of one
 * size. */
static int images_read(const struct order *order, uint32_t input, struct preparation_item *items, uint32_t *count,
                       struct sy_error *err) {
    const struct tensor_view *view = &order->call->inputs[input];
    const char *at = view->data, *end = at + view->bytes;
    struct string file;
    int rc = 0;
    for (*count = 0; rc == 0 && strings_next(&at, end, &file) > 0; ++*count) {
        struct preparation_item *item = &items[*count];
        *item = item_begin(order->model, input, *count);
        rc = image_read(order->model, input, &file, item, err);
        if (!rc && !item->transform &&
            (item->header.width != items[0].header.width || item->header.height != items[0].header.height))
            rc = error_set(err, 400,
                           "input '%.64s': image %u has %u x %u pixels, but image 0 of the same request has %u x %u",
                           item->input, *count, item->header.width, item->header.height, items[0].header.width,
                           items[0].header.height);
    }
    return rc;
}

/* Divides a tensor that a model is to prepare into its items. */
static int rows_read(const struct order *order, uint32_t input, struct preparation_item *items, uint32_t *count,
                     struct sy_error *err) {
    const struct served_model *model = order->model;
    const struct tensor_view *view = &order->call->inputs[input];
    bool lead = model->preparations[input].lead;
    uint32_t skip = model->signature.batched ? 1 : 0;
    *count = order->call->items;
    if (view->bytes == 0)
        return error_set(err, 400, "input '%.64s' is empty, so there is nothing to prepare for model '%.64s'",
                         model->signature.inputs[input].name, model->name);
    for (uint32_t i = 0; i < *count; i++) {
        struct tensor_view *given = &items[i].given;
        items[i] = item_begin(model, input, i);
        given->bytes = view->bytes / *count;
        given->data = (char *)view->data + i * given->bytes;
        if (lead)
            given->dims[given->dim_count++] = 1;
        for (uint32_t d = skip; d < view->dim_count; d++)
            given->dims[given->dim_count++] = view->dims[d];
    }
    return 0;
}

/* ---- memory ---- */

static int no_memory(struct sy_error *err) {
    return error_set(err, 503, "the memory for inputs is exhausted");
}

static void *block_take(const struct order *order, size_t bytes) {
    struct preparation *p = order->preparation;
    CHECK_LT(p->block_count, PREPARATION_BLOCKS_MAX);
    void *block = slab_take(order->home->slab, bytes);
    if (block)
        p->blocks[p->block_count++] = block;
    return block;
}

static size_t image_bytes(const struct preparation_item *item) {
    return (size_t)image_pixels(&item->header) * IMAGE_CHANNELS;
}

/* Memory for the pixels of images from which a model makes the input. One thread prepares a request, one image after
 * the other, so they share it. */
static int images_between(const struct order *order, bool lead, struct preparation_item *items, uint32_t count,
                          struct sy_error *err) {
    size_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = image_bytes(&items[i]) > most ? image_bytes(&items[i]) : most;
    uint8_t *rgb = block_take(order, most);
    if (!rgb)
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        struct tensor_view *given = &items[i].given;
        items[i].rgb = rgb;
        *given = (struct tensor_view){.data = rgb, .bytes = image_bytes(&items[i])};
        if (lead)
            given->dims[given->dim_count++] = 1;
        given->dims[given->dim_count++] = items[i].header.height;
        given->dims[given->dim_count++] = items[i].header.width;
        given->dims[given->dim_count++] = IMAGE_CHANNELS;
    }
    return 0;
}

/* Takes memory for `count` items that are `each` bytes long, and puts their tensor in the place of what was sent. */
static char *input_take(const struct order *order, uint32_t input, uint32_t count, size_t each, const int64_t *dims,
                        uint32_t dim_count) {
    struct tensor_view *view = &order->call->inputs[input];
    char *data = block_take(order, each * count);
    *view = (struct tensor_view){.data = data, .bytes = each * count};
    if (order->model->signature.batched)
        view->dims[view->dim_count++] = count;
    for (uint32_t d = 0; d < dim_count; d++)
        view->dims[view->dim_count++] = dims[d];
    return data;
}

/* Takes memory for images that become the input as they are. */
static int pixels_take(const struct order *order, uint32_t input, struct preparation_item *items, uint32_t count,
                       struct sy_error *err) {
    const int64_t dims[] = {items[0].header.height, items[0].header.width, IMAGE_CHANNELS};
    size_t each = image_bytes(&items[0]);
    char *data = input_take(order, input, count, each, dims, IMAGE_CHANNELS);
    if (!data)
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++)
        items[i].rgb = (uint8_t *)data + i * each;
    return 0;
}

/* Takes memory for what a model makes. */
static int made_take(const struct order *order, uint32_t input, struct preparation_item *items, uint32_t count,
                     struct sy_error *err) {
    const struct served_preparation *how = &order->model->preparations[input];
    struct tensor_view made = {.dim_count = 0};
    if (how->lead)
        made.dims[made.dim_count++] = 1;
    for (uint32_t d = 0; d < how->made_dim_count; d++)
        made.dims[made.dim_count++] = how->made_dims[d];
    made.bytes = (size_t)dims_product(made.dims, 0, made.dim_count) * datatype_bytes(how->transform->output.type);
    char *data = input_take(order, input, count, made.bytes, how->made_dims, how->made_dim_count);
    if (!data)
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        items[i].made = made;
        items[i].made.data = data + i * made.bytes;
    }
    return 0;
}

static int input_make(const struct order *order, uint32_t input, struct preparation_item *items, uint32_t *count,
                      struct sy_error *err) {
    const struct served_preparation *how = &order->model->preparations[input];
    int rc = how->bytes_max ? images_read(order, input, items, count, err) : rows_read(order, input, items, count, err);
    if (!rc && how->bytes_max && how->transform)
        rc = images_between(order, how->lead, items, *count, err);
    if (rc)
        return rc;
    return how->transform ? made_take(order, input, items, *count, err) : pixels_take(order, input, items, *count, err);
}

int preparation_make(struct inferences *home, const struct served_model *model, struct infer_call *call,
                     struct preparation **made, struct sy_error *err) {
    uint32_t most = call->items * tensor_set_count(model->prepared);
    int rc = 0;
    if (!home->preparer || !home->inbox)
        return error_set(err, 501, "model '%.64s' prepares its inputs, which this frontend cannot", model->name);
    struct preparation *p = slab_take(home->slab, sizeof(*p) + most * sizeof(p->items[0]));
    if (!p)
        return no_memory(err);
    memset(p, 0, offsetof(struct preparation, blocks));
    p->home = home->inbox;
    p->inferences = home;
    const struct order order = {home, model, call, p};
    for (uint32_t input = 0; input < model->signature.input_count && rc == 0; input++) {
        uint32_t count = 0;
        if (model->prepared & tensor_bit(input))
            rc = input_make(&order, input, p->items + p->item_count, &count, err);
        p->item_count += count;
    }
    if (rc) {
        preparation_free(p);
        return rc;
    }
    infer_call_shapes(call, model);
    *made = p;
    return 0;
}

void preparation_free(struct preparation *p) {
    while (p && p->block_count > 0)
        slab_give(p->blocks[--p->block_count]);
    slab_give(p);
}

/* ---- the way ---- */

int preparation_submit(struct inferences *home, struct request *request, struct preparation *p,
                       int64_t deadline_most_ns) {
    p->request = request;
    p->best_effort = request->priority == PRIORITY_BEST_EFFORT;
    request->ready_ns = preparer_promise(home->preparer, p);
    if (!request->ready_ns)
        return -ENOBUFS;
    int64_t deadline_ns = request->deadline_ns + (request->ready_ns - clock_now_ns());
    if (deadline_ns > deadline_most_ns)
        deadline_ns = deadline_most_ns;
    if (deadline_ns > request->deadline_ns)
        request->deadline_ns = deadline_ns;
    p->give_up_ns = request->late_until_ns > 0 ? request->late_until_ns : request->deadline_ns;
    request->preparing = true;
    int rc = port_submit(home->port, request);
    if (rc < 0) {
        preparer_forget(home->preparer);
        return rc;
    }
    home->preparing++;
    list_append(&home->preparations, &p->under_way);
    p->unready = port_unready(home->port, request);
    preparer_submit(home->preparer, p);
    return 0;
}

void preparation_returned(struct preparation *p) {
    struct inferences *home = p->inferences;
    p->over = true;
    home->preparing--;
    list_remove(&p->under_way);
    preparer_forget(home->preparer);
    struct model_infer_counters *counters = &p->inferences->counters.models[p->request->model];
    counter_add(&counters->preparations[p->end], 1);
    if (p->end == PREPARATION_DONE)
        histogram_add(&counters->prepare_ns, p->took_ns);
    port_prepared(home->port, p->request, p->end == PREPARATION_DONE);
    inferences_look(home);
}

void preparations_look(struct inferences *home, int64_t now_ns) {
    list_for_each (at, &home->preparations) {
        struct preparation *p = list_entry(at, struct preparation, under_way);
        if (p->give_up_ns < now_ns)
            port_give_up(home->port, p->request);
    }
}

void preparation_drop(struct preparation *p) {
    if (!p->over)
        preparer_drop(p->inferences->preparer, p);
}

void preparation_waited(struct preparation *p) {
    if (!p)
        return;
    counter_add(&p->inferences->counters.models[p->request->model].left_out, p->request->left_out);
    preparation_drop(p);
}

unsigned preparation_failed(const struct preparation *p, struct sy_error *err) {
    if (!p || !p->over || (p->end != PREPARATION_BAD && p->end != PREPARATION_FAILED))
        return 0;
    return (unsigned)error_set(err, p->end == PREPARATION_BAD ? 400 : 500, "%s", p->error.text);
}
