#include "free_hooks/next_definition.h"

#include <dlfcn.h>
#include <link.h>

namespace mccs::free_hooks {
namespace {

// Any address within this library.
const char kOwn = 0;

bool IsOurs(void* address) {
  Dl_info found;
  Dl_info own;
  return dladdr(address, &found) != 0 && dladdr(&kOwn, &own) != 0 &&
         found.dli_fbase == own.dli_fbase;
}

// Looks it up in the scope of the file that contains the caller.
void* FindInCallersScope(const char* name, const void* caller) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return nullptr;
  }
  const char* const file = map->l_name[0] != '\0' ? map->l_name : nullptr;  // null: the program
  void* const handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, name);
  dlclose(handle);  // it stays loaded by other references
  return found;
}

}  // namespace

void* NextDefinition(ReplacedFunction& function, const void* caller) {
  void* real = function.real.load(std::memory_order_relaxed);
  if (real != nullptr) return real;
  real = dlsym(RTLD_NEXT, function.name);
  if (real == nullptr) real = FindInCallersScope(function.name, caller);
  if (real == nullptr || IsOurs(real)) return nullptr;
  function.real.store(real, std::memory_order_relaxed);
  return real;
}

}  // namespace mccs::free_hooks
