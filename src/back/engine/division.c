/* division.c - decodes the DIV or IDIV that has trapped, and sets its result. Encoding: Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 2, chapter 2 and DIV, IDIV. */
#include "back/engine/division.h"

#ifdef __x86_64__
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { DIVIDE_BYTE = 0xf6, DIVIDE = 0xf7 };     /* operation codes */
enum { UNSIGNED = 6, SIGNED = 7 };              /* the field `reg` of ModR/M: DIV, IDIV */
enum { REX_B = 1, REX_X = 2, REX_W = 8 };       /* bits of the prefix REX */
enum { NO_DISPLACEMENT, BYTE, WORD, REGISTER }; /* the field `mod` of ModR/M */
enum { SIB = 4, RIP = 5, NO_INDEX = 4 };        /* registers' numbers that mean something else */

/* Registers by the number that instructions have for them. */
static const int numbers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

static int64_t number_read(const uint8_t *at, size_t bytes) {
    int64_t value = 0;
    memcpy(&value, at, bytes);
    return (int64_t)((uint64_t)value << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

/* The lower `bytes` of a register; 32 bits clear the upper ones, as in any instruction. */
static void register_set(long long *to, size_t bytes, int64_t value) {
    if (bytes == 4)
        *to = (long long)(uint32_t)value;
    else
        memcpy(to, &value, bytes);
}

bool division_repair(long long *gregs) {
    const uint8_t *at = (const uint8_t *)(uintptr_t)gregs[REG_RIP];
    unsigned rex = 0;
    size_t bytes = 4;
    if (*at == 0x66) { /* 16 bits */
        bytes = 2;
        at++;
    }
    if ((*at & 0xf0) == 0x40)
        rex = *at++;
    bytes = rex & REX_W ? 8 : bytes;
    unsigned code = *at++;
    unsigned mod = *at >> 6, kind = *at >> 3 & 7, rm = *at & 7;
    at++;
    if ((code != DIVIDE_BYTE && code != DIVIDE) || (kind != UNSIGNED && kind != SIGNED))
        return false;
    bytes = code == DIVIDE_BYTE ? 1 : bytes;

    unsigned high = rex & REX_B ? 8 : 0;
    const uint8_t *operand;
    if (mod == REGISTER) {
        bool second_byte = bytes == 1 && !rex && rm >= 4; /* AH, CH, DH, BH */
        operand = (const uint8_t *)&gregs[numbers[second_byte ? rm - 4 : rm | high]] + second_byte;
    } else {
        uint64_t address = 0;
        size_t displacement = mod == BYTE ? 1 : mod == WORD ? 4 : 0;
        bool relative = rm == RIP && mod == NO_DISPLACEMENT;
        if (rm == SIB) {
            unsigned scale = *at >> 6, index = (*at >> 3 & 7) | (rex & REX_X ? 8u : 0), base = *at & 7;
            at++;
            if (index != NO_INDEX)
                address = (uint64_t)gregs[numbers[index]] << scale;
            if (base == RIP && mod == NO_DISPLACEMENT)
                displacement = 4;
            else
                address += (uint64_t)gregs[numbers[base | high]];
        } else if (relative) {
            displacement = 4;
        } else {
            address = (uint64_t)gregs[numbers[rm | high]];
        }
        if (displacement)
            address += (uint64_t)number_read(at, displacement);
        at += displacement;
        operand = (const uint8_t *)(uintptr_t)(address + (relative ? (uint64_t)(uintptr_t)at : 0));
    }

    int64_t divisor = number_read(operand, bytes);
    int64_t dividend = number_read((const uint8_t *)&gregs[REG_RAX], bytes); /* the lower half */
    int64_t upper = bytes == 1 ? number_read((const uint8_t *)&gregs[REG_RAX] + 1, 1)
                               : number_read((const uint8_t *)&gregs[REG_RDX], bytes);
    int64_t least = (int64_t)((uint64_t)1 << 63) >> (64 - 8 * bytes);
    bool overflow = kind == SIGNED && divisor == -1 && dividend == least && upper == -1;
    if (divisor != 0 && !overflow)
        return false;
    int64_t quotient = overflow ? least : 0, remainder = overflow ? 0 : dividend;
    register_set(&gregs[REG_RAX], bytes, quotient);
    if (bytes == 1)
        memcpy((uint8_t *)&gregs[REG_RAX] + 1, &remainder, 1);
    else
        register_set(&gregs[REG_RDX], bytes, remainder);
    gregs[REG_RIP] = (long long)(uintptr_t)at;
    return true;
}

extern const char __executable_start[], etext[]; /* the linker's: the program's code */

static struct sigaction before;

static void trapped(int number, siginfo_t *info, void *context) {
    long long *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
    const char *at = (const char *)(uintptr_t)gregs[REG_RIP];
    bool own = at >= __executable_start && at < etext;
    if (info->si_code != FPE_INTDIV || own || !division_repair(gregs))
        sigaction(number, &before, NULL); /* it traps again */
}

void division_traps_mend(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO}, old;
    const char *traps = getenv("SYMPHONY_TEST_TRAPS");
    if (traps && *traps)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGFPE, NULL, &old);
    if (old.sa_sigaction == trapped)
        return;
    before = old;
    sigaction(SIGFPE, &action, NULL);
}
#else
void division_traps_mend(void) {}
#endif
