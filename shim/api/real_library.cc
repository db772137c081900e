#include "shim/api/real_library.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shim/config/settings.h"

namespace mccs::shim {
namespace {

constexpr char kFileName[] = "libnccl.so.2";
// In the linker's cache only, which no function lists.
constexpr const char* kDefaultDirectories[] = {"/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64",
                                               "/usr/local/lib"};

// RTLD_DEEPBIND: the library's calls to its own functions do not resolve to ours. Sanitizers, which
// replace malloc, do not allow it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kOpenFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

std::string LinkerError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

bool IsThisLibrary(const std::string& path) {
  static const int kSomewhereInside = 0;
  Dl_info self;
  struct stat own, other;
  return dladdr(&kSomewhereInside, &self) != 0 && stat(self.dli_fname, &own) == 0 &&
         stat(path.c_str(), &other) == 0 && own.st_dev == other.st_dev &&
         own.st_ino == other.st_ino;
}

void AddSearchDirectories(void* handle, std::vector<std::string>& directories) {
  Dl_serinfo size;
  if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0) return;
  const auto memory =
      std::make_unique<std::max_align_t[]>(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.get());
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (dlinfo(handle, RTLD_DI_SERINFO, info) != 0) return;
  for (unsigned i = 0; i < info->dls_cnt; ++i) {
    const std::string directory = info->dls_serpath[i].dls_name;
    if (std::find(directories.begin(), directories.end(), directory) == directories.end()) {
      directories.push_back(directory);
    }
  }
}

int AddName(dl_phdr_info* info, size_t, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  return 0;
}

// In the dynamic linker's order: for the program first, then for each library.
std::vector<std::string> SearchDirectories() {
  std::vector<std::string> loaded;
  dl_iterate_phdr(&AddName, &loaded);
  std::vector<std::string> directories;
  for (const std::string& name : loaded) {
    void* handle = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    AddSearchDirectories(handle, directories);
    dlclose(handle);
  }
  directories.insert(directories.end(), std::begin(kDefaultDirectories),
                     std::end(kDefaultDirectories));
  return directories;
}

}  // namespace

absl::StatusOr<RealLibrary> RealLibrary::OpenAt(const std::string& path) {
  if (IsThisLibrary(path)) {
    return absl::NotFoundError(
        absl::StrCat("cannot fall back to ", path, ": it is MCCS's own libnccl.so.2"));
  }
  void* handle = dlopen(path.c_str(), kOpenFlags);
  if (handle == nullptr) return absl::NotFoundError(LinkerError());
  if (dlsym(handle, "ncclCommInitRank") == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path, " is not an NCCL library: it has no ncclCommInitRank"));
  }
  return RealLibrary(handle, path);
}

absl::StatusOr<RealLibrary> RealLibrary::Open() {
  if (const auto path = ValueOf("MCCS_NCCL_PATH")) return OpenAt(*path);
  for (const std::string& directory : SearchDirectories()) {
    const std::string path = absl::StrCat(directory, "/", kFileName);
    struct stat file;
    if (stat(path.c_str(), &file) != 0 || IsThisLibrary(path)) continue;
    if (auto opened = OpenAt(path); opened.ok()) return opened;
  }
  return absl::NotFoundError(
      absl::StrCat("no other ", kFileName, " in the search path of the program's libraries"));
}

void (*RealLibrary::Find(const char* name) const)() {
  return reinterpret_cast<void (*)()>(dlsym(handle_, name));
}

}  // namespace mccs::shim
