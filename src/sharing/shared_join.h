/* shared_join.h - lets a model that is loaded later join a group with whose prefix it begins: the model is cut where
 * the group is, and its suffix behind the group's prefix is tried against the whole model, bit by bit, in a child
 * process. The group's prefix stays as it is, and so do its other members.
 *
 * Called by the repository's thread, which serves nothing; the others serve meanwhile. */
#pragma once

#include "sharing/shared_groups.h"

#define SHARED_JOIN_ARGUMENT "--join" /* after "plan prefixes": main() calls shared_join_main() */

/* A completed model that is no member of a group yet. 0 with the group and the new member.
 * -EINTR when stopped, -ENOMEM; anything else: it is served whole, and the sentence is the reason. What a trial gave, a
 * refusal, too, is kept beside the model (part_folders.h), and found the next time. */
int shared_prefixes_join(struct shared_prefixes *shared, const struct served_model *model,
                         const struct profile_options *how, struct shared_group **group, struct shared_member **member,
                         struct sy_error *why);

/* The main() of the child process that tries a model. Returns its exit status. */
int shared_join_main(void);
