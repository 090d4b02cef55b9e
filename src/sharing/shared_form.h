/* shared_form.h - makes a group of two models that are loaded later: one that is being loaded, and one that serves
 * whole.
 *
 * Called by the repository's thread, which serves nothing; the others serve meanwhile. The one that serves becomes a
 * member when it is loaded anew beside its present place, which it then replaces (repository_control.c). */
#pragma once

#include "sharing/shared_groups.h"

#define SHARED_FORM_ARGUMENT "--form" /* after "plan prefixes": main() calls shared_form_main() */
#define SHARED_FORMED_MAX    16       /* groups made so; each takes a place */

/* `self` is a completed model that no group suits, `partners` are the models that are served whole. 0 with the new
 * group, and the member of it that `self` is. -EINTR, -ENOMEM; anything else: `self` is served whole, and the sentence
 * is the reason; "": no partner may share a queue with it. */
int shared_prefixes_form(struct shared_prefixes *shared, const struct served_model *self,
                         const struct served_model *const *partners, uint32_t partner_count,
                         const struct profile_options *how, struct shared_group **group, struct shared_member **member,
                         struct sy_error *why);

/* The main() of the child process that tries a pair. Returns its exit status. */
int shared_form_main(void);
