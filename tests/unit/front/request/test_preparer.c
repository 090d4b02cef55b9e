/* test_preparer.c - images there and back: what is promised, what is not tried, who is told. */
/* Starts threads. */
#include <errno.h>
#include <png.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "front/bulk/inbox.h"
#include "front/request/preparer.h"
#include "unit/test.h"

#define SIDE 100

struct work {
    struct preparation *preparation;
    uint8_t *rgb;
    _Atomic uint8_t unready;
};

static struct inbox home;
static uint8_t *file;
static size_t file_bytes;
static uint8_t pixels[SIDE * SIDE * 3];

static int set_up(void **state) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB};
    png_alloc_size_t needed = 0;
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * i / 7);
    png_image_write_to_memory(&image, NULL, &needed, 0, pixels, 0, NULL);
    file = malloc(needed);
    png_image_write_to_memory(&image, file, &needed, 0, pixels, 0, NULL);
    file_bytes = needed;
    home = (struct inbox){.wake_fd = eventfd(0, 0)};
    return file ? 0 : -1;
}

static int tear_down(void **state) {
    free(file);
    close(home.wake_fd);
    return 0;
}

/* One of `count` images, of which the last is cut off if `bad`. */
static void work_make(struct work *work, uint32_t count, bool bad) {
    work->preparation = calloc(1, sizeof(*work->preparation) + count * sizeof(work->preparation->items[0]));
    work->rgb = malloc(count * sizeof(pixels));
    atomic_init(&work->unready, 1);
    *work->preparation =
        (struct preparation){.home = &home, .give_up_ns = TIME_NEVER, .item_count = count, .unready = &work->unready};
    for (uint32_t i = 0; i < count; i++)
        work->preparation->items[i] = (struct preparation_item){
            .header = {IMAGE_KIND_PNG, SIDE, SIDE},
            .file = file,
            .file_bytes = bad && i == count - 1 ? file_bytes / 2 : file_bytes,
            .rgb = work->rgb + i * sizeof(pixels),
            .input = "x",
            .number = i,
        };
}

static void work_free(struct work *work) {
    free(work->preparation);
    free(work->rgb);
}

static struct preparation *returned(void) {
    struct preparation *preparation;
    while (!(preparation = preparations_returned(&home)))
        sched_yield();
    return preparation;
}

static struct preparation *through(struct preparer *preparer, struct work *work) {
    int64_t now_ns = clock_now_ns();
    assert_true(preparer_promise(preparer, work->preparation) > now_ns);
    preparer_submit(preparer, work->preparation);
    struct preparation *back = returned();
    preparer_forget(preparer);
    assert_ptr_equal(back, work->preparation);
    assert_null(preparation_next(back));
    return back;
}

TEST(all_images_are_there_before_anybody_is_told) {
    struct preparer *preparer;
    struct work work;
    assert_int_equal(preparer_create(&preparer, 2, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_make(&work, 3, false);
    assert_int_equal(through(preparer, &work)->end, PREPARATION_DONE);
    assert_int_equal(atomic_load(&work.unready), 0);
    assert_true(work.preparation->took_ns > 0);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(work.rgb + i * sizeof(pixels), pixels, sizeof(pixels));
    work_free(&work);
    preparer_destroy(preparer);
}

TEST(a_bad_image_is_named) {
    struct preparer *preparer;
    struct work work;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_make(&work, 3, true);
    assert_int_equal(through(preparer, &work)->end, PREPARATION_BAD);
    assert_non_null(strstr(work.preparation->error.text, "input 'x': image 2 cannot be decoded"));
    assert_int_equal(atomic_load(&work.unready), 1);
    work_free(&work);
    preparer_destroy(preparer);
}

TEST(what_nobody_waits_for_is_not_tried) {
    struct preparer *preparer;
    struct work late, dropped;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_make(&late, 1, false);
    work_make(&dropped, 1, false);
    late.preparation->give_up_ns = clock_now_ns() - 1;
    atomic_store(&dropped.preparation->dropped, true);
    atomic_store(&dropped.preparation->halt, true);
    assert_int_equal(through(preparer, &late)->end, PREPARATION_LATE);
    assert_int_equal(through(preparer, &dropped)->end, PREPARATION_LATE);
    assert_int_equal(atomic_load(&late.unready) + atomic_load(&dropped.unready), 2);
    work_free(&late);
    work_free(&dropped);
    preparer_destroy(preparer);
}

/* A promise counts what waits before it, by what such images took. */
TEST(promises_follow_the_work) {
    enum { COUNT = 50 };
    struct preparer *preparer;
    struct work works[COUNT];
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    int64_t last_ns = 0, guess_ns = 0;
    for (int i = 0; i < COUNT; i++) {
        work_make(&works[i], 4, false);
        int64_t ready_ns = preparer_promise(preparer, works[i].preparation);
        guess_ns = guess_ns ? guess_ns : works[i].preparation->estimate_ns;
        assert_true(i == 0 || ready_ns > last_ns || ready_ns < clock_now_ns() + COUNT * guess_ns);
        last_ns = ready_ns;
        preparer_submit(preparer, works[i].preparation);
    }
    for (int back = 0; back < COUNT;)
        for (struct preparation *p = returned(); p; p = preparation_next(p), back++)
            preparer_forget(preparer);
    for (int i = 0; i < COUNT; i++)
        work_free(&works[i]);
    struct work after;
    work_make(&after, 4, false);
    int64_t begun_ns = clock_now_ns();
    int64_t ready_ns = preparer_promise(preparer, after.preparation);
    /* nothing is ahead any more */
    assert_in_range(ready_ns - after.preparation->estimate_ns, begun_ns, clock_now_ns());
    assert_int_not_equal(after.preparation->estimate_ns, guess_ns); /* it is measured by now */
    preparer_forget(preparer);
    work_free(&after);
    preparer_destroy(preparer);
}

/* ---- models that prepare ---- */

/* Stands for a model that adds 1 to each byte; or fails if there is a 7; or runs until it is stopped if there is an 8.
 */
static _Atomic int stuck, stops;

static int fake_run(struct transform *transform, struct transform_stop *stop, const struct tensor_view *input,
                    const struct tensor_view *output, struct sy_error *err) {
    const uint8_t *from = input->data;
    uint8_t *to = output->data;
    if (from[0] == 8) {
        atomic_fetch_add(&stuck, 1);
        while (!atomic_load((_Atomic bool *)stop))
            sched_yield();
        return error_set(err, -EIO, "stopped");
    }
    if (atomic_load((_Atomic bool *)stop))
        return error_set(err, -EIO, "still stopped");
    for (size_t i = 0; i < input->bytes; i++)
        to[i] = (uint8_t)(from[i] + 1);
    return from[0] == 7 ? error_set(err, -EIO, "sevens do not run") : 0;
}

static struct transform_stop *fake_stop_new(void) {
    atomic_fetch_add(&stops, 1);
    return calloc(1, sizeof(_Atomic bool));
}

static void fake_stop_free(struct transform_stop *stop) {
    atomic_fetch_sub(&stops, 1);
    free(stop);
}

static void fake_stop(struct transform_stop *stop, bool wanted) {
    atomic_store((_Atomic bool *)stop, wanted);
}

static const struct transform_ops fake_ops = {
    .run = fake_run, .stop_new = fake_stop_new, .stop_free = fake_stop_free, .stop = fake_stop};

/* Of `count` items of 4 bytes, which all are `byte`. */
static void work_transform(struct work *work, struct transform *transform, uint32_t count, uint8_t byte) {
    work_make(work, count, false);
    memset(work->rgb, byte, count * sizeof(pixels));
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *from = work->rgb + i * sizeof(pixels);
        work->preparation->items[i] = (struct preparation_item){
            .input = "x",
            .number = i,
            .transform = transform,
            .transform_name = "p.onnx",
            .given = {.data = from, .bytes = 4, .dim_count = 1, .dims = {4}},
            .made = {.data = from + 8, .bytes = 4, .dim_count = 1, .dims = {4}},
        };
    }
}

TEST(a_model_makes_each_item) {
    struct transform transform = {.ops = &fake_ops, .pace = {.mean_ns = 1e6}};
    struct preparer *preparer;
    struct work work, image;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_transform(&work, &transform, 3, 40);
    assert_int_equal(through(preparer, &work)->end, PREPARATION_DONE);
    assert_true(work.preparation->estimate_ns >= 3 * 4 * 1000000); /* by elements, at the guessed pace */
    assert_int_equal(atomic_load(&work.unready), 0);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(work.rgb + i * sizeof(pixels) + 8, "))))", 4);
    assert_true(transform.pace.measured);
    work_free(&work);

    work_make(&image, 1, false); /* an image first: the model gets its pixels */
    uint8_t *made = malloc(sizeof(pixels));
    struct preparation_item *item = &image.preparation->items[0];
    item->transform = &transform;
    item->given = (struct tensor_view){
        .data = image.rgb, .bytes = sizeof(pixels), .dim_count = 1, .dims = {(int64_t)sizeof(pixels)}};
    item->made = item->given;
    item->made.data = made;
    assert_int_equal(through(preparer, &image)->end, PREPARATION_DONE);
    for (size_t i = 0; i < sizeof(pixels); i++)
        assert_int_equal(made[i], (uint8_t)(pixels[i] + 1));
    free(made);
    work_free(&image);
    preparer_destroy(preparer);
    assert_int_equal(atomic_load(&stops), 0);
}

/* What any run costs is not taken for the cost of the few elements that were there. */
TEST(a_small_run_says_little_about_large_ones) {
    enum { LARGE = 1 << 20 };
    struct transform transform = {.ops = &fake_ops};
    struct preparer *preparer;
    struct work work;
    int64_t promised_ns[2];
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_transform(&work, &transform, 1, 40);
    int64_t begun_ns = clock_now_ns();
    assert_int_equal(through(preparer, &work)->end, PREPARATION_DONE);
    assert_true(transform.pace.mean_ns * 4096 <= (double)(clock_now_ns() - begun_ns)); /* not by its four elements */
    transform.pace.mean_ns = 1000;
    for (int i = 0; i < 2; i++) {
        work.preparation->items[0].given.dims[0] = i == 0 ? 4 : LARGE;
        assert_true(preparer_promise(preparer, work.preparation) > 0);
        promised_ns[i] = work.preparation->estimate_ns;
        preparer_forget(preparer);
    }
    /* of a quarter million times the elements */
    assert_in_range(promised_ns[1], 2 * promised_ns[0], 1000 * promised_ns[0]);
    work_free(&work);
    preparer_destroy(preparer);
}

TEST(a_model_that_fails_is_named) {
    struct transform transform = {.ops = &fake_ops};
    struct preparer *preparer;
    struct work work;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_transform(&work, &transform, 2, 7);
    assert_int_equal(through(preparer, &work)->end, PREPARATION_FAILED);
    assert_non_null(strstr(work.preparation->error.text, "input 'x': item 0: p.onnx failed: sevens do not run"));
    assert_int_equal(atomic_load(&work.unready), 1);
    assert_false(transform.pace.measured);
    work_free(&work);
    preparer_destroy(preparer);
}

/* A run for which nobody waits any more is stopped, and only that one. */
TEST(a_run_for_nobody_is_stopped) {
    struct transform transform = {.ops = &fake_ops};
    struct preparer *preparer;
    struct work hung, next;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    for (int round = 1; round <= 3; round++) {
        work_transform(&hung, &transform, 2, 8);
        work_transform(&next, &transform, 2, 1);
        assert_true(preparer_promise(preparer, hung.preparation) > 0);
        preparer_submit(preparer, hung.preparation);
        while (atomic_load(&stuck) < round)
            sched_yield();
        preparer_drop(preparer, hung.preparation);
        assert_ptr_equal(returned(), hung.preparation);
        preparer_forget(preparer);
        assert_int_equal(hung.preparation->end, PREPARATION_LATE);
        assert_int_equal(through(preparer, &next)->end, PREPARATION_DONE);
        work_free(&hung);
        work_free(&next);
    }
    preparer_destroy(preparer);
}

/* Clients that leave, or ask for what cannot be, cost the others nothing: their images do not count in promises, and
 * are back before a thread has looked at them. */
TEST(what_is_dropped_waits_no_longer) {
    enum { COUNT = 8 };
    struct preparer *preparer;
    struct work works[COUNT], kept;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0); /* no thread runs yet */
    work_make(&kept, 1, false);
    for (int i = 0; i < COUNT; i++) {
        work_make(&works[i], 1000, false);
        assert_true(preparer_promise(preparer, works[i].preparation) > 0);
        preparer_submit(preparer, works[i].preparation);
    }
    int64_t ahead_ns = COUNT * works[0].preparation->estimate_ns, begun_ns = clock_now_ns();
    assert_true(preparer_promise(preparer, kept.preparation) > begun_ns + ahead_ns / 2);
    preparer_forget(preparer);
    for (int i = 0; i < COUNT; i++) {
        preparer_drop(preparer, works[i].preparation);
        preparer_drop(preparer, works[i].preparation); /* once more is no mistake */
        assert_ptr_equal(returned(), works[i].preparation);
        assert_int_equal(works[i].preparation->end, PREPARATION_LATE);
        preparer_forget(preparer);
    }
    int64_t before_ns = clock_now_ns(), ready_ns = preparer_promise(preparer, kept.preparation);
    assert_in_range(ready_ns - kept.preparation->estimate_ns, before_ns, clock_now_ns());
    preparer_submit(preparer, kept.preparation);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    assert_ptr_equal(returned(), kept.preparation);
    assert_int_equal(kept.preparation->end, PREPARATION_DONE);
    for (int i = 0; i < COUNT; i++)
        work_free(&works[i]);
    work_free(&kept);
    preparer_destroy(preparer);
}

static void submit(struct preparer *preparer, struct work *work) {
    assert_true(preparer_promise(preparer, work->preparation) > 0);
    preparer_submit(preparer, work->preparation);
}

/* Best effort waits for all others, and counts in none of their promises. What runs for it gives way, and is begun
 * again where it was: at the item that it had not finished. */
TEST(best_effort_gives_way) {
    struct transform transform = {.ops = &fake_ops};
    struct preparer *preparer;
    struct work gap, next_gap, hurry;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    work_make(&next_gap, 1000, false);
    next_gap.preparation->best_effort = true;
    work_transform(&gap, &transform, 2, 1);
    gap.preparation->best_effort = true;
    memset(gap.preparation->items[1].given.data, 8, 4); /* the second item hangs until it is stopped */
    submit(preparer, &gap);
    submit(preparer, &next_gap);
    work_make(&hurry, 1, false);
    int64_t ready_ns = preparer_promise(preparer, hurry.preparation);
    assert_true(ready_ns - clock_now_ns() < next_gap.preparation->estimate_ns / 2);
    preparer_forget(preparer);
    int stuck_before = atomic_load(&stuck);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    for (int round = 1; round <= 3; round++) {
        while (atomic_load(&stuck) < stuck_before + round)
            sched_yield();
        submit(preparer, &hurry);
        assert_ptr_equal(returned(), hurry.preparation);
        assert_int_equal(hurry.preparation->end, PREPARATION_DONE);
        preparer_forget(preparer);
        hurry.preparation->next_item = 0;
    }
    while (atomic_load(&stuck) < stuck_before + 4)
        sched_yield();
    preparer_drop(preparer, gap.preparation);
    assert_ptr_equal(returned(), gap.preparation);
    assert_int_equal(gap.preparation->end, PREPARATION_LATE);
    assert_int_equal(gap.preparation->next_item, 1);
    assert_ptr_equal(returned(), next_gap.preparation);
    assert_int_equal(next_gap.preparation->end, PREPARATION_DONE);
    work_free(&gap);
    work_free(&next_gap);
    work_free(&hurry);
    preparer_destroy(preparer);
}

/* A promise that is too long gets its requests refused, so that nothing is prepared to the end, and measured. */
TEST(a_promise_that_is_too_long_is_corrected) {
    struct transform transform = {.ops = &fake_ops, .pace = {.mean_ns = 1e9, .measured = true}};
    struct preparer *preparer;
    struct work work;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    work_transform(&work, &transform, 1, 1);
    assert_true(preparer_promise(preparer, work.preparation) > 0);
    int64_t too_long_ns = work.preparation->estimate_ns;
    preparer_submit(preparer, work.preparation);
    preparer_drop(preparer, work.preparation);
    assert_ptr_equal(returned(), work.preparation);
    preparer_forget(preparer);
    assert_true(preparer_promise(preparer, work.preparation) > 0);
    assert_true(work.preparation->estimate_ns < too_long_ns * 3 / 4);
    work_free(&work);
    preparer_destroy(preparer);
}

TEST(places_are_bounded) {
    struct preparer *preparer;
    struct work work;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_make(&work, 1, false);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PREPARATIONS_MAX; i++)
            assert_true(preparer_promise(preparer, work.preparation) > 0);
        assert_int_equal(preparer_promise(preparer, work.preparation), 0);
        assert_int_equal(preparer_promise(preparer, work.preparation), 0);
        for (int i = 0; i < PREPARATIONS_MAX; i++)
            preparer_forget(preparer);
    }
    work_free(&work);
    preparer_destroy(preparer);
}

int main(void) {
    return tests_run(set_up, tear_down);
}
