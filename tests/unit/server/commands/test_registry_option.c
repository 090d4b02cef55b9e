/* test_registry_option.c - the options that name etcd: what goes with what, and which option a sentence names. */
#include "server/commands/registry_option.h"

#include <string.h>
#include <sys/stat.h>

#include "unit/test.h"
#include "unit/text_file.h"

static const char plain[] = "etcd://a:2379/prod", tls[] = "etcds://a:2379,b:2379/prod";

TEST(files_go_with_tls) {
    char file[64], login[64], pipe[64];
    const char *missing = "/nowhere/file";
    text_file(pipe, "", 0);
    unlink(pipe);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    text_file(file, "x\n", 2);
    text_file(login, "user:password\n", 14);
    const struct {
        const char *url;
        struct registry_files files;
        const char *says; /* NULL: it is right */
    } cases[] = {
        {plain, {.ca = NULL, .cert = NULL, .key = NULL, .login = NULL}, NULL},
        {plain, {.ca = NULL, .cert = NULL, .key = NULL, .login = login}, NULL},
        {tls, {.ca = file, .cert = file, .key = file, .login = login}, NULL},
        {tls, {.ca = NULL, .cert = NULL, .key = NULL, .login = NULL}, NULL},
        {"http://a:2379/prod", {.ca = NULL, .cert = NULL, .key = NULL, .login = NULL}, "--registry: "},
        {plain, {.ca = file, .cert = NULL, .key = NULL, .login = NULL}, "--registry-ca is of TLS: --registry etcds"},
        {plain, {.ca = NULL, .cert = file, .key = file, .login = NULL}, "--registry-cert is of TLS"},
        {tls, {.ca = NULL, .cert = file, .key = NULL, .login = NULL}, "--registry-cert and --registry-key go together"},
        {tls, {.ca = NULL, .cert = NULL, .key = file, .login = NULL}, "--registry-cert and --registry-key go together"},
        {tls, {.ca = missing, .cert = NULL, .key = NULL, .login = NULL}, "--registry-ca: '"},
        {tls, {.ca = NULL, .cert = file, .key = missing, .login = NULL}, "--registry-key: '"},
        {tls, {.ca = pipe, .cert = NULL, .key = NULL, .login = NULL}, "--registry-ca: '"},
        {tls,
         {.ca = NULL, .cert = "/dev/zero", .key = file, .login = NULL},
         "--registry-cert: '/dev/zero': not a file"},
        {tls, {.ca = NULL, .cert = file, .key = pipe, .login = NULL}, "--registry-key: '"},
        {plain, {.ca = NULL, .cert = NULL, .key = NULL, .login = missing}, "--registry-login: "},
        {plain, {.ca = NULL, .cert = NULL, .key = NULL, .login = file}, "--registry-login: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct registry_place place = {.tls = false};
        struct sy_error err = {.text = ""};
        int rc = registry_option_read(cases[i].url, &cases[i].files, &place, &err);
        if (cases[i].says) {
            assert_true(rc < 0);
            assert_memory_equal(err.text, cases[i].says, strlen(cases[i].says));
            assert_null(strstr(err.text, "x\n")); /* nothing of what is in a file */
            continue;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(place.tls, cases[i].url == tls);
        assert_ptr_equal(place.ca, cases[i].files.ca);
        assert_ptr_equal(place.cert, cases[i].files.cert);
        assert_ptr_equal(place.key, cases[i].files.key);
        assert_ptr_equal(place.login, cases[i].files.login);
    }
    unlink(file);
    unlink(login);
    unlink(pipe);
}
