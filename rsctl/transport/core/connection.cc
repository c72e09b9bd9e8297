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
constexpr double kLingerSeconds = 3.0;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void unblock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Connection::Connection(int fd, std::unique_ptr<Tls> tls, uint32_t frame, const Check& check)
    : fd_(fd),
      tls_(std::move(tls)),
      has_more_(tls_ != nullptr),  // what has come with the end of the handshake
      reader_(frame, check),
      last_received_(now()),
      last_sent_(last_received_) {
  unblock(fd);
}

Connection::~Connection() {
  if (tls_) {
    out_.clear();  // blocks may be gone
    try {
      finish_sending();
    } catch (const ConnectionClosed&) {
    }
  }
  close(fd_);
}

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
  if (tls_) return flush_tls();
  while (!out_.empty()) {
    iovec parts[2 * kMostFrames];
    const ssize_t sent = send_some(parts, gather(parts));
    if (sent < 0) return;
    bytes_out_.fetch_add(static_cast<uint64_t>(sent), std::memory_order_relaxed);
    drop(static_cast<size_t>(sent));
  }
}

// The first of what is to be sent, in at most two parts for each of kMostFrames; how many parts.
size_t Connection::gather(iovec* parts) {
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
  return count;
}

// How many bytes the system has taken; -1 if it takes none now.
ssize_t Connection::send_some(const iovec* parts, size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
  if (sent < 0 && !would_block()) throw ConnectionClosed(std::strerror(errno));
  if (sent >= 0) last_sent_ = now();
  return sent;
}

// Encrypts no more before what is encrypted has been sent, so that memory stays bounded.
void Connection::flush_tls() {
  while (true) {
    size_t size;
    const uint8_t* data = tls_->pending(&size);
    if (size > 0) {
      const iovec part{const_cast<uint8_t*>(data), size};
      const ssize_t sent = send_some(&part, 1);
      if (sent < 0) return;
      tls_->sent(static_cast<size_t>(sent));
    } else if (!out_.empty()) {
      encrypt();
    } else {
      return;
    }
  }
}

// Headers and blocks are put together first: each call of TLS would begin a record.
void Connection::encrypt() {
  thread_local std::vector<uint8_t> plaintext(kMostTlsBytes);
  iovec parts[2 * kMostFrames];
  const size_t count = gather(parts);
  size_t size = 0;
  for (size_t i = 0; i < count && size < kMostTlsBytes; ++i) {
    const size_t taken = std::min(parts[i].iov_len, kMostTlsBytes - size);
    std::memcpy(plaintext.data() + size, parts[i].iov_base, taken);
    size += taken;
  }
  tls_->write(plaintext.data(), size);
  bytes_out_.fetch_add(size, std::memory_order_relaxed);
  drop(size);
}

bool Connection::has_ciphertext() const {
  size_t size = 0;
  if (tls_) tls_->pending(&size);
  return size > 0;
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
  size_t count = 0;
  if (!tls_) {
    count = static_cast<size_t>(std::max<ssize_t>(0, receive(reader_.space(), reader_.room())));
    reader_.advance(count);
  } else if ((count = decrypt()) == 0) {
    thread_local std::vector<uint8_t> ciphertext(kMostTlsBytes);
    const ssize_t come = receive(ciphertext.data(), ciphertext.size());
    if (come <= 0) return false;
    tls_->put(ciphertext.data(), static_cast<size_t>(come));
    if ((count = decrypt()) == 0) expect_more();
  }
  bytes_in_.fetch_add(count, std::memory_order_relaxed);
  return count > 0;
}

// How many bytes have come; -1 if there are none now.
ssize_t Connection::receive(uint8_t* to, size_t room) {
  const ssize_t count = recv(fd_, to, room, 0);
  if (count == 0) throw ConnectionClosed("it closed the connection");
  if (count < 0 && !would_block()) throw ConnectionClosed(std::strerror(errno));
  if (count > 0) last_received_ = now();
  return count;
}

// What of the ciphertext that is here can be read, as far as there is room. An end, or a fault, is
// thrown when all before it has been read.
size_t Connection::decrypt() {
  size_t count = 0;
  has_more_ = true;
  try {
    while (reader_.room() > 0) {
      const size_t read = tls_->read(reader_.space(), reader_.room());
      if (read == 0) {
        has_more_ = false;
        break;
      }
      reader_.advance(read);
      count += read;
    }
  } catch (const ConnectionClosed&) {
    if (count == 0) throw;
  }
  return count;
}

// Be woken when the rest of a block is there, or at least of a record, and not by each of its packets.
void Connection::expect_more() {
  reader_.make_room();
  size_t wanted = reader_.missing();
  if (tls_) {
    const size_t here = tls_->record_here();
    wanted = std::max({wanted > here ? wanted - here : 1, tls_->record_left(), size_t{1}});
  }
  if (wanted == expected_) return;
  expected_ = wanted;
  const int count = static_cast<int>(expected_);
  setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &count, sizeof count);
}

bool Connection::finish_sending() {
  if (tls_) {
    tls_->finish();
    flush_tls();
    if (has_ciphertext()) return false;
  }
  shutdown(fd_, SHUT_WR);
  return true;
}

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
        if (!done && !open[i]->busy()) done = open[i]->finish_sending();
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
