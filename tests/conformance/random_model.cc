#include "conformance/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "conformance/random_program.h"
#include "conformance/reference.h"

namespace conformance {
namespace {

constexpr int64_t kLargestFilled = 3;  // in magnitude, of floating types

bool IsFloat(const ElementType& type) { return type.kind == NumberKind::kFloat; }

// Converts to the stored value of the type.
int64_t Wrap(const ElementType& type, uint64_t value) {
  if (IsFloat(type) || type.bytes == sizeof(int64_t)) return static_cast<int64_t>(value);
  const int unused = 64 - 8 * static_cast<int>(type.bytes);
  return type.kind == NumberKind::kSigned ? static_cast<int64_t>(value << unused) >> unused
                                          : static_cast<int64_t>(value << unused >> unused);
}

bool Less(const ElementType& type, int64_t a, int64_t b) {
  return type.kind == NumberKind::kUnsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b)
                                            : a < b;
}

int64_t Combine(const Call& call, int64_t a, int64_t b) {
  const ElementType& type = *call.type;
  switch (call.op) {
    case ncclProd:
      return Wrap(type, static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case ncclMax:
      return Less(type, a, b) ? b : a;
    case ncclMin:
      return Less(type, b, a) ? b : a;
    default:
      return Wrap(type, static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

int64_t Divide(const ElementType& type, int64_t sum, int ranks) {
  if (type.kind == NumberKind::kUnsigned) {
    return static_cast<int64_t>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(ranks));
  }
  return sum / ranks;
}

// The offsets of a member's input and output.
struct Places {
  size_t send, receive;
};

Places PlacesOf(const RandomOperation& operation, int rank, int n) {
  if (!operation.in_place()) return {operation.send_at, operation.receive_at};
  const InPlaceLayout layout = LayInPlace(operation.call, rank, n);
  return {operation.send_at + layout.send_at, operation.send_at + layout.receive_at};
}

}  // namespace

const std::vector<RandomBuffer>& RandomBuffers() {
  constexpr size_t kElements = 6000;
  // Pairs of the same type, so that each buffer has a counterpart.
  static const std::vector<RandomBuffer> buffers = [] {
    std::vector<RandomBuffer> all;
    for (ncclDataType_t type : {ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64,
                                ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16}) {
      for (int i = 0; i < 2; ++i) all.push_back({&ElementTypes()[type], kElements});
    }
    return all;
  }();
  return buffers;
}

int64_t FilledValue(const ElementType& type, uint64_t salt, int rank, size_t index) {
  const uint64_t bits =
      Scramble(salt ^ Scramble(static_cast<uint64_t>(rank) << 32 ^ static_cast<uint64_t>(index)));
  if (!IsFloat(type)) return Wrap(type, bits);
  return static_cast<int64_t>(bits % (2 * kLargestFilled + 1)) - kLargestFilled;
}

void EncodeInteger(const ElementType& type, int64_t value, std::byte* out) {
  if (IsFloat(type)) {
    collective_perf::Encode(type, static_cast<double>(value), out);
  } else {
    std::memcpy(out, &value, type.bytes);
  }
}

RandomModel::RandomModel(int ranks) : memory_(ranks) {
  for (auto& buffers : memory_) {
    for (const RandomBuffer& buffer : RandomBuffers()) buffers.emplace_back(buffer.elements, 0);
  }
}

void RandomModel::Fill(int buffer, uint64_t salt) {
  const ElementType& type = *RandomBuffers()[buffer].type;
  for (size_t rank = 0; rank < memory_.size(); ++rank) {
    std::vector<int64_t>& values = memory_[rank][buffer];
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = FilledValue(type, salt, static_cast<int>(rank), i);
    }
  }
}

std::vector<int64_t> RandomModel::Inputs(const RandomOperation& operation,
                                         const RandomCommunicator& comm, int rank) const {
  const int n = static_cast<int>(comm.members.size());
  const std::vector<int64_t>& buffer = memory_[comm.members[rank]][operation.send_buffer];
  const auto begin = buffer.begin() + PlacesOf(operation, rank, n).send;
  std::vector<int64_t> inputs(begin, begin + SendElements(operation.call, rank, n));
  for (int64_t& value : inputs) {
    if (operation.scalar == 0) break;
    value = Wrap(*operation.call.type,
                 static_cast<uint64_t>(value) * static_cast<uint64_t>(operation.scalar));
  }
  return inputs;
}

void RandomModel::Apply(const RandomOperation& operation, const RandomCommunicator& comm) {
  operation.point_to_point ? ApplyMessages(operation, comm) : ApplyCollective(operation, comm);
}

void RandomModel::ApplyMessages(const RandomOperation& operation, const RandomCommunicator& comm) {
  for (const Message& message : operation.messages) {
    const auto& from = memory_[comm.members[message.from]][operation.send_buffer];
    auto& to = memory_[comm.members[message.to]][operation.receive_buffer];
    std::copy_n(from.begin() + message.send_at, message.count, to.begin() + message.receive_at);
  }
}

void RandomModel::ApplyCollective(const RandomOperation& operation,
                                  const RandomCommunicator& comm) {
  const Call& call = operation.call;
  const int n = static_cast<int>(comm.members.size());
  if (call.count == 0) return;
  std::vector<std::vector<int64_t>> inputs;
  for (int rank = 0; rank < n; ++rank) inputs.push_back(Inputs(operation, comm, rank));
  for (int rank = 0; rank < n; ++rank) {
    std::vector<int64_t>& buffer = memory_[comm.members[rank]][operation.receive_buffer];
    const size_t begin = PlacesOf(operation, rank, n).receive;
    for (size_t i = 0; i < ReceiveElements(call, rank, n); ++i) {
      const Source source = Trace(call, rank, i);
      int64_t result = inputs[call.reduces() ? 0 : source.rank][source.index];
      for (int other = 1; call.reduces() && other < n; ++other) {
        result = Combine(call, result, inputs[other][source.index]);
      }
      if (call.reduces() && call.op == ncclAvg) result = Divide(*call.type, result, n);
      buffer[begin + i] = result;
    }
  }
}

bool RandomModel::IsExact(const RandomOperation& operation, const RandomCommunicator& comm) const {
  const Call& call = operation.call;
  if (!call.reduces() || !IsFloat(*call.type) || call.op == ncclMax || call.op == ncclMin) {
    return true;
  }
  if (call.op == ncclAvg) return false;  // other tests cover fractions
  const int n = static_cast<int>(comm.members.size());
  std::vector<double> bound;
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<int64_t> inputs = Inputs(operation, comm, rank);
    bound.resize(inputs.size(), call.op == ncclProd ? 1 : 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double magnitude = std::fabs(static_cast<double>(inputs[i]));
      bound[i] = call.op == ncclProd ? bound[i] * std::max(magnitude, 1.0) : bound[i] + magnitude;
    }
  }
  return std::all_of(bound.begin(), bound.end(),
                     [&](double most) { return most <= call.type->exact_limit; });
}

}  // namespace conformance
