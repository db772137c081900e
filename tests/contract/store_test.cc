// The store contract, in memory and in a file.
#include "base/check.h"
#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"
#include "tests/contract/store_contract.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace store_test {

class MemoryWorld final : public StoreWorld {
 public:
  Store& store() override { return store_; }
  void Restart() override {}  // In memory: the state survives.

 private:
  MemoryStore store_;
};

class SqliteWorld final : public StoreWorld {
 public:
  SqliteWorld() { Restart(); }
  Store& store() override { return *store_; }
  void Restart() override {
    store_.reset();  // Releases the lock first.
    auto opened = SqliteStore::Open(directory_.File("store.db"));
    MCCS_CHECK(opened.ok());
    store_ = *std::move(opened);
  }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<SqliteStore> store_;
};

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    testing::Values(StoreWorldMaker{"Memory", [] { return std::make_unique<MemoryWorld>(); }},
                    StoreWorldMaker{"Sqlite", [] { return std::make_unique<SqliteWorld>(); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace store_test
}  // namespace mccs
