// Note [Gloo's TLS]
//
// Gloo's own pairs of TLS do three things that end in a hang or in a crash, also in its newest version. This file's pairs differ
// from them in these alone:
//   - A write that finds the socket full is tried again and again, under the pair's lock: two ranks that send much to each other
//     then both never read. Here the rest waits for the socket, as without TLS.
//   - What Gloo's own thread throws, say where a rank that was killed resets a connection, ends the process. Here it is the
//     pair's error, which all who wait for the pair get.
//   - The end of a connection, if it was said in TLS's words, is no error to who waits for bytes. Here it is not said: a
//     connection that ends is an error, and whether its rank has left or died the hub knows.
// Who speaks first is the lower rank; a wait for the handshake gives its lock up, so that the pair can be closed meanwhile.
#include <gloo/transport/tcp/tls/context.h>
#include <gloo/transport/tcp/tls/device.h>
#include <gloo/transport/tcp/tls/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/gloo/tls_device.h"

namespace reprise::distributed {
namespace {

namespace tcp = ::gloo::transport::tcp;

class TlsContext final : public tcp::tls::Context {
 public:
  TlsContext(const std::shared_ptr<tcp::tls::Device>& device, int own_rank, int ranks)
      : tcp::tls::Context(device, own_rank, ranks) {
    // A write that was cut short goes on from an operation that Gloo has moved meanwhile.
    _glootls::SSL_CTX_ctrl(ssl_ctx_.get(), SSL_CTRL_MODE,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
  }
  std::unique_ptr<::gloo::transport::Pair>& createPair(int peer) override;
};

class TlsPair final : public tcp::tls::Pair {
 public:
  TlsPair(TlsContext* context, tcp::tls::Device* device, int peer, std::chrono::milliseconds timeout)
      : tcp::tls::Pair(context, device, peer, timeout), speaks_first_(context->rank < peer) {}

  ~TlsPair() override {
    std::lock_guard lock(m_);
    if (state_ != CLOSED) changeState(CLOSED);
  }

  // On Gloo's thread, under the lock.
  void handleReadWrite(int events) override {
    try {
      if (is_ssl_connected_)
        tcp::Pair::handleReadWrite(events);
      else
        shake_hands();
    } catch (const std::exception& error) {
      if (state_ != CLOSED) signalException(std::string(error.what()));
    }
  }

 protected:
  void waitUntilConnected(std::unique_lock<std::mutex>& lock, bool has_timeout) override {
    tcp::Pair::waitUntilConnected(lock, has_timeout);
    if (state_ == CONNECTED && speaks_first_ && !ssl_) shake_hands();
    waitUntil(
        [this] {
          throwIfException();
          return is_ssl_connected_ || state_ == CLOSED;
        },
        lock, has_timeout);
  }

  bool write(tcp::Op& op) override {
    if (state_ == CLOSED) return false;
    const auto opcode = op.getOpcode();
    ::gloo::NonOwningPtr<tcp::UnboundBuffer> buffer;
    if (opcode == tcp::Op::SEND_UNBOUND_BUFFER) {
      buffer = ::gloo::NonOwningPtr<tcp::UnboundBuffer>(op.ubuf);
      if (!buffer) return false;
    }
    while (op.nwritten < op.preamble.nbytes) {
      std::array<iovec, 2> parts{};
      int count = 0;
      prepareWrite(op, buffer, parts.data(), count);
      const iovec& part = parts[0].iov_len > 0 ? parts[0] : parts[1];
      const int sent = _glootls::SSL_write(ssl_, part.iov_base, int(std::min(part.iov_len, most_at_once)));
      if (sent <= 0) return note_stop(_glootls::SSL_get_error(ssl_, sent));
      op.nwritten += size_t(sent);
    }
    writeComplete(op, buffer, opcode);
    return true;
  }

  bool read() override { return state_ != CLOSED && tcp::tls::Pair::read(); }

  void changeState(state next) noexcept override {
    if (next == CLOSED) fatal_error_occurred_ = true;  // so that TLS says no goodbye
    if (next == CLOSED && ssl_ && !is_ssl_connected_) _glootls::SSL_free(std::exchange(ssl_, nullptr));
    tcp::tls::Pair::changeState(next);
  }

 private:
  static constexpr size_t most_at_once = size_t(1) << 30;

  void shake_hands() {
    if (!ssl_) {
      ssl_ = _glootls::SSL_new(ssl_ctx_);
      if (!ssl_ || _glootls::SSL_set_fd(ssl_, fd_) != 1)
        throw ::gloo::IoException("TLS cannot begin: " + tcp::tls::getSSLErrorMessage());
      speaks_first_ ? _glootls::SSL_set_connect_state(ssl_) : _glootls::SSL_set_accept_state(ssl_);
    }
    const int wanted = handshake();
    if (state_ == CONNECTED) device_->registerDescriptor(fd_, wanted ? wanted : int(EPOLLIN), this);
  }

  // A socket that is full, or has ended, which is met where it is read: the rest is tried when it can be.
  bool note_stop(int error) {
    if (error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_SYSCALL)
      signalException("TLS cannot write: " + tcp::tls::getSSLErrorMessage());
    return false;
  }

  const bool speaks_first_;
};

std::unique_ptr<::gloo::transport::Pair>& TlsContext::createPair(int peer) {
  auto& pair = pairs_[size_t(peer)];
  pair = std::make_unique<TlsPair>(this, dynamic_cast<tcp::tls::Device*>(device_.get()), peer, getTimeout());
  return pair;
}

class TlsDevice final : public tcp::tls::Device {
 public:
  using tcp::tls::Device::Device;
  std::shared_ptr<::gloo::transport::Context> createContext(int rank, int size) override {
    return std::make_shared<TlsContext>(std::dynamic_pointer_cast<tcp::tls::Device>(shared_from_this()), rank,
                                        size);
  }
};

// The options that the function of OpenSSL reads which Gloo names in its error.
std::string options_in(const std::string& error, const TlsFiles& files) {
  const std::string cert = "--tls-cert " + quote(files.cert), key = "--tls-key " + quote(files.key);
  if (error.find("load_verify_locations") != std::string::npos) return "--tls-ca " + quote(files.ca);
  if (error.find("use_certificate") != std::string::npos) return cert;
  if (error.find("use_PrivateKey") != std::string::npos ||
      error.find("check_private_key") != std::string::npos)
    return key + " with " + cert;
  return cert + ", " + key + ", --tls-ca " + quote(files.ca);
}

}  // namespace

bool has_gloo_tls() { return true; }

std::shared_ptr<::gloo::transport::Device> make_tls_device(const std::string& address,
                                                           const TlsFiles& files) {
  return std::make_shared<TlsDevice>(tcp::CreateDeviceAttr(tcp::attr(address.c_str())), files.key, files.cert,
                                     files.ca, "");
}

void try_tls(const TlsFiles& files) {
  try {
    make_tls_device("127.0.0.1", files)->createContext(0, 1);
  } catch (const std::bad_alloc&) { throw; } catch (const std::exception& error) {
    fail("join: ", options_in(error.what(), files), ": OpenSSL does not take it: ", error.what());
  }
}

}  // namespace reprise::distributed
