/* test_transport.c - the best transport that both have, and a sentence for those that have none in common. */
#include <errno.h>
#include <string.h>

#include "cluster/roles/transport.h"
#include "unit/test.h"

#define SHM    TRANSPORT_BIT(TRANSPORT_SHM)
#define FABRIC TRANSPORT_BIT(TRANSPORT_FABRIC)
#define TCP    TRANSPORT_BIT(TRANSPORT_TCP)
#define NONE   TRANSPORTS

TEST(the_best_that_both_have) {
    static const struct {
        struct hello frontend, backend;
        bool local;
        int wanted;
    } cases[] = {
        {{.transports = SHM | TCP}, {.transports = SHM | TCP}, true, TRANSPORT_SHM},
        {{.transports = SHM | TCP}, {.transports = SHM | TCP}, false, TRANSPORT_TCP},
        {{.transports = SHM | TCP}, {.transports = TCP}, true, TRANSPORT_TCP},
        {{.transports = SHM | TCP}, {.transports = SHM}, false, NONE},
        {{.transports = SHM | FABRIC | TCP, .fabric = "a"},
         {.transports = SHM | FABRIC | TCP, .fabric = "a"},
         true,
         TRANSPORT_SHM},
        {{.transports = SHM | FABRIC | TCP, .fabric = "a"},
         {.transports = SHM | FABRIC | TCP, .fabric = "a"},
         false,
         TRANSPORT_FABRIC},
        {{.transports = SHM | FABRIC | TCP, .fabric = "a"},
         {.transports = SHM | FABRIC | TCP, .fabric = "b"},
         false,
         TRANSPORT_TCP},
        {{.transports = SHM | FABRIC | TCP, .fabric = "a"}, {.transports = FABRIC, .fabric = "b"}, false, NONE},
        {{.transports = SHM | TCP}, {.transports = FABRIC, .fabric = "a"}, true, NONE},
        {{.transports = SHM | FABRIC | TCP}, {.transports = FABRIC}, true, NONE}, /* of no provider */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct sy_error err = {.text = ""};
        enum transport_kind kind = TRANSPORTS;
        int rc = transport_choose(&cases[i].frontend, &cases[i].backend, cases[i].local, &kind, &err);
        assert_int_equal(rc, cases[i].wanted == NONE ? -ENOTSUP : 0);
        assert_int_equal(kind, cases[i].wanted);
    }
}

TEST(who_is_refused_learns_what_each_has) {
    const struct hello frontend = {.transports = SHM | TCP}, backend = {.transports = FABRIC, .fabric = "verbs"};
    enum transport_kind kind;
    struct sy_error err;
    assert_int_equal(transport_choose(&frontend, &backend, false, &kind, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "the frontend has shm, tcp;"));
    assert_non_null(strstr(err.text, "the backend takes fabric (verbs)"));
}
