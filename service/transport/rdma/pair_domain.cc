#include "service/transport/rdma/pair_domain.h"

#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr size_t kFewWindows = 4;
constexpr size_t kWindowsAtOnce = 16;

}  // namespace

PairDomain::~PairDomain() {
  for (std::unique_ptr<MemoryWindow>& window : windows_) jobs_.Destroy(tenant_, std::move(window));
  jobs_.Destroy(tenant_, std::move(verbs_));
}

absl::StatusOr<ProtectionDomain*> PairDomain::Open() {
  const std::lock_guard lock(opening_);
  if (verbs_ == nullptr) {
    MCCS_ASSIGN_OR_RETURN(verbs_, nic_.MakeDomain());
  }
  return verbs_.get();
}

absl::StatusOr<std::unique_ptr<MemoryWindow>> PairDomain::TakeWindow() {
  if (windows_.size() <= kFewWindows) MakeWindows();
  if (windows_.empty()) {
    MCCS_RETURN_IF_ERROR(windows_status_);
    return nullptr;
  }
  std::unique_ptr<MemoryWindow> window = std::move(windows_.back());
  windows_.pop_back();
  return window;
}

void PairDomain::MakeWindows() {
  if (std::exchange(making_, true)) return;
  struct Made {
    absl::Status status;
    std::vector<std::unique_ptr<MemoryWindow>> windows;
  };
  auto made = std::make_shared<Made>();
  const auto make = [](PairDomain& domain, Made& result) -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(ProtectionDomain * verbs, domain.Open());
    for (size_t i = 0; i < kWindowsAtOnce; ++i) {
      MCCS_ASSIGN_OR_RETURN(std::unique_ptr<MemoryWindow> window, verbs->MakeWindow());
      result.windows.push_back(std::move(window));
    }
    return absl::OkStatus();
  };
  jobs_.Run(
      VerbsJobs::Kind::kConnect, tenant_,
      [self = shared_from_this(), made, make] { made->status = make(*self, *made); },
      [self = shared_from_this(), made] {
        self->making_ = false;
        self->windows_status_ = made->status;
        for (auto& window : made->windows) self->windows_.push_back(std::move(window));
        for (const auto& retry : std::exchange(self->waiting_, {})) retry();
      });
}

}  // namespace mccs
