#include "client.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "sums.h"
#include "text.h"

namespace rsctl {
namespace {

constexpr double kHeartbeats = 4;
constexpr uint32_t kKinds = 1u << kResult | 1u << kHeartbeat | 1u << kError;

// The code for the reducers: the cause, where the protocol has it.
Code wire_code(Code code) { return code <= Code::kStopped ? code : Code::kGaveUp; }

void raise_to(std::atomic<uint64_t>& value, uint64_t least) {
  if (least > value.load()) value.store(least);  // one thread writes
}

}  // namespace

std::string message(const Failure& failure) {
  const std::string during =
      failure.sequence ? " during operation " + std::to_string(failure.sequence) : "";
  if (failure.code == Code::kClosed) return "the transport was closed" + during;
  const std::string who = "reducer " + std::to_string(failure.server);
  if (failure.remote) return who + " ended the run" + during + ": " + failure.detail;
  if (failure.code == Code::kSilent)
    return who + " has been silent for " + failure.detail + during;
  if (failure.code == Code::kDeadline)
    return "operation " + std::to_string(failure.sequence) + " has made no progress for " +
           failure.detail +
           (failure.rank == kNoRank ? ""
                                    : "; " + who + " waits for rank " +
                                          std::to_string(failure.rank));
  if (failure.code == Code::kLost) return who + " was lost" + during + ": " + failure.detail;
  return who + " broke the protocol" + during + ": " + failure.detail;
}

Client::Client(const rsctl_membership& membership, const uint32_t* slots, const uint32_t* windows,
               const int* fds, void* const* tls)
    : membership_(membership),
      operations_(membership, std::vector<uint32_t>(slots, slots + membership.row)),
      progress_(now()),
      timeout_(membership.timeout) {
  const Check check{kKinds, membership.frame, membership.epoch, membership.job, kNoRank};
  for (uint32_t i = 0; i < membership.servers; ++i)
    servers_.push_back({i, windows[i], kNoRank,
                        std::make_unique<Connection>(
                            fds[i], std::unique_ptr<Tls>(static_cast<Tls*>(tls[i])),
                            membership.frame, check)});
  thread_ = std::thread([this] { run(); });
}

Client::~Client() { stop(); }

uint64_t Client::submit(void* data, uint64_t bytes, uint32_t chunk_bytes, uint8_t dtype,
                        uint8_t op) {
  uint64_t sequence;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    submissions_.push_back({data, bytes, chunk_bytes, dtype, op});
    sequence = ++submitted_;
  }
  wake_.notify();
  return sequence;
}

bool Client::wait(uint64_t sequence, double timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ready = [&] { return completed_.load() >= sequence || has_failed_; };
  const auto until = std::chrono::system_clock::now() + std::chrono::microseconds(
                                                            static_cast<int64_t>(timeout * 1e6));
  changed_.wait_until(lock, until, ready);
  return completed_.load() >= sequence;
}

bool Client::failure(Failure* failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (has_failed_) *failure = failure_;
  return has_failed_;
}

rsctl_client_stats Client::stats() {
  rsctl_client_stats stats{0, 0, completed(), reduced_.load(), busy_.load(), stalled_.load()};
  for (const Server& server : servers_) {
    stats.bytes_in += server.connection->bytes_in();
    stats.bytes_out += server.connection->bytes_out();
  }
  return stats;
}

void Client::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify();
  std::lock_guard<std::mutex> joining(joining_);  // more than one thread may stop it
  if (thread_.joinable()) thread_.join();
}

void Client::run() {
  set_plain_arithmetic();
  Failure failure{Code::kClosed, 0, kNoRank, false, 0, ""};
  try {
    while (turn()) {
    }
    failure.sequence = operations_.oldest();
  } catch (const Failed& failed) {
    failure = failed.failure;
  } catch (const std::exception& error) {
    failure = {Code::kProtocol, 0, kNoRank, false, operations_.oldest(), error.what()};
  }
  end(failure);
}

// One round; false when this client is to stop.
bool Client::turn() {
  std::vector<pollfd> polled{{wake_.fd(), POLLIN, 0}};
  bool has_more = false;
  for (const Server& server : servers_) {
    polled.push_back(server.connection->polled());
    has_more |= server.connection->has_more();
  }
  const bool news = std::any_of(servers_.begin(), servers_.end(),
                                [this](const Server& server) { return is_behind(server); });
  const double quiet = std::min(membership_.silence / kHeartbeats / 2, timeout_.load() / 4);
  const double pause = news ? kPromptSeconds : quiet;
  bool goes_on = true;
  poll(polled.data(), polled.size(), has_more ? 0 : static_cast<int>(pause * 1000) + 1);
  if (polled[0].revents) goes_on = take_submissions();
  for (size_t i = 0; i < servers_.size(); ++i)
    if (const short events = servers_[i].connection->events(polled[i + 1]))
      serve(servers_[i], events);
  send_blocks();
  keep_alive();
  return goes_on;
}

bool Client::take_submissions() {
  wake_.clear();
  std::vector<Submission> submissions;
  bool stopping;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    submissions.swap(submissions_);
    stopping = stopping_;
  }
  for (const Submission& s : submissions) {
    if (!operations_.oldest()) progress_ = busy_since_ = now();
    operations_.begin(s.data, s.bytes, s.chunk_bytes, s.dtype, s.op);
  }
  return !stopping;
}

void Client::serve(Server& server, short events) {
  if (events & POLLOUT) flush(server);
  if (events & ~POLLOUT) receive(server);
}

void Client::receive(Server& server) {
  try {
    if (!server.connection->read()) return;
    Header header;
    const uint8_t* payload;
    while (server.connection->next(&header, &payload)) handle(server, header, payload);
    server.connection->expect_more();
  } catch (const ConnectionClosed& ended) {
    throw failed(Code::kLost, server, ended.what());
  } catch (const FrameError& error) {
    throw failed(Code::kProtocol, server, error.what());
  }
}

void Client::handle(Server& server, const Header& header, const uint8_t* payload) {
  if (header.kind != kError && header.completed > operations_.completed())
    throw FrameError("operation " + std::to_string(header.completed) +
                     " is not finished here, and so not everywhere");
  raise_to(committed_, header.kind == kError ? 0 : header.completed);
  if (header.kind == kResult) {
    progress_ = now();
    server.waits_for = kNoRank;
    const bool finished = operations_.receive(header, payload, server.number);
    ++server.room;
    if (finished) finish(header.total);
  } else if (header.kind == kHeartbeat) {
    server.waits_for = header.rank;
  } else {
    const Code code = known_code(header.code);
    Failed error = failed(code, server, printable(payload, header.payload), header.rank, true);
    error.failure.blamed = header.chunk;
    throw error;
  }
}

void Client::finish(uint64_t total) {
  reduced_.fetch_add(total);
  if (!operations_.oldest()) busy_.store(busy_.load() + now() - busy_since_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    completed_.store(operations_.completed());
  }
  changed_.notify_all();
}

// Queues blocks in their order as far as the windows allow.
void Client::send_blocks() {
  Operation* operation;
  uint32_t chunk, number;
  while (operations_.next(&operation, &chunk, &number)) {
    Server& server = servers_[number];
    if (server.room == 0) {
      if (stalled_since_ == 0) stalled_since_ = now();
      return;
    }
    if (stalled_since_ != 0) {
      stalled_.store(stalled_.load() + now() - stalled_since_);
      stalled_since_ = 0;
    }
    --server.room;
    const Header header = operation->block_header(chunk, operations_.completed());
    server.connection->queue(header, operation->block(chunk));
    server.reported = header.completed;
    operations_.sent(*operation, chunk);
    flush(server);
  }
}

void Client::flush(Server& server) {
  try {
    server.connection->flush();
  } catch (const ConnectionClosed& ended) {
    // The ERROR that the reducer sent before it closed explains more than the failed send.
    receive(server);
    throw failed(Code::kLost, server, ended.what());
  }
}

void Client::keep_alive() {
  const double time = now();
  for (Server& server : servers_) {
    Connection& connection = *server.connection;
    const bool quiet = time - connection.last_received() > membership_.silence / kHeartbeats;
    if (quiet && connection.has_partial_frame()) receive(server);  // parts of it may have come
    if (time - connection.last_received() > membership_.silence)
      throw failed(Code::kSilent, server, seconds(membership_.silence));
    const double pause = is_behind(server) ? kPromptSeconds : membership_.silence / kHeartbeats;
    if (time - connection.last_sent() > pause && !connection.busy()) {
      connection.queue(own_header(kHeartbeat));
      server.reported = operations_.completed();
      flush(server);
    }
  }
  if (!operations_.oldest() || time - progress_ <= timeout_.load()) return;
  const auto waiting = std::find_if(servers_.begin(), servers_.end(),
                                    [](const Server& s) { return s.waits_for != kNoRank; });
  const Server& server = waiting == servers_.end() ? servers_.front() : *waiting;
  throw failed(Code::kDeadline, server, seconds(timeout_.load()), server.waits_for);
}

// Whether a heartbeat must report what is completed: while operations are under way, their blocks do.
bool Client::is_behind(const Server& server) const {
  return !operations_.oldest() && server.reported < operations_.completed();
}

Header Client::own_header(uint8_t kind) const {
  Header header;
  header.kind = kind;
  header.rank = membership_.rank;
  header.epoch = membership_.epoch;
  header.job = membership_.job;
  header.completed = operations_.completed();
  return header;
}

Client::Failed Client::failed(Code code, const Server& server, const std::string& detail,
                              uint32_t rank, bool remote) const {
  const bool its_fault = code == Code::kLost || code == Code::kSilent || code == Code::kProtocol;
  const uint32_t blamed = its_fault && !remote ? server.number + 1 : 0;
  return {{code, server.number, rank, remote, operations_.oldest(), detail, blamed}};
}

// Ends the client: wakes all who wait here, and sends GOODBYE or ERROR to the reducers.
void Client::end(const Failure& failure) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    has_failed_ = true;
    failure_ = failure;
  }
  changed_.notify_all();
  const bool clean = failure.code == Code::kClosed && !failure.sequence;
  std::vector<Connection*> connections;
  for (Server& server : servers_) {
    Header header = own_header(clean ? kGoodbye : kError);
    header.sequence = failure.sequence;
    header.chunk = failure.blamed;
    if (!clean && failure.code != Code::kClosed) header.rank = failure.rank;
    if (clean)
      server.connection->queue(header);
    else
      server.connection->queue_error(header, wire_code(failure.code), message(failure));
    connections.push_back(server.connection.get());
  }
  close_gracefully(connections);
}

}  // namespace rsctl
