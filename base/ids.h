// Strongly typed ids: a Rank cannot be passed as a HostIndex.
#ifndef MCCS_BASE_IDS_H_
#define MCCS_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace mccs {

// An integer type of its own. Explicit construction; value() returns the integer. Ordered and
// hashable.
template <typename Tag, typename Int>
class StrongInt {
 public:
  using ValueType = Int;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Int value) : value_(value) {}

  constexpr Int value() const { return value_; }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;

  template <typename H>
  friend H AbslHashValue(H h, StrongInt id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::string ToString(StrongInt id) { return std::to_string(id.value_); }

 private:
  Int value_ = 0;
};

// Member of a communicator, 0 ≤ rank < size.
using Rank = StrongInt<struct RankTag, int32_t>;
// Position of a host in a communicator's layout, 0 ≤ index < hosts.
using HostIndex = StrongInt<struct HostIndexTag, int32_t>;
// Position of a local rank among the ranks of its host, ascending by rank.
using LocalIndex = StrongInt<struct LocalIndexTag, int32_t>;
// An independent share of an operation, 0 ≤ channel < channels.
using ChannelId = StrongInt<struct ChannelIdTag, int32_t>;
// Version of a communicator's strategy; grows by one with each change.
using Epoch = StrongInt<struct EpochTag, uint64_t>;
// A registered tenant buffer, unique within its session.
using BufferId = StrongInt<struct BufferIdTag, uint32_t>;

// One connected tenant process.
using SessionId = StrongInt<struct SessionIdTag, uint64_t>;

// A communicator, with the same value on every host: the first 64 bits of the unique id.
using CommId = StrongInt<struct CommIdTag, uint64_t>;

// Sixteen hexadecimal digits, as logs and mccsctl show a communicator.
std::string FormatCommId(CommId id);

}  // namespace mccs

template <typename Tag, typename Int>
struct std::hash<mccs::StrongInt<Tag, Int>> {
  size_t operator()(mccs::StrongInt<Tag, Int> id) const { return std::hash<Int>()(id.value()); }
};

#endif  // MCCS_BASE_IDS_H_
