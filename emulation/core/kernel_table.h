// Host versions of kernels, by name (mccs_emulation_kernel.h), and the handles that stand for
// kernels in CUDA's API: a handle is made for any name, a launch needs the host version.
//
// THREAD: any; one lock inside.
#ifndef MCCS_EMULATION_CORE_KERNEL_TABLE_H_
#define MCCS_EMULATION_CORE_KERNEL_TABLE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulation/include/mccs_emulation_kernel.h"

namespace mccs::emulation {

struct HostKernel {
  MccsEmulatedKernelFunction run = nullptr;
  std::vector<uint32_t> argument_bytes;
  bool waited = false;
  bool watches = false;  // wire::kAwaitFenceKernel: has no `run`, its stream waits for a word
};

// What a CUfunction, CUkernel, cudaKernel_t or cudaFunction_t of ours points to. Never deleted.
struct NamedKernel {
  std::string name;
};

class KernelTable {
 public:
  // `objects`: shared objects separated by colons, opened when a kernel is first looked for.
  explicit KernelTable(std::string objects);

  // False where the description is malformed.
  bool Register(const MccsEmulatedKernel& kernel);

  // The handle for a name; always the same one.
  const NamedKernel* Name(const std::string& name);
  bool IsHandle(const void* handle) const;

  // Null, and once per name a line on stderr, where nobody has registered a host version.
  std::shared_ptr<const HostKernel> Find(const std::string& name);

 private:
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
// Copies of it share those.
class PreparedLaunch {
 public:
  // REQUIRES: `arguments` holds a pointer for each argument of `kernel`.
  PreparedLaunch(std::shared_ptr<const HostKernel> kernel, const MccsEmulatedLaunch& launch,
                 void* const* arguments);

  void operator()() const;
  const MccsEmulatedLaunch& launch() const { return launch_; }
  bool waited() const { return kernel_->waited; }
  bool watches() const { return kernel_->watches; }
  // A pointer to each argument's copy. LIFETIME: as long as a copy of this launch.
  void** arguments() const;

 private:
  struct Arguments;
  std::shared_ptr<const HostKernel> kernel_;
  MccsEmulatedLaunch launch_;
  std::shared_ptr<Arguments> arguments_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_KERNEL_TABLE_H_
