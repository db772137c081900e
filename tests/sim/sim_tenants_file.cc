#include "tests/sim/sim_tenants_file.h"

#include "absl/strings/str_cat.h"

namespace mccs {

std::optional<agent::v1::Tenants> SimTenantsFile::Start() {
  disk_.Restart();
  file_.emplace(path_, &disk_);
  const absl::StatusOr<agent::v1::Tenants> loaded = file_->Load();
  std::optional<std::string> found;
  if (loaded.ok()) found = loaded->SerializeAsString();
  const bool is_new = dying_.has_value() && found == dying_;
  const bool is_old = found == kept_ && (loaded.ok() || absl::IsNotFound(loaded.status()));
  if (!is_old && !is_new && violation_.empty()) {
    violation_ = absl::StrCat("a daemon starts with neither the old nor the new table of Tenants: ",
                              loaded.status().ToString());
  }
  if (dying_.has_value()) ++(is_new ? counts_.found_new : counts_.found_old);
  dying_.reset();
  kept_ = found;
  if (!loaded.ok()) return std::nullopt;
  return *loaded;
}

bool SimTenantsFile::Keep(const agent::v1::Tenants& tenants) {
  const bool kept = file_->Keep(tenants).ok();
  if (disk_.dead()) {
    dying_ = tenants.SerializeAsString();
    return false;
  }
  if (kept) kept_ = tenants.SerializeAsString();
  if (!kept) ++counts_.not_kept;
  return true;
}

}  // namespace mccs
