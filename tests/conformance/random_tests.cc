// Runs random programs on the library and compares the results with the model.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "conformance/checked_call.h"
#include "conformance/random_program.h"
#include "conformance/reference.h"
#include "conformance/test_table.h"

namespace conformance {
namespace random_tests {

class Run {
 public:
  Run(Test& test, const RandomProgram& program) : test_(test), program_(program) {
    comms_.resize(program.comms.size());
    comms_[0] = test.World();
    for (int i = 0; i < RandomProgram::kStreams; ++i) streams_.push_back(test.NewStream());
    for (const RandomBuffer& buffer : RandomBuffers()) {
      const size_t bytes = buffer.elements * buffer.type->bytes;
      buffers_.push_back({test.NewBuffer(bytes), test.NewHostMemory(bytes), -1, -1});
    }
    CUDA_OK(test_, cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~Run() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Steps() {
    for (size_t i = 0; test_.ok() && i < program_.steps.size(); ++i) {
      at_ = i;
      Take(program_.steps[i]);
    }
    for (size_t i = 1; i < comms_.size(); ++i) {
      if (comms_[i] != nullptr) test_.Destroy(comms_[i]);
    }
  }

 private:
  struct Buffer {
    DeviceBuffer device;
    std::byte* host;  // source of fills
    // The last use; the next use is ordered after it.
    int stream;
    int comm;  // -1: none
  };

  void Take(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kInit:
        return Init(step);
      case Step::Kind::kSplit:
        return Split(step);
      case Step::Kind::kFill:
        return Fill(step);
      case Step::Kind::kCheck:
        return Check(step);
      case Step::Kind::kDestroy:
        return Destroy(step);
      case Step::Kind::kOperations:
        return Operations(step);
    }
  }

  int RankIn(int comm) const { return program_.comms[comm].RankOf(test_.rank()); }

  void Init(const Step& step) {
    const ncclUniqueId id = test_.SharedId();
    const int rank = RankIn(step.comm);
    if (rank < 0) return;
    const int size = static_cast<int>(program_.comms[step.comm].members.size());
    NCCL_OK(test_, ncclCommInitRank(&comms_[step.comm], size, id, rank));
    test_.TakeOwnership(comms_[step.comm]);
  }

  void Split(const Step& step) {
    const int rank = RankIn(step.parent);
    if (rank < 0) return;
    ncclComm_t child = nullptr;
    NCCL_OK(test_, ncclCommSplit(comms_[step.parent], step.colors[rank], step.keys[rank], &child,
                                 nullptr));
    test_.TakeOwnership(child);
    if (step.colors[rank] == 0) {
      comms_[step.comm] = child;
    } else if (child != nullptr) {
      test_.Destroy(child);
    }
  }

  void Destroy(const Step& step) {
    if (RankIn(step.comm) < 0) return;
    test_.Destroy(comms_[step.comm]);
    comms_[step.comm] = nullptr;
  }

  // Orders the next use of a buffer, on this stream and communicator, after the last one.
  void Order(Buffer* buffer, int stream, int comm) {
    const bool ordered =
        buffer->stream < 0 || buffer->stream == stream || (comm >= 0 && buffer->comm == comm);
    if (!ordered) {
      CUDA_OK(test_, cudaEventRecord(event_, streams_[buffer->stream]));
      CUDA_OK(test_, cudaStreamWaitEvent(streams_[stream], event_, 0));
    }
    buffer->stream = stream;
    buffer->comm = comm;
  }

  void Fill(const Step& step) {
    Buffer& buffer = buffers_[step.buffer];
    const RandomBuffer& shape = RandomBuffers()[step.buffer];
    // The host memory is in use until the previous copy is done.
    if (buffer.stream >= 0) test_.Wait(streams_[buffer.stream]);
    if (!test_.ok()) return;
    for (size_t i = 0; i < shape.elements; ++i) {
      EncodeInteger(*shape.type, FilledValue(*shape.type, step.salt, test_.rank(), i),
                    buffer.host + i * shape.type->bytes);
    }
    Order(&buffer, step.stream, -1);
    CUDA_OK(test_, cudaMemcpyAsync(buffer.device.data, buffer.host, buffer.device.bytes,
                                   cudaMemcpyHostToDevice, streams_[step.stream]));
  }

  // Operations of one communicator keep their order; the order across communicators is random.
  std::vector<const RandomOperation*> OwnOrder(const Step& step) const {
    std::map<int, std::vector<const RandomOperation*>> by_comm;
    for (const RandomOperation& operation : step.operations) {
      if (RankIn(operation.comm) >= 0) by_comm[operation.comm].push_back(&operation);
    }
    std::vector<std::pair<uint64_t, int>> turns;
    for (const auto& [comm, operations] : by_comm) {
      const auto own = static_cast<uint64_t>(test_.rank()) << 32 | static_cast<uint64_t>(comm);
      turns.emplace_back(Scramble(step.shuffle ^ own), comm);
    }
    std::sort(turns.begin(), turns.end());
    std::vector<const RandomOperation*> order;
    for (const auto& [turn, comm] : turns) {
      order.insert(order.end(), by_comm[comm].begin(), by_comm[comm].end());
    }
    return order;
  }

  // Whether this rank transfers data. If not (no message from or to it, an empty collective), the
  // operation orders nothing on this rank.
  bool TakesPart(const RandomOperation& operation) const {
    if (!operation.point_to_point) return operation.call.count > 0;
    const int rank = RankIn(operation.comm);
    return std::any_of(
        operation.messages.begin(), operation.messages.end(),
        [&](const Message& message) { return message.from == rank || message.to == rank; });
  }

  void Operations(const Step& step) {
    const std::vector<const RandomOperation*> order = OwnOrder(step);
    for (const RandomOperation* operation : order) {
      if (!TakesPart(*operation)) continue;
      const int stream = operation->streams[RankIn(operation->comm)];
      Order(&buffers_[operation->send_buffer], stream, operation->comm);
      if (!operation->in_place()) {
        Order(&buffers_[operation->receive_buffer], stream, operation->comm);
      }
    }
    if (step.in_group) NCCL_OK(test_, ncclGroupStart());
    for (const RandomOperation* operation : order) {
      operation->point_to_point ? PostMessages(*operation) : PostCollective(*operation);
    }
    if (step.in_group) NCCL_OK(test_, ncclGroupEnd());
  }

  void PostCollective(const RandomOperation& operation) {
    const int rank = RankIn(operation.comm);
    const int n = static_cast<int>(program_.comms[operation.comm].members.size());
    ncclComm_t comm = comms_[operation.comm];
    Call call = operation.call;
    const size_t unit = call.type->bytes;
    size_t send_at = operation.send_at;
    size_t receive_at = operation.receive_at;
    if (operation.in_place()) {
      const InPlaceLayout layout = LayInPlace(call, rank, n);
      receive_at = send_at + layout.receive_at;
      send_at += layout.send_at;
    }
    if (operation.scalar != 0) {
      std::vector<std::byte> scalar(sizeof(int64_t));
      EncodeInteger(*call.type, operation.scalar, scalar.data());
      NCCL_OK(test_, ncclRedOpCreatePreMulSum(&call.op, scalar.data(), call.type->nccl,
                                              ncclScalarHostImmediate, comm));
    }
    if (!test_.ok()) return;
    test_.ExpectResult(ncclSuccess,
                       Post(call, buffers_[operation.send_buffer].device.data + send_at * unit,
                            buffers_[operation.receive_buffer].device.data + receive_at * unit,
                            comm, streams_[operation.streams[rank]]),
                       ToText(operation.call).c_str());
    if (operation.scalar != 0) NCCL_OK(test_, ncclRedOpDestroy(call.op, comm));
  }

  void PostMessages(const RandomOperation& operation) {
    const int rank = RankIn(operation.comm);
    ncclComm_t comm = comms_[operation.comm];
    cudaStream_t stream = streams_[operation.streams[rank]];
    const ElementType& type = *operation.call.type;
    std::byte* send = buffers_[operation.send_buffer].device.data;
    std::byte* receive = buffers_[operation.receive_buffer].device.data;
    for (const Message& message : operation.messages) {
      if (message.from == rank) {
        NCCL_OK(test_, ncclSend(send + message.send_at * type.bytes, message.count, type.nccl,
                                message.to, comm, stream));
      }
      if (message.to == rank) {
        NCCL_OK(test_, ncclRecv(receive + message.receive_at * type.bytes, message.count, type.nccl,
                                message.from, comm, stream));
      }
    }
  }

  void Check(const Step& step) {
    for (cudaStream_t stream : streams_) test_.Wait(stream);
    for (size_t i = 0; test_.ok() && i < buffers_.size(); ++i) CheckBuffer(step, i);
  }

  void CheckBuffer(const Step& step, size_t which) {
    const RandomBuffer& shape = RandomBuffers()[which];
    const size_t unit = shape.type->bytes;
    std::vector<std::byte> now(buffers_[which].device.bytes);
    CUDA_OK(test_, cudaMemcpy(now.data(), buffers_[which].device.data, now.size(),
                              cudaMemcpyDeviceToHost));
    std::vector<std::byte> right(unit);
    for (size_t i = 0; test_.ok() && i < shape.elements; ++i) {
      // Compares values: a floating zero may have either sign.
      EncodeInteger(*shape.type, step.expected[which][i], right.data());
      if (std::equal(right.begin(), right.end(), now.begin() + i * unit)) continue;
      const double actual = collective_perf::Decode(*shape.type, now.data() + i * unit);
      const bool zeros = step.expected[which][i] == 0 && actual == 0;
      if (zeros && shape.type->kind == NumberKind::kFloat) continue;
      test_.Fail("expected " + std::to_string(step.expected[which][i]) + " in element " +
                 std::to_string(i) + " of buffer " + std::to_string(which) + " (" +
                 std::string(shape.type->name) + ") at step " + std::to_string(at_) + ", got " +
                 std::to_string(actual));
    }
  }

  Test& test_;
  const RandomProgram& program_;
  std::vector<ncclComm_t> comms_;
  std::vector<cudaStream_t> streams_;
  std::vector<Buffer> buffers_;
  cudaEvent_t event_ = nullptr;
  size_t at_ = 0;
};

void RunSeed(Test& t, uint64_t seed) {
  const RandomProgram program = DrawProgram(seed, t.size(), t.rank());
  {
    Run run(t, program);
    run.Steps();
  }
  if (t.outcome() == Outcome::kFailed) {
    t.AddToFailure("; --random --seeds 1 --seed " + std::to_string(seed) +
                   ", the steps:" + program.ToText());
  }
}

}  // namespace random_tests

void AddRandomTests(uint64_t seed, int seeds, TestTable* table) {
  for (int i = 0; i < seeds; ++i) {
    const uint64_t one = seed + static_cast<uint64_t>(i);
    table->push_back({"random", "seed_" + std::to_string(one),
                      [one](Test& t) { random_tests::RunSeed(t, one); }});
  }
}

}  // namespace conformance
