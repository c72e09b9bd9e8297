#include "connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace rsctl {
namespace {

constexpr size_t kMostFrames = 16;
constexpr int kMostDiscards = 64;
constexpr double kLingerSeconds = 1.0;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void unblock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Connection::Connection(int fd, uint32_t frame, const Check& check)
    : fd_(fd), reader_(frame, check), last_received_(now()), last_sent_(last_received_) {
  unblock(fd);
}

Connection::~Connection() { close(fd_); }

void Connection::queue(const Header& header, const uint8_t* payload, Bytes owner) {
  out_.push_back({header, payload, std::move(owner)});
}

void Connection::queue_error(Header header, Code code, const std::string& text) {
  auto payload = std::make_shared<std::vector<uint8_t>>(text.begin(), text.end());
  payload->resize(std::min<size_t>(payload->size(), kMaxErrorBytes));
  header.kind = kError;
  header.code = static_cast<uint32_t>(code);
  header.payload = static_cast<uint32_t>(payload->size());
  const uint8_t* data = payload->data();
  queue(header, data, std::move(payload));
}

void Connection::flush() {
  while (!out_.empty()) {
    iovec parts[2 * kMostFrames];
    size_t count = 0, skip = sent_of_first_;
    for (size_t i = 0; i < std::min(out_.size(), kMostFrames); ++i) {
      Outgoing& frame = out_[i];
      if (skip < sizeof(Header)) {
        auto* header = reinterpret_cast<uint8_t*>(&frame.header);
        parts[count++] = {header + skip, sizeof(Header) - skip};
        skip = 0;
      } else {
        skip -= sizeof(Header);
      }
      if (frame.header.payload > skip)
        parts[count++] = {const_cast<uint8_t*>(frame.payload) + skip, frame.header.payload - skip};
      skip = 0;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (would_block()) return;
      throw ConnectionClosed(std::strerror(errno));
    }
    last_sent_ = now();
    bytes_out_.fetch_add(static_cast<uint64_t>(sent), std::memory_order_relaxed);
    drop(static_cast<size_t>(sent));
  }
}

void Connection::drop(size_t sent) {
  sent += sent_of_first_;
  while (!out_.empty() && sent >= sizeof(Header) + out_.front().header.payload) {
    sent -= sizeof(Header) + out_.front().header.payload;
    out_.pop_front();
  }
  sent_of_first_ = sent;
}

bool Connection::read() {
  const ssize_t count = recv(fd_, reader_.space(), reader_.room(), 0);
  if (count < 0) {
    if (would_block()) return false;
    throw ConnectionClosed(std::strerror(errno));
  }
  if (count == 0) throw ConnectionClosed("it closed the connection");
  last_received_ = now();
  bytes_in_.fetch_add(static_cast<uint64_t>(count), std::memory_order_relaxed);
  reader_.advance(static_cast<size_t>(count));
  return true;
}

// Be woken when the rest of a block is there, and not by each of its packets.
void Connection::expect_more() {
  reader_.make_room();
  if (reader_.missing() == expected_) return;
  expected_ = reader_.missing();
  const int count = static_cast<int>(expected_);
  setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &count, sizeof count);
}

void Connection::finish_sending() { shutdown(fd_, SHUT_WR); }

bool Connection::discard() {
  uint8_t waste[1 << 14];
  ssize_t count = 1;
  for (int reads = 0; count > 0 && reads < kMostDiscards; ++reads)
    count = recv(fd_, waste, sizeof waste, 0);
  return count > 0 || (count < 0 && would_block());
}

void close_gracefully(const std::vector<Connection*>& connections) {
  const double until = now() + kLingerSeconds;
  std::vector<Connection*> open = connections, still;
  std::vector<bool> finished(open.size(), false);
  while (!open.empty()) {
    std::vector<pollfd> polled;
    std::vector<bool> still_finished;
    still.clear();
    for (size_t i = 0; i < open.size(); ++i) {
      bool done = finished[i], alive = true;
      try {
        if (!done) open[i]->flush();
        if (!done && !open[i]->busy()) {
          open[i]->finish_sending();
          done = true;
        }
        alive = open[i]->discard();
      } catch (const ConnectionClosed&) {
        alive = false;
      }
      if (!alive) continue;
      still.push_back(open[i]);
      still_finished.push_back(done);
      const short wanted = static_cast<short>(done ? POLLIN : POLLIN | POLLOUT);
      polled.push_back({open[i]->fd(), wanted, 0});
    }
    open.swap(still);
    finished.swap(still_finished);
    const double left = until - now();
    if (open.empty() || left <= 0) return;
    poll(polled.data(), polled.size(), static_cast<int>(left * 1000) + 1);
  }
}

WakePipe::WakePipe() {
  if (pipe(fds_) != 0) throw std::runtime_error("no pipe");
  for (int fd : fds_) {
    unblock(fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

WakePipe::~WakePipe() {
  for (int fd : fds_) close(fd);
}

void WakePipe::notify() {
  const char byte = '!';
  // A full pipe wakes as well as one more byte does.
  if (write(fds_[1], &byte, 1) < 0) return;
}

void WakePipe::clear() {
  char bytes[64];
  while (::read(fds_[0], bytes, sizeof bytes) > 0) {
  }
}

}  // namespace rsctl
