/* lost_pages.c - puts pages of zeros where pages of files cannot be read. */
#include "back/engine/lost_pages.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sigaction before;
static uintptr_t page_bytes;

/* What the handler reads and writes, of its own thread. */
static _Thread_local volatile sig_atomic_t watching, lost;

static void trapped(int number, siginfo_t *info, void *context) {
    void *page = (void *)((uintptr_t)info->si_addr & ~(page_bytes - 1));
    (void)context;
    /* pages beside each other become one mapping, of which a process may have only so many */
    if (watching && info->si_code == BUS_ADRERR &&
        mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        lost = 1;
    else
        sigaction(number, &before, NULL); /* it traps again */
}

void lost_pages_mend(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO}, old;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, NULL, &old);
    if (old.sa_sigaction == trapped)
        return;
    before = old;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, NULL);
}

void lost_pages_begin(void) {
    lost = 0;
    watching = 1;
}

bool lost_pages_end(void) {
    watching = 0;
    return lost;
}
