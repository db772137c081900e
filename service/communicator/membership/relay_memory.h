// Bytes that the tree of daemons holds for each tenant: incomplete and arrived messages, and
// messages to forward.
//
// OWNER: TreeRelay. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RELAY_MEMORY_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RELAY_MEMORY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace mccs {

class RelayMemory {
 public:
  // Of one tenant: 8 of the longest messages, or the rosters of 60 communicators of 8,192 ranks.
  static constexpr uint64_t kMaxBytes = 64u << 20;

  // Some of a tenant's bytes; returns them at its end. LIFETIME: the RelayMemory outlives it.
  class Share {
   public:
    Share(RelayMemory& memory, std::string tenant) : memory_(&memory), tenant_(std::move(tenant)) {}
    ~Share() { Resize(0); }
    Share(Share&& other) noexcept
        : memory_(other.memory_),
          tenant_(std::move(other.tenant_)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;

    // Returns false, without any change, if the tenant would have more than kMaxBytes.
    bool Resize(uint64_t bytes) {
      if (bytes == bytes_) return true;
      const auto used = memory_->used_.try_emplace(tenant_, 0).first;
      if (bytes > bytes_ && used->second + (bytes - bytes_) > kMaxBytes) return false;
      used->second += bytes - bytes_;
      bytes_ = bytes;
      if (used->second == 0) memory_->used_.erase(used);
      return true;
    }

   private:
    RelayMemory* const memory_;
    std::string tenant_;
    uint64_t bytes_ = 0;
  };

  uint64_t BytesOf(const std::string& tenant) const {
    const auto used = used_.find(tenant);
    return used == used_.end() ? 0 : used->second;
  }

 private:
  absl::flat_hash_map<std::string, uint64_t> used_;  // by tenant; without zeros
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RELAY_MEMORY_H_
