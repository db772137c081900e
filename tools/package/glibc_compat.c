// Functions of glibc that are newer than 2.34, the oldest glibc that the package supports (RHEL 9).
//
// The package is built with a newer glibc, and its libraries call these functions. A definition here takes the place of
// glibc's in each program and shared library of the package. It is hidden, so that other libraries of a process keep
// glibc's. tools/package/elf_check.py finds newer functions that are missing here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

// 2.35, of reactors. Linux 5.11 has the system call. The kernel's signal sets have 64 bits.
int epoll_pwait2(int epoll, struct epoll_event* events, int count, const struct timespec* timeout,
                 const sigset_t* signals) {
  return (int)syscall(SYS_epoll_pwait2, epoll, events, count, timeout, signals, sizeof(uint64_t));
}

// 2.36, of mccs-lab. Linux 5.2.
int open_tree(int directory, const char* path, unsigned int flags) {
  return (int)syscall(SYS_open_tree, directory, path, flags);
}

int move_mount(int from, const char* from_path, int to, const char* to_path, unsigned int flags) {
  return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

// 2.36, of std::random_device. Fails only if the kernel has no random numbers, as glibc's does.
uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    if (errno != EINTR) abort();
  }
  return number;
}

// 2.35, of GCC's unwinder, which finds the frames of exceptions by it. It reads only dlfo_eh_frame, the program header
// PT_GNU_EH_FRAME, on x86-64. Before 2.35 the unwinder called dl_iterate_phdr in the same way.
struct Search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int Find(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  struct Search* search = data;
  const ElfW(Phdr)* frames = NULL;
  int found = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    if (header->p_type != PT_LOAD || search->address < begin ||
        search->address >= begin + header->p_memsz) {
      continue;
    }
    found = 1;
    search->result->dlfo_map_start = (void*)begin;
    search->result->dlfo_map_end = (void*)(begin + header->p_memsz);
  }
  if (!found) return 0;
  search->result->dlfo_eh_frame = frames == NULL ? NULL : (void*)(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

// Returns 0 if an object with unwind information contains the address, otherwise -1.
int _dl_find_object(void* address, struct dl_find_object* result) {
  memset(result, 0, sizeof(*result));
  struct Search search = {.address = (uintptr_t)address, .result = result};
  return dl_iterate_phdr(Find, &search) == 1 && result->dlfo_eh_frame != NULL ? 0 : -1;
}

#pragma GCC visibility pop
