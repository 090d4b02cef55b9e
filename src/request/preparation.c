/* preparation.c - from a request's images to a preparation, and back. */
#include "request/preparation.h"

#include <errno.h>

#include "base/assert.h"
#include "base/container.h"
#include "base/counter.h"
#include "request/inference.h"
#include "request/preparer.h"
#include "tensor/strings.h"

/* ---- checks ---- */

/* Whether an image of this size is what the model takes. */
static int image_check(const struct served_model *model, uint32_t input, const struct preparation_image *image,
                       struct sy_error *err) {
    const struct served_preparation *limits = &model->preparations[input];
    const struct tensor_spec *spec = &model->signature.inputs[input];
    const int64_t *dims = spec->dims + spec->rank - IMAGE_CHANNELS; /* height, width, channels */
    const struct image_header *header = &image->header;
    uint64_t pixels = image_pixels(header);
    if (pixels > limits->pixels_max)
        return error_set(err, 400,
                         "input '%.64s': image %u has %u x %u pixels, %llu bytes once decoded; model '%.64s' takes at "
                         "most %u pixels (max_pixels in its symphony.yaml)",
                         spec->name, image->item, header->width, header->height,
                         (unsigned long long)pixels * IMAGE_CHANNELS, model->name, limits->pixels_max);
    if ((dims[0] >= 0 && header->height != dims[0]) || (dims[1] >= 0 && header->width != dims[1]))
        return error_set(err, 400,
                         "input '%.64s': image %u is %u pixels high and %u wide, but model '%.64s' takes "
                         "[height,width] [%lld,%lld]",
                         spec->name, image->item, header->height, header->width, model->name, (long long)dims[0],
                         (long long)dims[1]);
    return 0;
}

static int image_read(const struct served_model *model, uint32_t input, const struct string *file,
                      struct preparation_image *image, struct sy_error *err) {
    const char *name = model->signature.inputs[input].name;
    struct sy_error why;
    if (file->length > model->preparations[input].bytes_max)
        return error_set(err, 400,
                         "input '%.64s': image %u has %zu bytes; model '%.64s' takes at most %u (max_bytes in its "
                         "symphony.yaml)",
                         name, image->item, file->length, model->name, model->preparations[input].bytes_max);
    if (image_header_read(file->data, file->length, &image->header, &why) < 0)
        return error_set(err, 400, "input '%.64s': image %u %.400s", name, image->item, why.text);
    image->data = file->data;
    image->bytes = file->length;
    image->input = name;
    return image_check(model, input, image, err);
}

/* Reads the images of one input into images[], which has room; all must be of one size. */
static int input_read(const struct inference *inference, uint32_t input, struct preparation_image *images,
                      uint32_t *count, struct sy_error *err) {
    const struct tensor_view *view = &inference->call.inputs[input];
    const char *at = view->data, *end = at + view->bytes;
    struct string file;
    int rc = 0;
    for (*count = 0; rc == 0 && strings_next(&at, end, &file) > 0; ++*count) {
        images[*count] = (struct preparation_image){.item = *count};
        rc = image_read(inference->model, input, &file, &images[*count], err);
        if (!rc && (images[*count].header.width != images[0].header.width ||
                    images[*count].header.height != images[0].header.height))
            rc = error_set(err, 400,
                           "input '%.64s': image %u has %u x %u pixels, but image 0 of the same request has %u x %u",
                           images[*count].input, *count, images[*count].header.width, images[*count].header.height,
                           images[0].header.width, images[0].header.height);
    }
    return rc;
}

/* ---- memory ---- */

/* Takes memory for the pixels of an input's images, and puts the tensor in the strings' place. */
static int pixels_take(struct inference *inference, uint32_t input, struct preparation_image *images, uint32_t count,
                       struct sy_error *err) {
    struct tensor_view *view = &inference->call.inputs[input];
    size_t each = (size_t)image_pixels(&images[0].header) * IMAGE_CHANNELS;
    uint8_t *rgb = inference_block(inference, each * count);
    if (!rgb)
        return error_set(err, 503, "the memory for inputs is exhausted");
    for (uint32_t i = 0; i < count; i++)
        images[i].rgb = rgb + i * each;
    *view = (struct tensor_view){.data = rgb, .bytes = each * count};
    if (inference->model->signature.batched)
        view->dims[view->rank++] = count;
    view->dims[view->rank++] = images[0].header.height;
    view->dims[view->rank++] = images[0].header.width;
    view->dims[view->rank++] = IMAGE_CHANNELS;
    return 0;
}

int preparation_make(struct inference *inference, struct sy_error *err) {
    const struct inferences *home = inference->home;
    const struct served_model *model = inference->model;
    uint32_t most = inference->call.items * (uint32_t)__builtin_popcount(model->prepared), at = 0;
    int rc = 0;
    if (!home->preparer || !home->inbox)
        return error_set(err, 501, "model '%.64s' prepares its inputs, which this frontend cannot", model->name);
    struct preparation *p = inference_block(inference, sizeof(*p) + most * sizeof(p->images[0]));
    if (!p)
        return error_set(err, 503, "the memory for inputs is exhausted");
    *p = (struct preparation){.home = home->inbox, .inference = inference};
    for (uint32_t input = 0; input < model->signature.input_count && rc == 0; input++) {
        uint32_t count;
        if (!(model->prepared & 1u << input))
            continue;
        rc = input_read(inference, input, p->images + at, &count, err);
        if (rc == 0)
            rc = pixels_take(inference, input, p->images + at, count, err);
        at += rc == 0 ? count : 0;
    }
    if (rc)
        return rc;
    p->image_count = at;
    infer_call_shapes(&inference->call, model);
    inference->preparation = p;
    return 0;
}

/* ---- the way ---- */

int preparation_submit(struct inference *inference) {
    struct inferences *home = inference->home;
    struct preparation *p = inference->preparation;
    struct request *request = &inference->request;
    p->give_up_ns = request->late_until_ns > 0 ? request->late_until_ns : request->deadline_ns;
    request->ready_ns = preparer_promise(home->preparer, p);
    if (!request->ready_ns)
        return -ENOBUFS;
    request->preparing = true;
    int rc = port_submit(home->port, request);
    if (rc < 0) {
        preparer_forget(home->preparer);
        return rc;
    }
    home->preparing++;
    p->unready = port_unready(home->port, request);
    preparer_submit(home->preparer, p);
    return 0;
}

static void preparation_count(const struct preparation *p, const struct inference *inference) {
    struct model_infer_counters *counters = &inference->home->counters.models[inference->request.model];
    counter_add(&counters->preparations[p->end], 1);
    if (p->end == PREPARATION_DONE)
        histogram_add(&counters->prepare_ns, p->took_ns);
}

void preparation_returned(struct preparation *p) {
    struct inference *inference = p->inference;
    struct inferences *home = inference->home;
    p->over = true;
    home->preparing--;
    preparer_forget(home->preparer);
    preparation_count(p, inference);
    port_prepared(home->port, &inference->request, p->end == PREPARATION_DONE);
    inferences_look(home);
}

void preparation_drop(struct preparation *p) {
    atomic_store_explicit(&p->dropped, true, memory_order_relaxed); /* only work is saved by it */
}

bool preparation_failed(const struct preparation *p, struct sy_error *err) {
    if (!p->over || p->end != PREPARATION_BAD)
        return false;
    error_set(err, 0, "%s", p->error.text);
    return true;
}
