/* policy_file.c - loads a policy from a shared object. */
#include "sched/threads/policy_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int policy_file_resolve(const char *text, char *out, size_t bytes, struct sy_error *err) {
    const char *options = strchrnul(text, ':');
    char path[4096];
    if (!memchr(text, '/', (size_t)(options - text))) {
        if ((size_t)snprintf(out, bytes, "%s", text) >= bytes)
            return error_set(err, -EINVAL, "the text is too long");
        return 0;
    }
    if ((size_t)snprintf(path, sizeof(path), "%.*s", (int)(options - text), text) >= sizeof(path))
        return error_set(err, -EINVAL, "the path is too long");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* it stays until the process ends */
    if (!library)
        return error_set(err, -EINVAL, "cannot load the policy: %s", dlerror());
    const struct policy_export *export = dlsym(library, "symphony_policy");
    static const size_t sizes[] = POLICY_SIZES;
    int rc;
    if (!export)
        rc = error_set(err, -EINVAL, "%s has no policy: it does not end with POLICY_EXPORT()", path);
    else if (memcmp(export->sizes, sizes, sizeof(sizes)) != 0)
        rc = error_set(err, -EINVAL, "%s was compiled for another version of this program: compile it again", path);
    else if ((size_t)snprintf(out, bytes, "%s%s", export->policy->name, options) >= bytes)
        rc = error_set(err, -EINVAL, "the text is too long");
    else
        rc = policies_add(export->policy, err);
    if (rc < 0)
        dlclose(library);
    return rc;
}
