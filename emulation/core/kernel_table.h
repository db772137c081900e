// Host versions of kernels, by name (mccs_emulation_kernel.h), and kernel handles of CUDA's API. A
// handle exists for any name; a launch requires the host version.
//
// THREAD: any; one lock inside.
#ifndef MCCS_EMULATION_CORE_KERNEL_TABLE_H_
#define MCCS_EMULATION_CORE_KERNEL_TABLE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulation/include/mccs_emulation_kernel.h"

namespace mccs::emulation {

// The functions of a resumable kernel; all null for an ordinary one.
struct ResumableFunctions {
  decltype(MccsEmulatedResumableKernel::begin) begin = nullptr;
  decltype(MccsEmulatedResumableKernel::advance) advance = nullptr;
  decltype(MccsEmulatedResumableKernel::end) end = nullptr;
};

struct HostKernel {
  MccsEmulatedKernelFunction run = nullptr;  // of an ordinary kernel
  ResumableFunctions resumable;
  std::vector<uint32_t> argument_bytes;
  bool blocking = false;
  bool watches = false;  // wire::kAwaitFenceKernel: has no `run`, its stream waits for a word
};

// The object behind a CUfunction, CUkernel, cudaKernel_t or cudaFunction_t. Never deleted.
struct NamedKernel {
  explicit NamedKernel(std::string its_name) : name(std::move(its_name)) {}

  const std::string name;
  mutable std::atomic<uint64_t> launches{0};  // without replays of graphs
};

class KernelTable {
 public:
  // `objects`: shared objects separated by colons, loaded at the first lookup.
  explicit KernelTable(std::string objects);

  // Returns false if the description is malformed.
  bool Register(const MccsEmulatedKernel& kernel);
  bool Register(const MccsEmulatedResumableKernel& kernel);

  // Returns the handle for a name; always the same one.
  const NamedKernel* Name(const std::string& name);
  bool IsHandle(const void* handle) const;

  // Returns null if no host version is registered, and prints a line to stderr once per name.
  std::shared_ptr<const HostKernel> Find(const std::string& name);

 private:
  void Insert(const char* name, HostKernel kernel);
  void LoadObjects();
  void LoadObject(const std::string& path);

  mutable std::mutex mutex_;
  const std::string objects_;
  std::once_flag objects_loaded_;
  std::map<std::string, std::shared_ptr<const HostKernel>> kernels_;
  std::map<std::string, std::unique_ptr<NamedKernel>> names_;
  std::set<const void*> handles_;
  std::set<std::string> missed_;
};

// One launch: a kernel's host version with copies of the arguments, made when it was prepared.
// Copies of this object share them.
class PreparedLaunch {
 public:
  // REQUIRES: `arguments` has a pointer for each argument of `kernel`.
  PreparedLaunch(std::shared_ptr<const HostKernel> kernel, const MccsEmulatedLaunch& launch,
                 void* const* arguments);

  // Runs an ordinary kernel.
  void operator()() const;
  bool resumable() const { return kernel_->resumable.advance != nullptr; }
  const ResumableFunctions& functions() const { return kernel_->resumable; }
  const MccsEmulatedLaunch& launch() const { return launch_; }
  bool blocking() const { return kernel_->blocking; }
  bool watches() const { return kernel_->watches; }
  // Returns a pointer to each argument's copy. LIFETIME: until the last copy of this launch ends.
  void** arguments() const;

 private:
  struct Arguments;
  std::shared_ptr<const HostKernel> kernel_;
  MccsEmulatedLaunch launch_;
  std::shared_ptr<Arguments> arguments_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_KERNEL_TABLE_H_
