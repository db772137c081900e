#include "service/device/mem_op.h"

#include <gtest/gtest.h>

#include <vector>

namespace mccs {
namespace mem_op_test {

std::byte* Bytes(float* numbers) { return reinterpret_cast<std::byte*>(numbers); }

TEST(MemOpParts, PartsEqualTheWholeOperation) {
  const float scale = 3;
  for (const size_t elements : {0u, 1u, 63u, 64u, 100'003u}) {
    std::vector<float> a(elements), b(elements), out(elements), too(elements);
    for (size_t i = 0; i < elements; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(2 * i);
    }
    const MemSource sources[] = {
        {.address = Bytes(a.data()),
         .scaled = true,
         .scale_address = reinterpret_cast<const std::byte*>(&scale)},
        {.address = Bytes(b.data())},
    };
    std::byte* const destinations[] = {Bytes(out.data()), Bytes(too.data())};
    MemOpParts parts;
    EXPECT_TRUE(parts.done());
    parts.Begin({.sources = sources,
                 .destinations = destinations,
                 .elements = elements,
                 .type = DataType::kFloat32,
                 .op = ReduceOp::kSum});
    while (!parts.done()) {
      const MemOp part = parts.Next();
      EXPECT_LE(BytesMoved(part), MemOpParts::kPartBytes);
      RunMemOp(part);
    }
    for (size_t i = 0; i < elements; ++i) {
      ASSERT_EQ(out[i], 3 * a[i] + b[i]) << i << " of " << elements;
      ASSERT_EQ(too[i], out[i]) << i << " of " << elements;
    }
  }
}

// 128 ranks of one host: the number of sources counts, not only the elements.
TEST(MemOpParts, AreSmallAlsoWhereTheSourcesAreMany) {
  constexpr size_t kElements = 100'000;
  std::vector<float> in(kElements), out(kElements);
  const std::vector<MemSource> sources(kMaxMemOpSources, {.address = Bytes(in.data())});
  std::byte* const destinations[] = {Bytes(out.data())};
  MemOpParts parts;
  parts.Begin({.sources = sources,
               .destinations = destinations,
               .elements = kElements,
               .type = DataType::kFloat32});
  uint64_t elements = 0;
  while (!parts.done()) {
    const MemOp part = parts.Next();
    ASSERT_LE(BytesMoved(part), MemOpParts::kPartBytes);
    elements += part.elements;
  }
  EXPECT_EQ(elements, kElements);
}

}  // namespace mem_op_test
}  // namespace mccs
