#include "reprise/distributed/gloo/gloo_transport.h"

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "reprise/core/error.h"
#include "reprise/distributed/gloo/closed_listener.h"
#include "reprise/distributed/gloo/pair_address.h"
#include "reprise/distributed/gloo/tls_device.h"
#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/hub_client.h"
#include "reprise/distributed/hub/hub_server.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/distributed/hub/meeting.h"
#include "reprise/distributed/hub/socket.h"
#include "reprise/distributed/transport_failures.h"

namespace reprise::distributed {
namespace {

using Buffer = ::gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr uint64_t proof_tag = ~uint64_t(0), fence_tag = proof_tag - 1;
constexpr size_t most_notes = 64;  // on their way to one rank: a rank is not further ahead of its neighbour
constexpr milliseconds goodbye_time{200};   // a connection ended: its rank's goodbye may still be on its way
constexpr milliseconds verdict_time{2000};  // for the hub to say why
constexpr const char* untrusted = "; each rank's --tls-cert must be signed by one of the others' --tls-ca";

// At least 1 ms, also where it has passed.
milliseconds until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

int port_in(const std::vector<char>& address) {
  const sockaddr_storage at = ::gloo::transport::tcp::Address(address).getSockaddr();
  return ntohs(reinterpret_cast<const sockaddr_in&>(at).sin_port);
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(const Environment& environment, const JoinOptions& options)
      : rank_(environment.rank), ranks_(environment.ranks), tls_(options.tls) {
    ignore_sigpipe();
    const auto deadline = Clock::now() + options.timeout;
    Meeting meeting(environment, options.token, options.bind, options.tell, options.timeout);
    if (rank_ == 0) {
      server_ = std::make_unique<HubServer>(HubServer::Options{.address = meeting.listen_address(),
                                                               .ports = meeting.ports(),
                                                               .listener = inherited(meeting),
                                                               .job = environment.job,
                                                               .ranks = ranks_,
                                                               .token = options.token,
                                                               .tell = options.tell,
                                                               .timeout = until(deadline),
                                                               .peer_timeout = options.peer_timeout});
      meeting.announce(server_->port());
    }
    join(environment, options, meeting, deadline);
    connect();
    for (const int port : ports_) close_listener(port);
    prove(deadline);
    offer_fences();
  }

  ~GlooTransport() override {
    leave("");
    hub_.reset();  // no more calls of abort_waits
  }

  std::string interface() const override { return is_loopback(address_) ? "lo" : interface_of(address_); }
  double clock_offset() const override {
    return rank_ == 0 || is_loopback(address_) ? 0 : hub_->clock_offset();
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void post(int to, uint64_t tag, const Note& note) override {
    auto sent = std::make_unique<SentNote>();
    sent->note = note;
    sent->buffer = context_->createUnboundBuffer(sent->note.data(), sent->note.size());
    std::unique_ptr<SentNote> oldest;
    {
      std::lock_guard lock(notes_mutex_);
      auto& notes = notes_[to];
      notes.push_back(std::move(sent));  // first: what Gloo sends stays where it is, also where memory lacks
      start([&] { notes.back()->buffer->send(to, tag); }, to);
      if (notes.size() <= most_notes) return;
      oldest = std::move(notes.front());
      notes.pop_front();
    }
    wait(*oldest->buffer, Way::out, to, Clock::now() + context_->getTimeout());
  }

  Note take(int from, uint64_t tag, Clock::time_point deadline) override {
    Note note{};
    auto buffer = context_->createUnboundBuffer(note.data(), note.size());
    start([&] { buffer->recv(from, tag); }, from);
    wait(*buffer, Way::in, from, deadline, late_call);
    return note;
  }

  void exchange(uint64_t tag, std::span<const Send> sends, std::span<const Receive> receives,
                Clock::time_point deadline) override {
    std::vector<std::unique_ptr<Buffer>> in, out;
    for (const Receive& receive : receives) {
      in.push_back(context_->createUnboundBuffer(receive.data, receive.bytes));
      start([&] { in.back()->recv(receive.from, tag); }, receive.from);
    }
    for (const Send& send : sends) {
      out.push_back(
          context_->createUnboundBuffer(const_cast<void*>(send.data), send.bytes));  // it is read alone
      start([&] { out.back()->send(send.to, tag); }, send.to);
    }
    for (size_t i = 0; i < in.size(); ++i) wait(*in[i], Way::in, receives[i].from, deadline);
    for (size_t i = 0; i < out.size(); ++i) wait(*out[i], Way::out, sends[i].to, deadline);
  }

  std::optional<Failure> failure() const override { return hub_->failure(); }

  std::exception_ptr own_error() const override {
    if (auto own = server_ ? server_->own_error() : nullptr) return own;
    return hub_ ? hub_->own_error() : nullptr;
  }

  Failure explain(const Failure& own) override {
    hub_->report(own);
    return hub_->failure(verdict_time).value_or(own);
  }

  // Also where there is no memory to say so.
  void fail(const Failure& failure) override {
    struct End {
      GlooTransport& transport;
      ~End() { transport.abort_waits(); }
    } end{*this};
    is_failed_ = true;
    hub_->report(failure);
  }

  // Others have read what this rank sent before connections end: what is on its way then is lost.
  void leave(const std::string& last) override {
    if (std::exchange(has_left_, true)) return;
    if (!is_failed_ && !hub_->failure()) {
      deliver_notes();
      pass_fences();
    }
    hub_->say_goodbye(last);
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) context_->getPair(r)->close();
  }

 private:
  enum class Way : uint8_t { in, out };
  struct Wait {
    Buffer* buffer;
    Way way;
  };
  // While it lives, an end of the world ends the wait.
  struct WaitScope {
    WaitScope(GlooTransport& of, const Wait& wait) : transport(of), buffer(wait.buffer) {
      std::lock_guard lock(transport.waits_mutex_);
      transport.waits_.push_back(wait);
    }
    ~WaitScope() {
      std::lock_guard lock(transport.waits_mutex_);
      std::erase_if(transport.waits_, [&](const Wait& wait) { return wait.buffer == buffer; });
    }
    GlooTransport& transport;
    Buffer* buffer;
  };
  struct SentNote {
    Note note;
    std::unique_ptr<Buffer> buffer;
  };

  // What `--ranks` has opened on loopback.
  static std::function<Socket(int&)> inherited(const Meeting& meeting) {
    return [address = meeting.listen_address()](int& port) { return take_listener(address, port); };
  }

  // The hub tells all ranks where each one's pairs listen.
  void join(const Environment& environment, const JoinOptions& options, const Meeting& meeting,
            Clock::time_point deadline) try {
    hub_ = std::make_unique<HubClient>(
        HubClient::Options{.place =
                               [&] {
                                 throw_own_error();  // of the hub, which does not answer any more
                                 return meeting.place();
                               },
                           .job = environment.job,
                           .token = options.token,
                           .rank = rank_,
                           .ranks = ranks_,
                           .addresses = [&](const std::string& own) { return listen(own, options.timeout); },
                           .timeout = until(deadline),
                           .peer_timeout = options.peer_timeout},
        [this] { end_waits(); });
  } catch (const TransportError&) {
    throw_own_error();  // of the hub, which has told this rank as all others
    throw;
  }

  // A device whose pairs listen on the address of the way to rank 0; where each rank finds its pair. Asked for again where the hub was not ours.
  std::vector<std::string> listen(const std::string& own, milliseconds timeout) {
    if (own == address_) return addresses_;
    try {
      device_ = tls_.is_asked()
                    ? make_tls_device(own, tls_)
                    : ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr(own.c_str()));
      context_ = device_->createContext(rank_, ranks_);
      context_->setTimeout(timeout);
      addresses_.assign(static_cast<size_t>(ranks_), "");
      for (int r = 0; r < ranks_; ++r) {
        if (r == rank_) continue;
        const std::vector<char> bytes = context_->createPair(r)->address().bytes();
        addresses_[size_t(r)] = packed_address(bytes);
        ports_.insert(port_in(bytes));
      }
    } catch (const std::bad_alloc&) { throw; } catch (const std::exception& error) {
      throw TransportError(not_connected(error.what()));
    }
    address_ = own;
    return addresses_;
  }

  // Each two ranks connect. Where the world ends meanwhile, pairs that wait for the other end are closed: Gloo has no other
  // way to end that.
  void connect() {
    try {
      for (int r = 0; r < ranks_; ++r)
        if (r != rank_) connect_pair(r);
      is_connected_ = true;
    } catch (const ::gloo::Exception& error) { throw TransportError(not_connected(error.what())); }
  }

  Failure not_connected(const std::string& error) const {
    return {FailureKind::transport, rank_, "join: Gloo did not connect: " + error};
  }

  void connect_pair(int r) {
    const std::string& to = hub_->addresses()[size_t(r)];
    try {
      if (!hub_->failure()) context_->getPair(r)->connect(unpacked_address(to));
    } catch (const std::bad_alloc&) { throw; } catch (const std::exception& error) {
      throw_own_error();
      throw TransportError(cause(r, error.what()));
    }
    throw_own_error();
    if (auto failure = hub_->failure()) throw TransportError(*failure);  // the pair may be a closed one
  }

  // On the hub's thread.
  void end_waits() {
    abort_waits();
    if (is_connected_) return;
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) context_->getPair(r)->close();
  }

  // Whoever reaches it may have connected to a pair; only its rank has its proof.
  void prove(Clock::time_point deadline) {
    const size_t size = hub_->proofs_to_send().front().size();
    std::vector<std::string> got(size_t(ranks_), std::string(size, '\0'));
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      sends.push_back({r, hub_->proofs_to_send()[size_t(r)].data(), size});
      receives.push_back({r, got[size_t(r)].data(), size});
    }
    exchange(proof_tag, sends, receives, deadline);
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_ && !is_same_secret(got[size_t(r)], hub_->proofs_to_expect()[size_t(r)]))
        throw TransportError(explain(
            {FailureKind::refused, r, detail::join("join: a stranger took the connection to rank ", r)}));
  }

  template <class Begin>
  void start(const Begin& begin, int peer) {
    try {
      begin();
    } catch (const ::gloo::Exception& error) {
      throw_own_error();
      throw TransportError(cause(peer, error.what()));
    }
  }

  void wait(Buffer& buffer, Way way, int peer, Clock::time_point deadline, Failure (*late)(int) = late_data) {
    const auto error = try_wait(buffer, way, deadline);
    if (!error) return;
    throw_own_error();
    if (Clock::now() >= deadline && !hub_->failure()) throw TransportError(late(peer));
    throw TransportError(cause(peer, error->c_str()));
  }

  // What went wrong, if something did.
  std::optional<std::string> try_wait(Buffer& buffer, Way way, Clock::time_point deadline) {
    const WaitScope scope(*this, {&buffer, way});
    if (is_failed_ || hub_->failure()) abort_waits();
    std::optional<std::string> error;
    try {
      if (!(way == Way::in ? buffer.waitRecv(nullptr, until(deadline))
                           : buffer.waitSend(nullptr, until(deadline))))
        error = "the wait was ended";
    } catch (const ::gloo::Exception& thrown) { error = thrown.what(); }
    return error;
  }

  void throw_own_error() const {
    if (const auto own = own_error()) std::rethrow_exception(own);
  }

  // Why a connection to `peer` failed: as the hub says, else as Gloo does.
  Failure cause(int peer, const char* error) {
    try {
      return first_cause(peer, error);
    } catch (const std::bad_alloc&) {}  // a lack that may be over already must not take the cause's place
    return hub_->failure().value_or(Failure{FailureKind::transport, peer, "no connection"});
  }

  Failure first_cause(int peer, const char* error) {
    const auto goodbye_by = Clock::now() + goodbye_time;
    while (Clock::now() < goodbye_by) {
      if (auto failure = hub_->failure(milliseconds(5))) return *failure;
      if (const auto last = hub_->last_call_of(peer)) return left_failure(peer, *last);
    }
    std::string why = error;
    while (why.ends_with('\n')) why.pop_back();  // OpenSSL's
    if (why.find("SSL") != std::string::npos) why += untrusted;
    return explain({FailureKind::transport, peer,
                    detail::join("rank ", rank_, ": the connection to rank ", peer, " failed: ", why)});
  }

  void abort_waits() {
    std::lock_guard lock(waits_mutex_);
    for (const Wait& wait : waits_)
      wait.way == Way::in ? wait.buffer->abortWaitRecv() : wait.buffer->abortWaitSend();
  }

  // A rank that has left takes no more notes; others still do.
  void deliver_notes() {
    const auto deadline = Clock::now() + context_->getTimeout();
    for (auto& [to, notes] : notes_)
      for (auto& sent : notes) try_wait(*sent->buffer, Way::out, deadline);
  }

  // A byte for each rank, which Gloo's thread sends once that rank asks for it: it has read then what the rank sent before.
  void offer_fences() {
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      fences_.push_back(context_->createUnboundBuffer(&fence_, 1));
      start([&] { fences_.back()->send(r, fence_tag); }, r);
    }
  }

  // A rank whose connection has ended reads no more.
  void pass_fences() {
    const auto deadline = Clock::now() + context_->getTimeout();
    std::vector<char> bytes(size_t(ranks_), 0);
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      auto buffer = context_->createUnboundBuffer(&bytes[size_t(r)], 1);
      try {
        buffer->recv(r, fence_tag);
        buffers.push_back(std::move(buffer));
      } catch (const ::gloo::Exception&) {}
    }
    for (const auto& buffer : buffers) try_wait(*buffer, Way::in, deadline);
  }

  int rank_, ranks_;
  TlsFiles tls_;
  std::unique_ptr<HubServer> server_;  // on rank 0
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::transport::Context> context_;
  std::string address_;                 // of this rank
  std::vector<std::string> addresses_;  // where each rank finds it
  std::set<int> ports_;                 // on which its pairs listen
  std::mutex waits_mutex_, notes_mutex_;
  std::vector<Wait> waits_;
  std::map<int, std::deque<std::unique_ptr<SentNote>>> notes_;  // by rank
  char fence_ = 0;
  std::vector<std::unique_ptr<Buffer>> fences_;
  std::atomic<bool> is_failed_{false}, is_connected_{false};
  bool has_left_ = false;
  std::unique_ptr<HubClient> hub_;  // last: its thread uses what stands above
};

}  // namespace

bool has_gloo() { return true; }

std::shared_ptr<Transport> connect_gloo(const Environment& environment, const JoinOptions& options) {
  check(environment.ranks <= most_ranks, "join: ", environment.ranks, " ranks; there are at most ",
        most_ranks);
  const milliseconds peer_timeout = options.peer_timeout.value_or(milliseconds(0));
  check_time("join: timeout", options.timeout);
  check_time("join: peer_timeout", peer_timeout);
  check(peer_timeout.count() == 0 || peer_timeout >= 4 * beat_time, "join: a peer timeout of ",
        peer_timeout.count(), " ms; heartbeats come every ", beat_time.count(), " ms: give 0 or at least ",
        4 * beat_time.count());
  check_tls(options.tls);
  return std::make_shared<GlooTransport>(environment, options);
}

}  // namespace reprise::distributed
