/* test_division.c - divisions that trap: how they are encoded, what they give, and whose they are. */
#include "back/engine/division.h"
#include "unit/test.h"

#ifdef __x86_64__
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/util/container.h"

enum { ROOM = 64 };

/* Code, and the divisor where it takes it from: a register, or memory of here. */
TEST(all_encodings_are_done) {
    static _Alignas(8) uint8_t memory[ROOM + 8];
    static const struct {
        const char *text;
        size_t code_bytes;
        uint8_t code[8];
        size_t bytes; /* of the operands */
        int divisor_in, shift;
        int base, index; /* registers that lead to memory; -1: none */
        int64_t below;   /* what the base is below the divisor's place */
        bool is_signed;
    } cases[] = {
        {"idivl %ecx", 2, {0xf7, 0xf9}, 4, REG_RCX, 0, -1, -1, 0, true},
        {"idivq %rsi", 3, {0x48, 0xf7, 0xfe}, 8, REG_RSI, 0, -1, -1, 0, true},
        {"idivq %r8", 3, {0x49, 0xf7, 0xf8}, 8, REG_R8, 0, -1, -1, 0, true},
        {"idivq 8(%rsi,%rcx,4)", 5, {0x48, 0xf7, 0x7c, 0x8e, 0x08}, 8, -1, 0, REG_RSI, REG_RCX, 8 + 4 * 3, true},
        {"idivq (%rsi,%r9,8)", 4, {0x4a, 0xf7, 0x3c, 0xce}, 8, -1, 0, REG_RSI, REG_R9, 8 * 3, true},
        {"divl 0(%r13)", 4, {0x41, 0xf7, 0x75, 0x00}, 4, -1, 0, REG_R13, -1, 0, false},
        {"divl -0x40(%r12)", 5, {0x41, 0xf7, 0x74, 0x24, 0xc0}, 4, -1, 0, REG_R12, -1, -0x40, false},
        {"idivw %cx", 3, {0x66, 0xf7, 0xf9}, 2, REG_RCX, 0, -1, -1, 0, true},
        {"idivb %cl", 2, {0xf6, 0xf9}, 1, REG_RCX, 0, -1, -1, 0, true},
        {"idivb %ch", 2, {0xf6, 0xfd}, 1, REG_RCX, 8, -1, -1, 0, true},
        {"idivb %dil", 3, {0x40, 0xf6, 0xff}, 1, REG_RDI, 0, -1, -1, 0, true},
        {"idivq 0x12345(%rbx)", 7, {0x48, 0xf7, 0xbb, 0x45, 0x23, 0x01}, 8, -1, 0, REG_RBX, -1, 0x12345, true},
        {"divq (%r13,%rcx,1)", 5, {0x49, 0xf7, 0x74, 0x0d, 0x00}, 8, -1, 0, REG_R13, REG_RCX, 3, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (int overflow = 0; overflow <= cases[i].is_signed; overflow++) {
            int64_t divisor = overflow ? -1 : 0, least = (int64_t)(UINT64_MAX << (8 * cases[i].bytes - 1));
            int64_t dividend = overflow ? least : 42;
            long long gregs[NGREG] = {0};
            memset(memory, 0x55, sizeof(memory));
            memcpy(memory + ROOM, &divisor, 8);
            gregs[REG_RIP] = (long long)(uintptr_t)cases[i].code;
            if (cases[i].divisor_in >= 0)
                gregs[cases[i].divisor_in] = (long long)((uint64_t)divisor << cases[i].shift);
            if (cases[i].base >= 0)
                gregs[cases[i].base] = (long long)(uintptr_t)memory + ROOM - cases[i].below;
            if (cases[i].index >= 0)
                gregs[cases[i].index] = 3;
            gregs[REG_RAX] = dividend;
            gregs[REG_RDX] = overflow ? -1 : 0;
            if (!division_repair(gregs))
                fail_msg("%s: not known", cases[i].text);
            assert_int_equal(gregs[REG_RIP] - (long long)(uintptr_t)cases[i].code, cases[i].code_bytes);
            int64_t quotient = overflow ? least : 0, remainder = overflow ? 0 : 42;
            const uint8_t *second = cases[i].bytes == 1 ? (uint8_t *)&gregs[REG_RAX] + 1 : (uint8_t *)&gregs[REG_RDX];
            assert_memory_equal(&gregs[REG_RAX], &quotient, cases[i].bytes);
            assert_memory_equal(second, &remainder, cases[i].bytes);
            if (cases[i].bytes == 4) /* as instructions of 32 bits do */
                assert_int_equal((uint64_t)gregs[REG_RAX] >> 32, 0);
        }
}

TEST(what_is_no_such_division_is_left_alone) {
    static const uint8_t codes[][4] = {{0xf7, 0xd9}, {0xf7, 0xe9}, {0x48, 0x99}, {0x0f, 0x0b}, {0xf7, 0xf9}};
    for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
        long long gregs[NGREG] = {[REG_RAX] = 42, [REG_RCX] = 7}, kept[NGREG];
        gregs[REG_RIP] = (long long)(uintptr_t)codes[i];
        memcpy(kept, gregs, sizeof(kept));
        assert_false(division_repair(gregs)); /* negation, product, ..., and a division by 7 */
        assert_memory_equal(gregs, kept, sizeof(kept));
    }
}

/* Code as a library has it: outside of the program's. Sanitizers look at what is before a function. */
static int64_t (*library_function(bool remainder))(int64_t, int64_t) {
    static const uint8_t divide[] = {0x48, 0x89, 0xf8,  /* mov %rdi, %rax */
                                     0x48, 0x99,        /* cqto */
                                     0x48, 0xf7, 0xfe}, /* idivq %rsi */
        end[] = {0x48, 0x89, 0xd0, 0xc3};               /* mov %rdx, %rax; ret */
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *code = page + 64;
    int64_t (*function)(int64_t, int64_t);
    assert_true(page != MAP_FAILED);
    memcpy(code, divide, sizeof(divide));
    memcpy(code + sizeof(divide), remainder ? end : end + 3, remainder ? 4 : 1);
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    memcpy(&function, &code, sizeof(function));
    return function;
}

TEST(a_library_divides_as_on_arm) {
    division_traps_mend();
    division_traps_mend();
    int64_t (*quotient)(int64_t, int64_t) = library_function(false),
                                 (*remainder)(int64_t, int64_t) = library_function(true);
    static const struct {
        int64_t a, b, quotient, remainder;
    } cases[] = {{7, 2, 3, 1},
                 {-7, 2, -3, -1},
                 {7, 0, 0, 7},
                 {INT64_MIN, 0, 0, INT64_MIN},
                 {INT64_MIN, -1, INT64_MIN, 0},
                 {INT64_MIN, 1, INT64_MIN, 0}};
    for (int round = 0; round < 1000; round++) {
        size_t i = (size_t)round % ARRAY_COUNT(cases);
        assert_true(quotient(cases[i].a, cases[i].b) == cases[i].quotient);
        assert_true(remainder(cases[i].a, cases[i].b) == cases[i].remainder);
    }
}

TEST(the_program_itself_traps_as_before) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGFPE, SIG_DFL);
        division_traps_mend();
        close(STDERR_FILENO);
        __asm__ volatile("xorl %%ecx, %%ecx\n\tidivl %%ecx" ::: "eax", "ecx", "edx");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE);
}
#endif
