// Lets the library run with a glibc older than the one it was compiled with (from 2.28 on): what
// glibc 2.32 and 2.34 have added or moved to another version is defined here, also for the standard
// library that is linked into it.
#include <features.h>

#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 32)
// Whether the process has one thread. False costs an atomic operation where a plain one would do.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
#endif

#if __GLIBC_PREREQ(2, 34)
#include <pthread.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
#define OLD(name)                         \
    extern "C" decltype(name) old_##name; \
    __asm__(".symver old_" #name ", " #name "@" OLDEST)
#define HIDDEN extern "C" __attribute__((visibility("hidden")))

extern "C" int __pthread_key_create(pthread_key_t*, void (*)(void*)) noexcept;
OLD(pthread_create);
OLD(pthread_join);
OLD(pthread_once);
OLD(__pthread_key_create);

HIDDEN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument) noexcept {
    return old_pthread_create(thread, attributes, run, argument);
}

HIDDEN int pthread_join(pthread_t thread, void** result) {
    return old_pthread_join(thread, result);
}

HIDDEN int pthread_once(pthread_once_t* once, void (*run)()) { return old_pthread_once(once, run); }

HIDDEN int __pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) noexcept {
    return old___pthread_key_create(key, destroy);
}
#endif
#endif
