/* groups.c - the program of a folder's unit tests. A file of tests is a group, and runs in a process of its own. Its
 * tests list themselves (cmocka_all.h); what more there is to do is in its main(), which has the group's name here (the
 * build renames it).
 *
 * usage: unit_FOLDER GROUP   that group, in this process
 *        unit_FOLDER         all groups, each in a child process
 *
 * Some groups start their own program again, with other arguments: it finds its group in UNIT_GROUP. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"

static const struct group {
    const char *name;
    bool threads;       /* its file says "Starts threads." */
    int (*plain)(void); /* its main(), by either type; both NULL: it has none */
    int (*given)(int argc, char **argv);
} groups[] = {UNIT_GROUPS};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

/* ThreadSanitizer is given the groups that say that they start threads: so the others may not. The linker puts this in
 * place of pthread_create(). */
static atomic_bool threads_started; /* relaxed: main() reads what its own calls led to */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
    atomic_store_explicit(&threads_started, true, memory_order_relaxed);
    return __real_pthread_create(thread, attr, start, arg);
}

static int group_run(const struct group *group, int argc, char **argv) {
    setenv("UNIT_GROUP", group->name, 1);
    int rc = group->plain   ? group->plain()
             : group->given ? group->given(argc, argv)
                            : group_tests_run(group->name, NULL, NULL);
    if (rc == 0 && !group->threads && atomic_load_explicit(&threads_started, memory_order_relaxed)) {
        fprintf(stderr, "%s: it starts threads; write the line \"Starts threads.\" as in other files that do\n",
                group->name);
        rc = 1;
    }
    return rc;
}

static const struct group *group_find(const char *name) {
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0)
            return &groups[i];
    return NULL;
}

int main(int argc, char **argv) {
    const char *again = getenv("UNIT_GROUP");
    const struct group *group = again ? group_find(again) : argc == 2 ? group_find(argv[1]) : NULL;
    if (group)
        return group_run(group, again ? argc : 1, argv);
    if (again || argc > 1) {
        fprintf(stderr, "usage: %s [GROUP]; the groups are:", argv[0]);
        for (size_t i = 0; i < GROUPS; i++)
            fprintf(stderr, " %s", groups[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    int failed = 0;
    for (size_t i = 0; i < GROUPS; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            exit(group_run(&groups[i], 1, argv));
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
        if (status != 0) {
            fprintf(stderr, "%s: %s %d\n", groups[i].name, WIFSIGNALED(status) ? "ended by signal" : "failed with",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            failed++;
        }
    }
    return failed > 0;
}
