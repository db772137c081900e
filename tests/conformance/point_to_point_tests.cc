// Sends and receives: matched first in, first out per pair; all of a group run concurrently.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace point_to_point_tests {

constexpr size_t kCount = 3001;

struct Neighbours {
  explicit Neighbours(const Test& t)
      : next((t.rank() + 1) % t.size()), previous((t.rank() + t.size() - 1) % t.size()) {}
  int next;
  int previous;
};

// Rank 0 sends, the last rank receives; the others do not take part.
CONFORMANCE_TEST(point_to_point, one_pair, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer buffer(t, kCount, stream);
  buffer.Fill(t.is_root() ? 42 : -1);
  const int last = t.size() - 1;
  if (t.is_root()) {
    NCCL_OK(t, ncclSend(buffer.data(), kCount, ncclInt32, last, comm, stream));
    t.Wait(stream);
  } else if (t.rank() == last) {
    NCCL_OK(t, ncclRecv(buffer.data(), kCount, ncclInt32, 0, comm, stream));
    buffer.Expect(42, "the data that rank 0 sent");
  }
}

CONFORMANCE_TEST(point_to_point, ping_pong, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer buffer(t, kCount, stream);
  buffer.Fill(t.is_root() ? 7 : -1);
  const int last = t.size() - 1;
  for (int i = 0; t.ok() && i < 10; ++i) {
    if (t.is_root()) {
      NCCL_OK(t, ncclSend(buffer.data(), kCount, ncclInt32, last, comm, stream));
      NCCL_OK(t, ncclRecv(buffer.data(), kCount, ncclInt32, last, comm, stream));
    } else if (t.rank() == last) {
      NCCL_OK(t, ncclRecv(buffer.data(), kCount, ncclInt32, 0, comm, stream));
      NCCL_OK(t, ncclSend(buffer.data(), kCount, ncclInt32, 0, comm, stream));
    }
  }
  if (t.is_root() || t.rank() == last) buffer.Expect(7, "the data that was sent back");
}

void RingInAGroup(Test& t, size_t count) {
  const auto [comm, stream] = OnWorld(t);
  const Neighbours at(t);
  IntBuffers buffers(t, count, stream);
  buffers.send.Fill(t.rank());
  buffers.receive.Fill(-1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclSend(buffers.send.data(), count, ncclInt32, at.next, comm, stream));
  NCCL_OK(t, ncclRecv(buffers.receive.data(), count, ncclInt32, at.previous, comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  buffers.receive.Expect(at.previous, "the data that the previous rank sent");
}

CONFORMANCE_TEST(point_to_point, a_ring, .min_ranks = 2) {
  for (size_t count : {size_t{1}, size_t{7}, kCount}) RingInAGroup(t, count);
}

// Larger than any buffer in a library.
CONFORMANCE_TEST(point_to_point, a_large_ring, .min_ranks = 2) { RingInAGroup(t, 6'000'001); }

CONFORMANCE_TEST(point_to_point, first_in_first_out_per_pair, .min_ranks = 2) {
  constexpr int kMessages = 20;
  const auto [comm, stream] = OnWorld(t);
  const Neighbours at(t);
  std::vector<IntBuffers> all;
  for (int i = 0; i < kMessages; ++i) {
    // Sizes differ, so that a misplaced message is detected.
    all.emplace_back(t, 10 + i, stream).send.Fill(100 * t.rank() + i);
  }
  NCCL_OK(t, ncclGroupStart());
  for (const IntBuffers& one : all) {
    NCCL_OK(t, ncclSend(one.send.data(), one.send.count(), ncclInt32, at.next, comm, stream));
  }
  for (const IntBuffers& one : all) {
    NCCL_OK(
        t, ncclRecv(one.receive.data(), one.receive.count(), ncclInt32, at.previous, comm, stream));
  }
  NCCL_OK(t, ncclGroupEnd());
  for (int i = 0; i < kMessages; ++i) {
    all[i].receive.Expect(100 * at.previous + i, "the message at its position");
  }
}

// Not in a group: one after the other, in stream order.
CONFORMANCE_TEST(point_to_point, first_in_first_out_over_several_calls, .min_ranks = 2) {
  constexpr int kMessages = 20;
  const auto [comm, stream] = OnWorld(t);
  std::vector<IntBuffers> all;
  for (int i = 0; i < kMessages; ++i) all.emplace_back(t, 10 + i, stream).send.Fill(i);
  for (const IntBuffers& one : all) {
    if (t.is_root()) {
      NCCL_OK(t, ncclSend(one.send.data(), one.send.count(), ncclInt32, 1, comm, stream));
    } else if (t.rank() == 1) {
      NCCL_OK(t, ncclRecv(one.receive.data(), one.receive.count(), ncclInt32, 0, comm, stream));
    }
  }
  for (int i = 0; t.rank() == 1 && i < kMessages; ++i) {
    all[i].receive.Expect(i, "the message at its position");
  }
  t.Wait(stream);
}

// The pattern of a program without all-to-all: every pair at once, each with its own size.
CONFORMANCE_TEST(point_to_point, every_pair_at_once) {
  const auto [comm, stream] = OnWorld(t);
  const auto count = [&](int from, int to) { return size_t{100} + 37 * from + 11 * to; };
  std::vector<IntBuffer> sends;
  std::vector<IntBuffer> receives;
  for (int peer = 0; peer < t.size(); ++peer) {
    sends.emplace_back(t, count(t.rank(), peer), stream).Fill(1000 * t.rank() + peer);
    receives.emplace_back(t, count(peer, t.rank()), stream).Fill(-1);
  }
  NCCL_OK(t, ncclGroupStart());
  // Ranks list their peers in different orders.
  for (int i = 0; i < t.size(); ++i) {
    const int to = (t.rank() + i) % t.size();
    NCCL_OK(t, ncclRecv(receives[i].data(), receives[i].count(), ncclInt32, i, comm, stream));
    NCCL_OK(t, ncclSend(sends[to].data(), sends[to].count(), ncclInt32, to, comm, stream));
  }
  NCCL_OK(t, ncclGroupEnd());
  for (int peer = 0; peer < t.size(); ++peer) {
    receives[peer].Expect(1000 * peer + t.rank(), "the data that a peer sent");
  }
}

CONFORMANCE_TEST(point_to_point, to_oneself_in_a_group) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(t.rank());
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclSend(buffers.send.data(), kCount, ncclInt32, t.rank(), comm, stream));
  NCCL_OK(t, ncclRecv(buffers.receive.data(), kCount, ncclInt32, t.rank(), comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  buffers.receive.Expect(t.rank(), "the data that the rank sent to itself");
}

CONFORMANCE_TEST(point_to_point, to_oneself_without_a_receive_is_invalid_usage) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream);
  NCCL_RETURNS(t, ncclInvalidUsage,
               ncclSend(buffers.send.data(), kCount, ncclInt32, t.rank(), comm, stream));
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclRecv(buffers.receive.data(), kCount, ncclInt32, t.rank(), comm, stream));
  NCCL_RETURNS(t, ncclInvalidUsage, ncclGroupEnd());
}

CONFORMANCE_TEST(point_to_point, through_all_types, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  const Neighbours at(t);
  for (const ElementType& type : ElementTypes()) {
    // At an odd element, so that the data is aligned only to its type.
    const size_t bytes = kCount * type.bytes;
    DeviceBuffer send = t.NewBuffer(bytes + type.bytes);
    DeviceBuffer receive = t.NewBuffer(bytes + type.bytes);
    std::vector<std::byte> data(bytes, static_cast<std::byte>(17 * t.rank() + type.nccl));
    CUDA_OK(t, cudaMemcpyAsync(send.data + type.bytes, data.data(), bytes, cudaMemcpyHostToDevice,
                               stream));
    NCCL_OK(t, ncclGroupStart());
    NCCL_OK(t, ncclSend(send.data + type.bytes, kCount, type.nccl, at.next, comm, stream));
    NCCL_OK(t, ncclRecv(receive.data + type.bytes, kCount, type.nccl, at.previous, comm, stream));
    NCCL_OK(t, ncclGroupEnd());
    t.Wait(stream);
    CUDA_OK(t, cudaMemcpy(data.data(), receive.data + type.bytes, bytes, cudaMemcpyDeviceToHost));
    const auto sent = static_cast<std::byte>(17 * at.previous + type.nccl);
    EXPECT_THAT(t, std::all_of(data.begin(), data.end(), [&](std::byte b) { return b == sent; }),
                "the data that the previous rank sent as " + std::string(type.name));
  }
}

// Independent pairs do not wait for each other.
CONFORMANCE_TEST(point_to_point, pairs_do_not_wait_for_uninvolved_ranks, .min_ranks = 3) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer buffer(t, kCount, stream);
  buffer.Fill(t.rank() == 1 ? 9 : -1);
  if (t.rank() == 1) {
    NCCL_OK(t, ncclSend(buffer.data(), kCount, ncclInt32, 2, comm, stream));
    t.Wait(stream);
  } else if (t.rank() == 2) {
    NCCL_OK(t, ncclRecv(buffer.data(), kCount, ncclInt32, 1, comm, stream));
    buffer.Expect(9, "the data that rank 1 sent");
  }
  t.Barrier();
  Works(t, comm);
}

CONFORMANCE_TEST(point_to_point, the_receive_may_come_first, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer buffer(t, kCount, stream);
  buffer.Fill(t.is_root() ? 3 : -1);
  t.Wait(stream);
  if (t.rank() == 1) {
    NCCL_OK(t, ncclRecv(buffer.data(), kCount, ncclInt32, 0, comm, stream));
    t.ExpectBusy(stream, "rank 0 has not sent yet");
  }
  t.Barrier();
  if (t.is_root()) NCCL_OK(t, ncclSend(buffer.data(), kCount, ncclInt32, 1, comm, stream));
  if (t.rank() == 1) buffer.Expect(3, "the data that rank 0 sent");
  t.Wait(stream);
}

// A pipeline of stages, as in training: receive, work, send on.
CONFORMANCE_TEST(point_to_point, a_pipeline_of_stages, .min_ranks = 2) {
  constexpr int kMicrobatches = 16;
  const auto [comm, stream] = OnWorld(t);
  IntBuffer buffer(t, kCount, stream);
  const bool first = t.is_root();
  const bool last = t.rank() == t.size() - 1;
  for (int i = 0; t.ok() && i < kMicrobatches; ++i) {
    if (first) {
      t.Wait(stream);
      buffer.Fill(i);
    } else {
      NCCL_OK(t, ncclRecv(buffer.data(), kCount, ncclInt32, t.rank() - 1, comm, stream));
    }
    if (!last) {
      NCCL_OK(t, ncclSend(buffer.data(), kCount, ncclInt32, t.rank() + 1, comm, stream));
    } else {
      buffer.Expect(i, "the microbatch");
    }
  }
  t.Wait(stream);
}

CONFORMANCE_TEST(point_to_point, several_streams_in_one_group, .min_ranks = 2) {
  ncclComm_t comm = t.World();
  cudaStream_t sending = t.NewStream();
  cudaStream_t receiving = t.NewStream();
  const Neighbours at(t);
  IntBuffer send(t, kCount, sending);
  IntBuffer receive(t, kCount, receiving);
  send.Fill(t.rank());
  receive.Fill(-1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclSend(send.data(), kCount, ncclInt32, at.next, comm, sending));
  NCCL_OK(t, ncclRecv(receive.data(), kCount, ncclInt32, at.previous, comm, receiving));
  NCCL_OK(t, ncclGroupEnd());
  receive.Expect(at.previous, "the data that the previous rank sent");
  t.Wait(sending);
}

}  // namespace point_to_point_tests
}  // namespace conformance
