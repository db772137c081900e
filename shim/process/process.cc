#include "shim/process/process.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <utility>

#include "base/status_macros.h"
#include "free_hooks/listener.h"
#include "shim/config/diagnostics.h"
#include "shim/config/environment.h"
#include "shim/config/variables.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/error_message.h"

namespace mccs::shim {
namespace {

std::mutex creation_mutex;
std::atomic<Process*> the_process{
    nullptr};  // release store at creation; pairs with the load in Get

// Ignores nested frees: the runtime's cudaFree calls the driver's.
void OnFree(uint64_t address, uint64_t bytes) {
  static thread_local bool busy = false;
  if (busy) return;
  busy = true;
  Process::ReleaseRange({address, bytes});
  busy = false;
}

// Whether the name resolves to the file that contains the address.
bool ResolvesTo(const char* name, void* address) {
  Dl_info named;
  Dl_info wanted;
  void* found = dlsym(RTLD_DEFAULT, name);
  return found == nullptr || (dladdr(found, &named) != 0 && dladdr(address, &wanted) != 0 &&
                              named.dli_fbase == wanted.dli_fbase);
}

// From now on the daemon unmaps memory before it is freed, as libmccs-free-hooks.so reports it. If
// that library is not preloaded, or is loaded after the libraries that it must precede, only logs a
// line under INFO or WARN. Only the first call has an effect.
void RegisterFreeListener() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  void* const entry = dlsym(RTLD_DEFAULT, free_hooks::kListen);
  if (entry == nullptr) {
    LogLine(Verbosity::kInfo,
            "libmccs-free-hooks.so is not preloaded: the daemon unmaps freed memory only when the "
            "free is detected, or when its lease ends (MCCS_EXPORT_LEASE)");
    return;
  }
  reinterpret_cast<free_hooks::Listen>(entry)(&OnFree);
  if (!ResolvesTo("cudaFree", entry) || !ResolvesTo("cuMemFree_v2", entry)) {
    LogLine(Verbosity::kWarn,
            "libmccs-free-hooks.so is loaded after another library with cudaFree, so it sees no "
            "frees; put it first in LD_PRELOAD");
  }
}

}  // namespace

Process& Process::Get() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process != nullptr) [[likely]]
    return *process;
  std::lock_guard lock(creation_mutex);
  process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) {
    static bool handlers_set = false;
    if (!std::exchange(handlers_set, true)) {
      pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
    }
    process = new Process;
    the_process.store(process, std::memory_order_release);
  }
  return *process;
}

absl::StatusOr<const DriverApi*> Process::Driver() {
  std::lock_guard lock(mutex_);
  if (!driver_) {
    MCCS_ASSIGN_OR_RETURN(driver_, LoadDriverApi());
  }
  return &*driver_;
}

absl::Status Process::ConnectLocked() {
  if (session_ != nullptr && session_->client->dead()) {
    std::erase_if(older_, [](const auto& session) { return session.expired(); });
    older_.push_back(session_);
    session_ = nullptr;
  }
  if (connection_ != nullptr && connection_->dead()) connection_ = nullptr;
  if (session_ != nullptr || connection_ != nullptr) return absl::OkStatus();
  LogVersionOnce();
  ReportVariablesOnce();
  MCCS_ASSIGN_OR_RETURN(connection_, DaemonClient::Connect(SocketPath()));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> Process::OpenSession() {
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Driver());
  MCCS_ASSIGN_OR_RETURN(const uint32_t lease_ms, ExportLeaseMs());
  MCCS_ASSIGN_OR_RETURN(const WaitMethod waits_by, StreamWaitMethod());
  std::lock_guard lock(mutex_);
  MCCS_RETURN_IF_ERROR(ConnectLocked());
  if (session_ == nullptr) {
    const RelaxedCapture relaxed(*driver);  // a capture of this or another thread may be active
    MCCS_ASSIGN_OR_RETURN(const StreamWait stream_wait, StreamWait::Make(*driver, waits_by));
    RegisterFreeListener();
    session_ =
        std::make_shared<Session>(*driver, stream_wait, allocations_, retired_pages_,
                                  std::move(connection_), std::chrono::milliseconds(lease_ms));
    std::lock_guard open_lock(open_mutex_);
    open_ = session_;
  }
  return session_;
}

void Process::ReleaseRange(const AddressRange& range) {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return;
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(process->open_mutex_);
    session = process->open_.lock();
  }
  if (session == nullptr) return;
  session->buffers.ReleaseRange(range);
  session->kernel_memory.EndCopiesInto(range, /*freed=*/true);
}

absl::StatusOr<DaemonClient*> Process::OpenConnection() {
  std::lock_guard lock(mutex_);
  MCCS_RETURN_IF_ERROR(ConnectLocked());
  return session_ != nullptr ? session_->client.get() : connection_.get();
}

// During a fork no session is opened or closed. The child leaves all inherited state untouched
// except the descriptors: other threads of the parent may have held locks or been changing the
// state.

void Process::BeforeFork() {
  creation_mutex.lock();
  if (Process* process = the_process.load()) process->mutex_.lock();
}

void Process::AfterForkInParent() {
  if (Process* process = the_process.load()) process->mutex_.unlock();
  creation_mutex.unlock();
}

void Process::AfterForkInChild() {
  if (Process* process = the_process.load()) {
    if (process->connection_ != nullptr) process->connection_->CloseInForkedChild();
    if (process->session_ != nullptr) process->session_->client->CloseInForkedChild();
    for (const std::weak_ptr<Session>& older : process->older_) {
      if (auto session = older.lock()) session->client->CloseInForkedChild();
    }
    process->mutex_.unlock();
    the_process.store(nullptr);
  }
  creation_mutex.unlock();
}

absl::StatusOr<CommRef> FindCommunicator(std::string_view function, ncclComm_t handle) {
  CommRef comm = Process::Get().handles().Find(handle);
  if (comm) return comm;
  return ArgumentError(function, "comm is ",
                       handle == nullptr ? "NULL" : "not a valid communicator");
}

}  // namespace mccs::shim
