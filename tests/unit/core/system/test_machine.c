/* test_machine.c - the least limits of a control group and those above it count. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "core/system/machine.h"
#include "core/system/thread.h"
#include "unit/test.h"

static char mount[] = "/tmp/symphony-machine-XXXXXX";

static void file_write(const char *group, const char *name, const char *limit) {
    char path[256];
    snprintf(path, sizeof(path), "%s%s/%s", mount, group, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(limit, file);
    fclose(file);
}

static int set_up(void **state) {
    char path[256];
    (void)state;
    assert_non_null(mkdtemp(mount));
    snprintf(path, sizeof(path), "%s/pods", mount);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/pods/one", mount);
    assert_int_equal(mkdir(path, 0700), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return folder_remove(mount);
}

TEST(the_least_limit_counts) {
    assert_true(machine_group_memory_bytes(mount, "/pods/one") == UINT64_MAX); /* no files */
    file_write("/pods/one", "memory.limit_in_bytes", "2500000000\n");          /* version 1 */
    assert_true(machine_group_memory_bytes(mount, "/pods/one") == 2500000000);
    file_write("/pods/one", "memory.max", "max\n"); /* version 2 */
    assert_true(machine_group_memory_bytes(mount, "/pods/one") == UINT64_MAX);
    file_write("/pods", "memory.max", "3000000000\n");
    assert_true(machine_group_memory_bytes(mount, "/pods/one") == 3000000000);
    file_write("/pods/one", "memory.max", "2000000000\n");
    assert_true(machine_group_memory_bytes(mount, "/pods/one") == 2000000000);
    assert_true(machine_group_memory_bytes(mount, "/pods") == 3000000000);
    file_write("", "memory.max", "1000000000\n"); /* in a namespace of its own a group is the root */
    assert_true(machine_group_memory_bytes(mount, "/pods/one") == 1000000000);
    assert_true(machine_group_memory_bytes(mount, "/") == 1000000000);
    assert_true(machine_group_memory_bytes(mount, "/../elsewhere") == 1000000000); /* cannot be read */
}

TEST(no_more_than_the_machine_has) {
    uint64_t bytes = machine_memory_bytes();
    assert_true(bytes > 0);
    assert_true(bytes <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

TEST(the_least_quota_counts) {
    assert_true(isinf(machine_group_cores(mount, "/pods/one"))); /* no files */
    file_write("/pods/one", "cpu.max", "max 100000\n");
    assert_true(isinf(machine_group_cores(mount, "/pods/one")));
    file_write("/pods/one", "cpu.max", "250000 100000\n");
    assert_true(machine_group_cores(mount, "/pods/one") == 2.5);
    file_write("/pods", "cpu.cfs_quota_us", "-1\n"); /* version 1 */
    file_write("/pods", "cpu.cfs_period_us", "50000\n");
    assert_true(machine_group_cores(mount, "/pods/one") == 2.5);
    file_write("/pods", "cpu.cfs_quota_us", "75000\n");
    assert_true(machine_group_cores(mount, "/pods/one") == 1.5);
    assert_true(machine_group_cores(mount, "/pods") == 1.5);
    assert_true(isinf(machine_group_cores(mount, "/")));
}

TEST(no_more_cores_than_the_process_may_use) {
    cpu_set_t allowed;
    thread_cores_allowed(&allowed);
    uint32_t cores = machine_cores();
    assert_true(cores >= 1 && cores <= (uint32_t)CPU_COUNT(&allowed));
}

int main(void) {
    return tests_run(set_up, tear_down);
}
