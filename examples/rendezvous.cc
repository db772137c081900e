#include "rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "check_calls.h"

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kDeadline = std::chrono::seconds(60);
constexpr auto kRetryPause = std::chrono::milliseconds(10);

[[noreturn]] void Fail(const JobPlace& place, const char* what) {
  std::fprintf(stderr, "rank %d: %s at %s:%s: %s\n", place.rank, what, place.master_address.c_str(),
               place.master_port.c_str(), std::strerror(errno));
  std::exit(1);
}

int IntegerVariable(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 0 || value > 1'000'000) {
    std::fprintf(stderr, "invalid %s '%s': expected an integer from 0 to 1000000\n", name, text);
    std::exit(1);
  }
  return static_cast<int>(value);
}

addrinfo* Resolve(const JobPlace& place) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = getaddrinfo(place.master_address.c_str(), place.master_port.c_str(), &hints, &found);
  if (error != 0) {
    std::fprintf(stderr, "rank %d: MASTER_ADDR:MASTER_PORT %s:%s: %s\n", place.rank,
                 place.master_address.c_str(), place.master_port.c_str(), gai_strerror(error));
    std::exit(1);
  }
  return found;
}

// Sends the id to each of the other ranks, which connect in any order.
void Serve(const JobPlace& place, const ncclUniqueId& id) {
  addrinfo* address = Resolve(place);
  int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      bind(listener, address->ai_addr, address->ai_addrlen) != 0 ||
      listen(listener, place.world_size) != 0) {
    Fail(place, "cannot listen for the other ranks");
  }
  freeaddrinfo(address);
  for (int served = 1; served < place.world_size; ++served) {
    pollfd waiting{listener, POLLIN, 0};
    int ready = poll(&waiting, 1, std::chrono::milliseconds(kDeadline).count());
    if (ready == 0) errno = ETIMEDOUT;
    if (ready <= 0) Fail(place, "not all ranks fetched the unique id");
    int peer = accept(listener, nullptr, nullptr);
    if (peer < 0 || send(peer, &id, sizeof(id), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(id))) {
      Fail(place, "cannot send the unique id");
    }
    close(peer);
  }
  close(listener);
}

// One attempt. False if no process listens yet.
bool Fetch(const JobPlace& place, const addrinfo& address, ncclUniqueId* id) {
  int peer = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (peer < 0) Fail(place, "cannot create a socket");
  bool complete = connect(peer, address.ai_addr, address.ai_addrlen) == 0 &&
                  recv(peer, id, sizeof(*id), MSG_WAITALL) == static_cast<ssize_t>(sizeof(*id));
  close(peer);
  return complete;
}

}  // namespace

JobPlace ReadJobPlace() {
  JobPlace place;
  place.rank = IntegerVariable("RANK", 0);
  place.world_size = IntegerVariable("WORLD_SIZE", 1);
  place.local_rank = IntegerVariable("LOCAL_RANK", place.rank);
  if (const char* address = std::getenv("MASTER_ADDR")) place.master_address = address;
  if (const char* port = std::getenv("MASTER_PORT")) place.master_port = port;
  if (place.world_size < 1 || place.rank >= place.world_size) {
    std::fprintf(stderr, "invalid RANK %d: expected less than WORLD_SIZE, %d\n", place.rank,
                 place.world_size);
    std::exit(1);
  }
  if (place.world_size > 1 && place.master_port.empty()) {
    std::fprintf(stderr, "MASTER_PORT is not set; WORLD_SIZE=%d requires it\n", place.world_size);
    std::exit(1);
  }
  return place;
}

ncclUniqueId ExchangeUniqueId(const JobPlace& place) {
  ncclUniqueId id;
  if (place.rank == 0) {
    NCCL_OK(ncclGetUniqueId(&id));
    if (place.world_size > 1) Serve(place, id);
    return id;
  }
  addrinfo* address = Resolve(place);
  auto deadline = SteadyClock::now() + kDeadline;
  while (!Fetch(place, *address, &id)) {
    if (SteadyClock::now() > deadline) Fail(place, "no unique id from rank 0");
    std::this_thread::sleep_for(kRetryPause);
  }
  freeaddrinfo(address);
  return id;
}
