#include "tests/sim/failing_store.h"

#include <algorithm>

#include "base/check.h"
#include "controller/store/memory_store.h"

namespace mccs {
namespace {

// The state of a store in a fixed order, without its audit log.
StoredState SortedState(Store& store) {
  StoredState state = *store.Load();
  std::ranges::sort(state.objects, {},
                    [](const StoredObject& object) { return std::pair(object.kind, object.name); });
  std::ranges::sort(state.strategies, {},
                    [](const StoredStrategy& strategy) { return strategy.id.value(); });
  return state;
}

}  // namespace

FailingStore::FailingStore(std::string path) : path_(std::move(path)) { Reopen(); }

void FailingStore::Reopen() {
  files_.Die();  // Closing the store changes nothing.
  store_.reset();
  files_.Repair();
  auto store = SqliteStore::Open(path_);
  MCCS_CHECK(store.ok());
  store_ = *std::move(store);
  if (!Has(nullptr)) {
    const auto whole =
        std::ranges::find_if(failed_, [&](const StoreChange& change) { return Has(&change); });
    Expect(whole != failed_.end(), "a controller starts with a part of a change in its store");
    if (whole != failed_.end()) committed_.push_back(*whole);
  }
}

absl::Status FailingStore::Commit(const StoreChange& change) {
  const bool dies = fault_ == Fault::kNone && dies_in_write_.has_value();
  if (fault_ != Fault::kNone) files_.FailAfter(fault_, fails_after_);
  if (dies) files_.FailAfter(Fault::kTornWrite, *dies_in_write_);
  const absl::Status status = store_->Commit(change);
  const bool torn = dies && files_.failed();
  files_.Repair();
  if (status.ok()) {
    committed_.push_back(change);
  } else {
    failed_.push_back(change);
  }
  if (dies) {
    dies_in_write_.reset();
    died_ = true;
    torn_writes_ += torn ? 1 : 0;
    Reopen();
    return absl::InternalError("the controller has died");
  }
  if (!status.ok()) Expect(Has(nullptr), "a rejected commit has changed the store");
  return status;
}

std::string FailingStore::FindViolation() {
  Expect(Has(nullptr), "the store has not exactly what was committed");
  return violation_;
}

bool FailingStore::Has(const StoreChange* more) {
  MemoryStore expected;
  for (const StoreChange& change : committed_) MCCS_CHECK(expected.Commit(change).ok());
  if (more != nullptr && !expected.Commit(*more).ok()) return false;
  const StoredState is = SortedState(*store_);
  const StoredState must = SortedState(expected);
  return is.revision == must.revision && is.objects == must.objects &&
         is.strategies == must.strategies &&
         *store_->Audit(kMaxAuditEntries) == *expected.Audit(kMaxAuditEntries);
}

}  // namespace mccs
