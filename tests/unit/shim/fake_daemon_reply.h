// Replies, for all parts of the fake daemon.
#ifndef MCCS_TESTS_UNIT_SHIM_FAKE_DAEMON_REPLY_H_
#define MCCS_TESTS_UNIT_SHIM_FAKE_DAEMON_REPLY_H_

#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "proto/shim_control.h"
#include "proto/unique_id.h"
#include "tests/unit/shim/fake_daemon.h"

namespace mccs {

// One communicator grows at a time.
inline wire::UniqueId GrowId() {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.derived = 1;
  id.comm_id = 7777;
  return id;
}

template <typename Message>
Message ErrorReply(wire::ErrorClass error) {
  Message message{};
  message.status.error = error;
  if (error != wire::ErrorClass::kNone) std::strcpy(message.status.text, "rejected by the fake");
  return message;
}

template <typename Message>
void FakeDaemon::Answer(Session& session, uint64_t request, Message message, std::vector<int> fds) {
  message.header = {Message::kKind, sizeof(message), request};
  iovec data{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kMaxReplyFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  sendmsg(session.socket.get(), &header, MSG_NOSIGNAL);
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_SHIM_FAKE_DAEMON_REPLY_H_
