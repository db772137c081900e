// Ranges of addresses or of offsets, and maps of ranges that do not overlap.
#ifndef MCCS_BASE_ADDRESS_RANGE_H_
#define MCCS_BASE_ADDRESS_RANGE_H_

#include <cstdint>
#include <iterator>

namespace mccs {

struct AddressRange {
  uint64_t base = 0;
  uint64_t bytes = 0;

  // REQUIRES: no overflow of 64 bits; the other functions accept any range.
  uint64_t end() const { return base + bytes; }
  bool Contains(uint64_t address) const { return address - base < bytes; }
  bool Contains(const AddressRange& inner) const {
    return inner.base >= base && inner.bytes <= bytes && inner.base - base <= bytes - inner.bytes;
  }
  bool Overlaps(const AddressRange& other) const {
    return base < other.base ? other.base - base < bytes : base - other.base < other.bytes;
  }
  bool operator==(const AddressRange&) const = default;
};

// The first range that ends above the address: the one that contains it, else the next one.
// `ranges`: a std::map by base; `bytes_of`: the length of one of its values.
template <typename Ranges, typename BytesOf>
auto FirstAfter(Ranges& ranges, uint64_t address, BytesOf bytes_of) {
  auto it = ranges.upper_bound(address);
  if (it == ranges.begin()) return it;
  const auto before = std::prev(it);
  return address - before->first < bytes_of(before->second) ? before : it;
}

}  // namespace mccs

#endif  // MCCS_BASE_ADDRESS_RANGE_H_
