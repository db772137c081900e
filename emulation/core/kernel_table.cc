#include "emulation/core/kernel_table.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <utility>

#include "emulation/core/command_kernel.h"
#include "proto/fence_page.h"

namespace mccs::emulation {
namespace {

constexpr uint32_t kMaxArguments = 4096;
constexpr size_t kArgumentAlignment = 16;

size_t RoundUp(size_t bytes) {
  return (bytes + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
}

// Checks what both kinds of descriptions have. A longer one is of a later version.
template <typename Description>
bool IsWellFormed(const Description& kernel) {
  return kernel.struct_bytes >= sizeof(Description) && kernel.name != nullptr &&
         kernel.argument_count <= kMaxArguments &&
         (kernel.argument_count == 0 || kernel.argument_bytes != nullptr);
}

template <typename Description>
HostKernel Describe(const Description& kernel, HostKernel entry) {
  entry.blocking = kernel.blocking != 0;
  entry.argument_bytes.assign(kernel.argument_bytes, kernel.argument_bytes + kernel.argument_count);
  return entry;
}

// Registers the kernels that one entry point of a shared object returns.
template <typename Function>
void RegisterAll(KernelTable* table, Function entry, const std::string& path) {
  size_t count = 0;
  const auto* kernels = entry(&count);
  for (size_t i = 0; i < count; ++i) {
    if (table->Register(kernels[i])) continue;
    fprintf(stderr,
            "emulated CUDA: MCCS_EMULATION_KERNELS: %s: kernel description %zu is malformed\n",
            path.c_str(), i);
  }
}

}  // namespace

KernelTable::KernelTable(std::string objects) : objects_(std::move(objects)) {
  auto await = std::make_shared<HostKernel>();
  await->argument_bytes = {sizeof(uint64_t*), sizeof(uint64_t)};
  await->watches = true;
  kernels_[wire::kAwaitFenceKernel] = std::move(await);
  Register(CommandKernel());
}

bool KernelTable::Register(const MccsEmulatedKernel& kernel) {
  if (!IsWellFormed(kernel) || kernel.run == nullptr) return false;
  HostKernel entry;
  entry.run = kernel.run;
  Insert(kernel.name, Describe(kernel, std::move(entry)));
  return true;
}

bool KernelTable::Register(const MccsEmulatedResumableKernel& kernel) {
  if (!IsWellFormed(kernel) || kernel.begin == nullptr || kernel.advance == nullptr ||
      kernel.end == nullptr) {
    return false;
  }
  HostKernel entry;
  entry.resumable = {kernel.begin, kernel.advance, kernel.end};
  Insert(kernel.name, Describe(kernel, std::move(entry)));
  return true;
}

void KernelTable::Insert(const char* name, HostKernel kernel) {
  auto entry = std::make_shared<HostKernel>(std::move(kernel));
  std::lock_guard lock(mutex_);
  kernels_[name] = std::move(entry);
}

const NamedKernel* KernelTable::Name(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<NamedKernel>& entry = names_[name];
  if (entry == nullptr) {
    entry = std::make_unique<NamedKernel>(name);
    handles_.insert(entry.get());
  }
  return entry.get();
}

bool KernelTable::IsHandle(const void* handle) const {
  std::lock_guard lock(mutex_);
  return handles_.contains(handle);
}

std::shared_ptr<const HostKernel> KernelTable::Find(const std::string& name) {
  std::call_once(objects_loaded_, [this] { LoadObjects(); });
  std::lock_guard lock(mutex_);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second;
  if (missed_.insert(name).second) {
    fprintf(stderr,
            "emulated CUDA: kernel %s has no host version; write one "
            "(mccs_emulation_kernel.h) and add its shared object to MCCS_EMULATION_KERNELS\n",
            name.c_str());
  }
  return nullptr;
}

void KernelTable::LoadObjects() {
  std::istringstream paths(objects_);
  for (std::string path; std::getline(paths, path, ':');) {
    if (!path.empty()) LoadObject(path);
  }
}

void KernelTable::LoadObject(const std::string& path) {
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    fprintf(stderr, "emulated CUDA: cannot load a shared object of MCCS_EMULATION_KERNELS: %s\n",
            dlerror());
    return;
  }
  const auto ordinary =
      reinterpret_cast<MccsEmulatedKernelsFunction>(dlsym(object, MCCS_EMULATED_KERNELS_ENTRY));
  const auto resumable = reinterpret_cast<MccsEmulatedResumableKernelsFunction>(
      dlsym(object, MCCS_EMULATED_RESUMABLE_KERNELS_ENTRY));
  if (ordinary == nullptr && resumable == nullptr) {
    fprintf(stderr, "emulated CUDA: MCCS_EMULATION_KERNELS: %s exports neither %s nor %s\n",
            path.c_str(), MCCS_EMULATED_KERNELS_ENTRY, MCCS_EMULATED_RESUMABLE_KERNELS_ENTRY);
  }
  if (ordinary != nullptr) RegisterAll(this, ordinary, path);
  if (resumable != nullptr) RegisterAll(this, resumable, path);
}

// Aligned for every type: an argument may be a vector type.
struct PreparedLaunch::Arguments {
  struct alignas(kArgumentAlignment) Unit {
    std::byte bytes[kArgumentAlignment];
  };
  std::vector<Unit> copies;
  std::vector<void*> pointers;
};

PreparedLaunch::PreparedLaunch(std::shared_ptr<const HostKernel> kernel,
                               const MccsEmulatedLaunch& launch, void* const* arguments)
    : kernel_(std::move(kernel)), launch_(launch), arguments_(std::make_shared<Arguments>()) {
  size_t total = 0;
  for (const uint32_t bytes : kernel_->argument_bytes) total += RoundUp(bytes);
  arguments_->copies.resize(total / kArgumentAlignment);
  size_t at = 0;
  for (size_t i = 0; i < kernel_->argument_bytes.size(); ++i) {
    void* copy = arguments_->copies.data() + at;
    memcpy(copy, arguments[i], kernel_->argument_bytes[i]);
    arguments_->pointers.push_back(copy);
    at += RoundUp(kernel_->argument_bytes[i]) / kArgumentAlignment;
  }
}

void PreparedLaunch::operator()() const { kernel_->run(&launch_, arguments_->pointers.data()); }

void** PreparedLaunch::arguments() const { return arguments_->pointers.data(); }

}  // namespace mccs::emulation
