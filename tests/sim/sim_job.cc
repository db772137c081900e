#include "tests/sim/sim_job.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace mccs {

SimJob::SimJob(SimWorld& world, std::vector<int> host_of_rank, size_t bytes,
               const std::string& tenant)
    : world_(world) {
  for (int host : host_of_rank) {
    Member member;
    member.tenant = &world.AddTenant(host, tenant);
    member.input.resize(bytes / sizeof(float));
    member.output.resize(bytes / sizeof(float));
    members_.push_back(std::move(member));
  }
}

SimJob::SimJob(SimWorld& world, const std::vector<RankOfTenant>& seats, size_t bytes)
    : world_(world) {
  for (const RankOfTenant& seat : seats) {
    Member member;
    member.tenant = seat.tenant;
    member.rank = seat.rank;
    member.input.resize(bytes / sizeof(float));
    member.output.resize(bytes / sizeof(float));
    members_.push_back(std::move(member));
  }
  RegisterBuffers();
  world.RunUntil([&] {
    return std::ranges::all_of(members_, [](const Member& m) {
      return m.tenant->BufferAt(reinterpret_cast<const std::byte*>(m.output.data())) != 0;
    });
  });
}

bool SimJob::Form() {
  return Begin() && world_.RunUntil([&] { return Formed(); });
}

void SimJob::RegisterBuffers() {
  for (Member& member : members_) {
    for (std::vector<float>* buffer : {&member.input, &member.output}) {
      member.tenant->Register(reinterpret_cast<std::byte*>(buffer->data()),
                              buffer->size() * sizeof(float));
    }
  }
}

void SimJob::Release(int r) {
  const Member& member = members_[static_cast<size_t>(r)];
  for (const std::vector<float>* buffer : {&member.input, &member.output}) {
    member.tenant->Release(reinterpret_cast<const std::byte*>(buffer->data()));
  }
}

bool SimJob::IsReleased(int r) const {
  const Member& member = members_[static_cast<size_t>(r)];
  return member.tenant->IsReleased(reinterpret_cast<const std::byte*>(member.input.data())) &&
         member.tenant->IsReleased(reinterpret_cast<const std::byte*>(member.output.data()));
}

bool SimJob::Begin(uint32_t init_timeout_ms) {
  members_.front().tenant->RequestUniqueId();
  RegisterBuffers();
  if (!world_.RunUntil([&] { return members_.front().tenant->has_unique_id(); })) return false;
  for (int r = 0; r < ranks(); ++r) {
    Member& member = members_[static_cast<size_t>(r)];
    member.rank =
        &member.tenant->Init(members_.front().tenant->unique_id(), ranks(), r, init_timeout_ms);
  }
  return true;
}

bool SimJob::Formed() const {
  return std::ranges::all_of(members_, [](const Member& m) {
    return m.rank->answered && m.rank->status.error == wire::ErrorClass::kNone;
  });
}

bool SimJob::BuffersAnswered() const {
  return std::ranges::all_of(members_, [](const Member& m) {
    return m.tenant->HasAnswerFor(reinterpret_cast<const std::byte*>(m.input.data())) &&
           m.tenant->HasAnswerFor(reinterpret_cast<const std::byte*>(m.output.data()));
  });
}

bool SimJob::BufferRejected() const {
  return std::ranges::any_of(members_, [](const Member& m) {
    return std::ranges::any_of(std::array{m.input.data(), m.output.data()}, [&](const float* at) {
      const auto* memory = reinterpret_cast<const std::byte*>(at);
      return m.tenant->HasAnswerFor(memory) && m.tenant->BufferAt(memory) == 0;
    });
  });
}

std::string SimJob::BufferRejection() const {
  for (const Member& member : members_) {
    if (!member.tenant->rejection().empty()) return member.tenant->rejection();
  }
  return "";
}

bool SimJob::Ended() const {
  return std::ranges::all_of(members_, [](const Member& m) { return m.rank->ended; });
}

void SimJob::Fill(uint64_t count) {
  for (int r = 0; r < ranks(); ++r) {
    Member& member = members_[static_cast<size_t>(r)];
    for (uint64_t i = 0; i < count && i < member.input.size(); ++i)
      member.input[i] = InputValue(r, i);
    std::fill(member.output.begin(), member.output.end(), kUnwritten);
  }
}

wire::BufferRef SimJob::RefOf(const Member& member, const std::vector<float>& buffer) const {
  return {.id = member.tenant->BufferAt(reinterpret_cast<const std::byte*>(buffer.data())),
          .reserved = 0,
          .offset = 0};
}

void SimJob::Post(int r, OpKind kind, uint64_t count, int root) {
  Member& member = members_[static_cast<size_t>(r)];
  member.tenant->Post(*member.rank, {.kind = kind,
                                     .root = root,
                                     .count = count,
                                     .send = RefOf(member, member.input),
                                     .recv = RefOf(member, member.output)});
}

void SimJob::Post(int r, const Message& message) {
  Member& member = members_[static_cast<size_t>(r)];
  member.tenant->Post(*member.rank, CallOf(r, message));
}

SimCall SimJob::CallOf(int r, const Message& message) const {
  const Member& member = members_[static_cast<size_t>(r)];
  SimCall call{.kind = message.sends ? OpKind::kSend : OpKind::kRecv,
               .root = message.peer,
               .count = message.count};
  if (message.more) call.flags = wire::kMoreInGroup;
  wire::BufferRef& side = message.sends ? call.send : call.recv;
  side = RefOf(member, message.sends ? member.input : member.output);
  side.offset = message.at * sizeof(float);
  return call;
}

SimCall SimJob::CallOf(int r, OpKind kind, uint64_t count, uint64_t at) const {
  const Member& member = members_[static_cast<size_t>(r)];
  SimCall call{.kind = kind,
               .count = count,
               .send = RefOf(member, member.input),
               .recv = RefOf(member, member.output)};
  call.send.offset = call.recv.offset = at * sizeof(float);
  return call;
}

void SimJob::CopyToOutput(int r, uint64_t at, uint64_t count) {
  Member& member = members_[static_cast<size_t>(r)];
  std::copy_n(member.input.begin() + static_cast<ptrdiff_t>(at), count,
              member.output.begin() + static_cast<ptrdiff_t>(at));
}

void SimJob::PostInPlace(int r, uint64_t count, uint64_t at) {
  CopyToOutput(r, at, count);
  SimCall call = CallOf(r, OpKind::kAllReduce, count, at);
  call.send = call.recv;
  tenant(r).Post(rank(r), call);
}

void SimJob::OpenWindow(int r, uint64_t count) {
  const Member& member = members_[static_cast<size_t>(r)];
  member.tenant->OpenWindow(*member.rank, RefOf(member, member.output), count * sizeof(float));
}

void SimJob::Post(int r, const Put& put) {
  const Member& member = members_[static_cast<size_t>(r)];
  SimCall call{.kind = OpKind::kPut,
               .root = put.peer,
               .count = put.count,
               .send = RefOf(member, member.input),
               .signal = put.signal,
               .window = put.window,
               .window_offset = put.to * sizeof(float)};
  if (put.more) call.flags = wire::kMoreInGroup;
  call.send.offset = put.at * sizeof(float);
  member.tenant->Post(*member.rank, call);
}

void SimJob::Post(int r, const Wait& wait) {
  const Member& member = members_[static_cast<size_t>(r)];
  SimCall call{
      .kind = OpKind::kWaitSignal, .root = wait.peer, .count = wait.signals, .signal = wait.signal};
  if (wait.more) call.flags = wire::kMoreInGroup;
  member.tenant->Post(*member.rank, call);
}

void SimJob::PostAll(OpKind kind, uint64_t count, int root) {
  for (int r = 0; r < ranks(); ++r) Post(r, kind, count, root);
}

bool SimJob::Done() const {
  return std::ranges::all_of(members_,
                             [](const Member& m) { return m.rank->done() == m.rank->posted; });
}

bool SimJob::Complete(int64_t limit_ns) {
  return world_.RunUntil([&] { return Done(); }, limit_ns);
}

std::string SimJob::Finish(OpKind kind, uint64_t count, int root) {
  if (!Complete()) {
    std::string errors = absl::StrCat(std::string(Name(kind)), " does not complete");
    for (const Member& member : members_) absl::StrAppend(&errors, "; ", member.rank->failure());
    return errors;
  }
  const uint64_t wrong = Wrong(kind, count, root);
  return wrong == 0 ? ""
                    : absl::StrCat(std::string(Name(kind)), ": ", wrong, " elements are wrong");
}

std::string SimJob::Run(OpKind kind, uint64_t count, int root) {
  Fill(ElementsOf(kind, count, static_cast<uint64_t>(ranks()), /*is_root=*/true).input);
  PostAll(kind, count, root);
  return Finish(kind, count, root);
}

bool SimJob::RunUntilFailed(const std::vector<int>& ranks, int64_t limit_ns) {
  return world_.RunUntil(
      [&] { return std::ranges::all_of(ranks, [&](int r) { return rank(r).failed(); }); },
      limit_ns);
}

bool SimJob::RunUntilEnded(int r, int64_t limit_ns) {
  return world_.RunUntil([&] { return rank(r).ended; }, limit_ns);
}

float SimJob::Expected(OpKind kind, int r, uint64_t i, uint64_t count, int root) const {
  switch (kind) {
    case OpKind::kAllGather:
      return InputValue(static_cast<int>(i / count), i % count);
    case OpKind::kBroadcast:
      return InputValue(root, i);
    case OpKind::kAllToAll:
      return InputValue(static_cast<int>(i / count), static_cast<uint64_t>(r) * count + i % count);
    case OpKind::kGather:
      return InputValue(static_cast<int>(i / count), i % count);
    case OpKind::kScatter:
      return InputValue(root, static_cast<uint64_t>(r) * count + i);
    default: {
      const uint64_t at = kind == OpKind::kReduceScatter ? i + count * static_cast<uint64_t>(r) : i;
      float sum = 0;
      for (int rank = 0; rank < ranks(); ++rank) sum += InputValue(rank, at);
      return sum;
    }
  }
}

uint64_t SimJob::Wrong(OpKind kind, uint64_t count, int root) const {
  uint64_t wrong = 0;
  for (int r = 0; r < ranks(); ++r) {
    const std::vector<float>& output = members_[static_cast<size_t>(r)].output;
    const uint64_t written =
        ElementsOf(kind, count, static_cast<uint64_t>(ranks()), r == root).output;
    for (uint64_t i = 0; i < output.size(); ++i) {
      const float expected = i < written ? Expected(kind, r, i, count, root) : kUnwritten;
      wrong += output[i] != expected ? 1 : 0;
    }
  }
  return wrong;
}

}  // namespace mccs
