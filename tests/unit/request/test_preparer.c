/* test_preparer.c - images there and back: what is promised, what is not tried, who is told. */
#include <png.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "request/inbox.h"
#include "request/preparer.h"
#include "unit/cmocka_all.h"

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
    (void)state;
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
    (void)state;
    free(file);
    close(home.wake_fd);
    return 0;
}

/* One of `count` images, of which the last is cut off if `bad`. */
static void work_make(struct work *work, uint32_t count, bool bad) {
    work->preparation = calloc(1, sizeof(*work->preparation) + count * sizeof(work->preparation->images[0]));
    work->rgb = malloc(count * sizeof(pixels));
    atomic_init(&work->unready, 1);
    *work->preparation =
        (struct preparation){.home = &home, .give_up_ns = TIME_NEVER, .image_count = count, .unready = &work->unready};
    for (uint32_t i = 0; i < count; i++)
        work->preparation->images[i] = (struct preparation_image){
            .header = {IMAGE_KIND_PNG, SIDE, SIDE},
            .data = file,
            .bytes = bad && i == count - 1 ? file_bytes / 2 : file_bytes,
            .rgb = work->rgb + i * sizeof(pixels),
            .input = "x",
            .item = i,
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

static void all_images_are_there_before_anybody_is_told(void **state) {
    struct preparer *preparer;
    struct work work;
    (void)state;
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

static void a_bad_image_is_named(void **state) {
    struct preparer *preparer;
    struct work work;
    (void)state;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_make(&work, 3, true);
    assert_int_equal(through(preparer, &work)->end, PREPARATION_BAD);
    assert_non_null(strstr(work.preparation->error.text, "input 'x': image 2 cannot be decoded"));
    assert_int_equal(atomic_load(&work.unready), 1);
    work_free(&work);
    preparer_destroy(preparer);
}

static void what_nobody_waits_for_is_not_tried(void **state) {
    struct preparer *preparer;
    struct work late, dropped;
    (void)state;
    assert_int_equal(preparer_create(&preparer, 1, NULL), 0);
    assert_int_equal(preparer_start(preparer, NULL), 0);
    work_make(&late, 1, false);
    work_make(&dropped, 1, false);
    late.preparation->give_up_ns = clock_now_ns() - 1;
    atomic_store(&dropped.preparation->dropped, true);
    assert_int_equal(through(preparer, &late)->end, PREPARATION_LATE);
    assert_int_equal(through(preparer, &dropped)->end, PREPARATION_LATE);
    assert_int_equal(atomic_load(&late.unready) + atomic_load(&dropped.unready), 2);
    work_free(&late);
    work_free(&dropped);
    preparer_destroy(preparer);
}

/* A promise counts what waits before it, by what such images took. */
static void promises_follow_the_work(void **state) {
    enum { COUNT = 50 };
    struct preparer *preparer;
    struct work works[COUNT];
    (void)state;
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
    assert_in_range(preparer_promise(preparer, after.preparation) - begun_ns, after.preparation->estimate_ns,
                    after.preparation->estimate_ns + NS_PER_S);     /* nothing is ahead any more */
    assert_int_not_equal(after.preparation->estimate_ns, guess_ns); /* it is measured by now */
    preparer_forget(preparer);
    work_free(&after);
    preparer_destroy(preparer);
}

static void places_are_bounded(void **state) {
    struct preparer *preparer;
    struct work work;
    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_images_are_there_before_anybody_is_told),
        cmocka_unit_test(a_bad_image_is_named),
        cmocka_unit_test(what_nobody_waits_for_is_not_tried),
        cmocka_unit_test(promises_follow_the_work),
        cmocka_unit_test(places_are_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
