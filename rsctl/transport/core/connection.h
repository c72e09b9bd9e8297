// One connection of an engine: frames in, frames out, never blocking. The Python counterpart is connection.py.
#pragma once

#include <poll.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "frames.h"
#include "tls.h"

namespace rsctl {

using Bytes = std::shared_ptr<std::vector<uint8_t>>;

double now();  // seconds, monotonic

// The peer has closed the connection, or it broke.
struct ConnectionClosed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A frame to be sent. `owner` keeps the payload alive; without one it is the caller's to keep.
struct Outgoing {
  Header header;
  const uint8_t* payload;
  Bytes owner;
};

// Longest delay before an idle side reports what has been completed.
constexpr double kPromptSeconds = 0.05;
constexpr double kWaitedSeconds = 0.25;  // WAITED_SECONDS of engine_interface.py

class Connection {
 public:
  // With `tls`, whose handshake is done, the protocol travels inside it.
  Connection(int fd, std::unique_ptr<Tls> tls, uint32_t frame, const Check& check);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  bool busy() const { return !out_.empty() || has_ciphertext(); }
  // Whether something can be read that has already come, of which poll knows nothing.
  bool has_more() const { return has_more_; }
  pollfd polled() const { return {fd_, static_cast<short>(busy() ? POLLIN | POLLOUT : POLLIN), 0}; }
  short events(const pollfd& found) const {
    return static_cast<short>(found.revents | (has_more_ ? POLLIN : 0));
  }
  // Whether the rest of a frame is to come, until when poll shows nothing.
  bool has_partial_frame() const { return expected_ > 1; }
  size_t queued() const { return out_.size(); }
  double last_received() const { return last_received_; }
  double last_sent() const { return last_sent_; }
  uint64_t bytes_in() const { return bytes_in_.load(std::memory_order_relaxed); }
  uint64_t bytes_out() const { return bytes_out_.load(std::memory_order_relaxed); }

  void queue(const Header& header, const uint8_t* payload = nullptr, Bytes owner = nullptr);
  void queue_error(Header header, Code code, const std::string& text);
  void flush();              // sends as much as the system takes now; throws ConnectionClosed
  bool read();               // one read; false if there was nothing; throws ConnectionClosed
  bool next(Header* header, const uint8_t** payload) { return reader_.next(header, payload); }
  void expect_more();        // to be called when `next` has returned false
  bool finish_sending();     // half-closes the connection; false if that must be tried again
  bool discard();            // reads and drops; false when the peer has closed

 private:
  void drop(size_t sent);
  size_t gather(iovec* parts);
  ssize_t send_some(const iovec* parts, size_t count);
  void flush_tls();
  void encrypt();
  size_t decrypt();
  ssize_t receive(uint8_t* to, size_t room);
  bool has_ciphertext() const;

  int fd_;
  std::unique_ptr<Tls> tls_;
  bool has_more_;
  FrameReader reader_;
  std::deque<Outgoing> out_;
  size_t sent_of_first_ = 0;
  double last_received_;
  double last_sent_;
  size_t expected_ = 1;
  std::atomic<uint64_t> bytes_in_{0};
  std::atomic<uint64_t> bytes_out_{0};
};

// Waits a moment until the peers have read what is queued, so that closing does not reset the
// connections and lose the frames that say why.
void close_gracefully(const std::vector<Connection*>& connections);

// Wakes a loop that waits in poll.
class WakePipe {
 public:
  WakePipe();
  ~WakePipe();
  int fd() const { return fds_[0]; }
  void notify();
  void clear();

 private:
  int fds_[2];
};

}  // namespace rsctl
