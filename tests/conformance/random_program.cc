#include "conformance/random_program.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "conformance/reference.h"

namespace conformance {
namespace {

constexpr int kSteps = 24;
constexpr int kMostOperationsPerStep = 5;
constexpr int kMostComms = 5;
constexpr int kMostMessages = 12;
constexpr int kMostScalar = 5;

std::string Listed(const std::vector<int>& values) {
  std::string text;
  for (int value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}

class Draw {
 public:
  Draw(uint64_t seed, int ranks, int rank)
      : dice_(Scramble(seed)), ranks_(ranks), rank_(rank), model_(ranks) {
    program_.seed = seed;
    std::vector<int> everybody(ranks);
    std::iota(everybody.begin(), everybody.end(), 0);
    program_.comms.push_back({everybody});
    alive_ = {0};
  }

  RandomProgram Program() {
    for (size_t i = 0; i < RandomBuffers().size(); ++i) AddFill(static_cast<int>(i));
    for (int i = 0; i < kSteps; ++i) AddStep();
    AddCheck();
    return std::move(program_);
  }

 private:
  void AddStep() {
    switch (dice_.Below(12)) {
      case 0:
        return AddFill(dice_.Below(static_cast<int>(RandomBuffers().size())));
      case 1:
        return AddCheck();
      case 2:
        return alive_.size() < kMostComms ? AddInit() : AddDestroy();
      case 3:
        return alive_.size() < kMostComms ? AddSplit() : AddDestroy();
      default:
        return AddOperations();
    }
  }

  void AddFill(int buffer) {
    Step step;
    step.kind = Step::Kind::kFill;
    step.buffer = buffer;
    step.salt = dice_.Next();
    step.stream = dice_.Below(RandomProgram::kStreams);
    model_.Fill(buffer, step.salt);
    program_.steps.push_back(step);
  }

  void AddCheck() {
    Step step;
    step.kind = Step::Kind::kCheck;
    step.expected = model_.BuffersOf(rank_);
    program_.steps.push_back(step);
  }

  // Selects some of the ranks, in any order.
  void AddInit() {
    std::vector<int> members = program_.comms[0].members;
    Shuffle(&members);
    members.resize(1 + dice_.Below(ranks_));
    Step step;
    step.kind = Step::Kind::kInit;
    step.comm = static_cast<int>(program_.comms.size());
    program_.comms.push_back({members});
    alive_.push_back(step.comm);
    program_.steps.push_back(step);
  }

  // Splits into several communicators, of which only the first can be drawn later; a color may be
  // unused.
  void AddSplit() {
    Step step;
    step.kind = Step::Kind::kSplit;
    step.parent = alive_[dice_.Below(static_cast<int>(alive_.size()))];
    const std::vector<int> parents = program_.comms[step.parent].members;
    std::vector<std::pair<int, int>> of_color_0;  // key, rank of the parent
    for (size_t i = 0; i < parents.size(); ++i) {
      const int color = dice_.Below(3) - 1;
      static_assert(NCCL_SPLIT_NOCOLOR == -1);
      step.colors.push_back(color);
      step.keys.push_back(dice_.Below(5));
      if (color == 0) of_color_0.emplace_back(step.keys.back(), static_cast<int>(i));
    }
    std::sort(of_color_0.begin(), of_color_0.end());
    RandomCommunicator made;
    for (const auto& [key, rank] : of_color_0) made.members.push_back(parents[rank]);
    step.comm = static_cast<int>(program_.comms.size());
    program_.comms.push_back(made);
    if (!made.members.empty()) alive_.push_back(step.comm);
    program_.steps.push_back(step);
  }

  void AddDestroy() {
    if (alive_.size() < 2) return;
    const int which = 1 + dice_.Below(static_cast<int>(alive_.size()) - 1);
    Step step;
    step.kind = Step::Kind::kDestroy;
    step.comm = alive_[which];
    alive_.erase(alive_.begin() + which);
    program_.steps.push_back(step);
  }

  void AddOperations() {
    Step step;
    step.kind = Step::Kind::kOperations;
    const int wanted = dice_.OneIn(3) ? 1 : 1 + dice_.Below(kMostOperationsPerStep);
    std::set<int> used;  // buffers
    for (int i = 0; i < wanted; ++i) {
      RandomOperation operation = dice_.OneIn(4) ? DrawMessages() : DrawCollective();
      if (!used.insert(operation.send_buffer).second) continue;
      if (!operation.in_place() && !used.insert(operation.receive_buffer).second) continue;
      const RandomCommunicator& comm = program_.comms[operation.comm];
      if (!model_.IsExact(operation, comm)) operation.call.op = ncclMax;
      for (size_t member = 0; member < comm.members.size(); ++member) {
        operation.streams.push_back(dice_.Below(RandomProgram::kStreams));
      }
      model_.Apply(operation, comm);
      step.operations.push_back(std::move(operation));
    }
    // Several sends and receives need a group; a single collective may be outside one.
    step.in_group =
        step.operations.size() > 1 || step.operations.front().point_to_point || dice_.OneIn(3);
    step.shuffle = dice_.Next();
    program_.steps.push_back(std::move(step));
  }

  // Draws buffers of one type: one buffer or a pair.
  void DrawBuffers(bool in_place, RandomOperation* operation) {
    const int pair = dice_.Below(static_cast<int>(RandomBuffers().size()) / 2);
    const int first = dice_.Below(2);
    operation->send_buffer = 2 * pair + first;
    operation->receive_buffer = in_place ? operation->send_buffer : 2 * pair + 1 - first;
    operation->call.type = RandomBuffers()[operation->send_buffer].type;
  }

  RandomOperation DrawCollective() {
    RandomOperation operation;
    operation.comm = alive_[dice_.Below(static_cast<int>(alive_.size()))];
    const int n = static_cast<int>(program_.comms[operation.comm].members.size());
    const Collective& collective =
        Collectives()[dice_.Below(static_cast<int>(Collectives().size()))];
    DrawBuffers(collective.has_in_place && dice_.OneIn(3), &operation);
    Call& call = operation.call;
    call.kind = collective.kind;
    call.root = dice_.Below(n);
    call.op = static_cast<ncclRedOp_t>(dice_.Below(ncclNumOps));
    const size_t capacity = RandomBuffers()[operation.send_buffer].elements;
    // Room for the block of every rank, and an offset.
    const int most = static_cast<int>(capacity) / (n + 1);
    call.count = dice_.OneIn(12) ? 0 : 1 + dice_.Below(dice_.OneIn(2) ? most : std::min(most, 40));
    const int spare = static_cast<int>(capacity - call.count * n);
    operation.send_at = dice_.Below(spare);
    operation.receive_at = dice_.Below(spare);
    const bool integers = call.type->kind != NumberKind::kFloat;
    if (collective.reduces && integers && call.op == ncclSum && dice_.OneIn(2)) {
      operation.scalar = 1 + dice_.Below(kMostScalar);
    }
    return operation;
  }

  // Messages between any two members, including self-sends. Several messages of a pair keep their
  // order. Sends and receives use different buffers.
  RandomOperation DrawMessages() {
    RandomOperation operation;
    operation.comm = alive_[dice_.Below(static_cast<int>(alive_.size()))];
    operation.point_to_point = true;
    DrawBuffers(/*in_place=*/false, &operation);
    const int n = static_cast<int>(program_.comms[operation.comm].members.size());
    const int capacity = static_cast<int>(RandomBuffers()[operation.send_buffer].elements);
    const int many = 1 + dice_.Below(kMostMessages);
    const int room = capacity / many;
    for (int i = 0; i < many; ++i) {
      Message message{dice_.Below(n), dice_.Below(n), 0, 0, 0};
      message.count = dice_.OneIn(8) ? 0 : dice_.Below(room);
      message.send_at = dice_.Below(capacity - room + 1);
      // A separate position for any receiver.
      message.receive_at = static_cast<size_t>(i) * room;
      operation.messages.push_back(message);
    }
    return operation;
  }

  void Shuffle(std::vector<int>* values) {
    for (size_t i = values->size(); i > 1; --i) {
      std::swap((*values)[i - 1], (*values)[dice_.Below(static_cast<int>(i))]);
    }
  }

  SeededRandom dice_;
  const int ranks_;
  const int rank_;
  RandomModel model_;
  RandomProgram program_;
  std::vector<int> alive_;
};

std::string OperationText(const RandomOperation& operation) {
  std::string text;
  if (operation.point_to_point) {
    text = "messages of " + std::string(operation.call.type->name);
    for (const Message& message : operation.messages) {
      text += " " + std::to_string(message.from) + ">" + std::to_string(message.to) + ":" +
              std::to_string(message.count);
    }
  } else {
    text = ToText(operation.call);
    if (operation.scalar != 0) text += " times " + std::to_string(operation.scalar);
  }
  return text + " on comm " + std::to_string(operation.comm) + ", buffer " +
         std::to_string(operation.send_buffer) + "+" + std::to_string(operation.send_at) + " to " +
         std::to_string(operation.receive_buffer) + "+" + std::to_string(operation.receive_at) +
         ", streams " + Listed(operation.streams);
}

}  // namespace

uint64_t SeededRandom::Next() { return Scramble(state_++); }

int RandomCommunicator::RankOf(int world_rank) const {
  const auto found = std::find(members.begin(), members.end(), world_rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

std::string Step::ToText() const {
  switch (kind) {
    case Kind::kInit:
      return "init of comm " + std::to_string(comm);
    case Kind::kSplit:
      return "split of comm " + std::to_string(parent) + " into " + std::to_string(comm) +
             ", colors " + Listed(colors) + ", keys " + Listed(keys);
    case Kind::kFill:
      return "fill of buffer " + std::to_string(buffer);
    case Kind::kCheck:
      return "check";
    case Kind::kDestroy:
      return "destroy of comm " + std::to_string(comm);
    case Kind::kOperations:
      break;
  }
  std::string text = in_group ? "group {" : "";
  for (const RandomOperation& operation : operations) {
    text += (text.empty() || text == "group {" ? " " : "; ") + OperationText(operation);
  }
  return text + (in_group ? " }" : "");
}

std::string RandomProgram::ToText() const {
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i) {
    text += " | " + std::to_string(i) + ": " + steps[i].ToText();
    if (steps[i].kind == Step::Kind::kInit) text += " of " + Listed(comms[steps[i].comm].members);
  }
  return text;
}

RandomProgram DrawProgram(uint64_t seed, int ranks, int rank) {
  return Draw(seed, ranks, rank).Program();
}

}  // namespace conformance
