#include "reprise/distributed/hub/hub_client.h"

#include <unistd.h>

#include <algorithm>
#include <new>

#include "reprise/core/listing.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/hub/host_name.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/distributed/recorder.h"

namespace reprise::distributed {
namespace {

constexpr std::chrono::milliseconds connect_time{2000};   // a machine that is gone does not answer
constexpr std::chrono::milliseconds greeting_time{1000};  // another server may never speak first
constexpr std::chrono::milliseconds proof_time{5000};     // as the hub gives a rank
constexpr std::chrono::milliseconds refusal_time{1000};
constexpr std::chrono::milliseconds between_tries{20};
constexpr std::chrono::milliseconds tick{50};

std::chrono::milliseconds until(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

// What two of a job that do not know each other's tokens can say of them.
std::string difference_of(const std::string& token, const std::string& hub_nonce) {
  if (hub_nonce.empty()) return "has no token, and this rank has one";
  return token.empty() ? "has a token, and this rank has none" : "has another token than this rank";
}

// Of "ID#2" the attempt, 2, where the ID is that of `run`.
std::optional<int> attempt_of(const std::string& job, const std::string& run) {
  const size_t mark = job.rfind('#');
  if (mark == std::string::npos || mark != run.rfind('#') || job.compare(0, mark, run, 0, mark) != 0)
    return {};
  return number_in<int>(job.substr(mark + 1));
}

}  // namespace

HubClient::HubClient(const Options& options, std::function<void()> on_failure)
    : rank_(options.rank), ranks_(options.ranks), on_failure_(std::move(on_failure)) {
  ignore_sigpipe();
  join(options);
  thread_ = std::thread([this] { run(); });
}

HubClient::~HubClient() {
  is_closing_ = true;
  if (thread_.joinable()) thread_.join();
}

void HubClient::join(const Options& options) {
  const auto deadline = Clock::now() + options.timeout;
  auto give_up_at = deadline;
  std::optional<Frame> heard;
  Listing tried;
  while (!heard && Clock::now() < give_up_at) {  // a hub that waited too long for the hello has hung up
    const std::optional<Place> place = options.place();
    tried = {};
    for (size_t i = 0; place && !heard && i < place->ports.size(); ++i)  // once it is late each takes no time
      heard = ask(options, place->address, place->ports[i], deadline);
    if (place) tried.add(place->address, ", ports ", place->ports.front(), " to ", place->ports.back());
    // A stranger may listen where the hub is to be: another answer may follow.
    if (!refusal_.empty()) give_up_at = std::min(give_up_at, Clock::now() + refusal_time);
    if (!heard) std::this_thread::sleep_for(between_tries);
  }
  if (!heard && !refusal_.empty())
    throw TransportError({FailureKind::refused, options.rank, "join: " + refusal_});
  if (!heard)
    throw TransportError({FailureKind::late, 0,
                          tried.empty() ? "rank 0 was not found: it has not said where it is"
                                        : "rank 0 was not found, at none of:" + tried.str()});
  take_welcome(options, *heard);
}

// What the hub there says once all have come; nothing where there is none of ours.
std::optional<Frame> HubClient::ask(const Options& options, const std::string& address, int port,
                                    Clock::time_point deadline) {
  stream_ = FrameStream(connect_to(address, port, std::min(connect_time, until(deadline))));
  peer_timeout_ = peer_timeout_of(options.peer_timeout, address);
  if (!stream_ || (options.token.empty() && !is_same_user(stream_.socket()))) return {};
  const std::optional<std::string> hub_nonce = greeting(options.job, deadline);
  if (!hub_nonce) return {};
  const Handshake handshake(options.token, options.job, *hub_nonce);
  hello_ =
      handshake.proved({.rank = options.rank, .ranks = options.ranks, .pid = getpid(), .host = host_name()});
  if (!stream_.send(frame_of(hello_))) return {};
  const auto by = deadline + greeting_time;  // the hub's own word is better
  const std::optional<bool> is_accepted = accepts(handshake, by);
  if (is_accepted && !*is_accepted)
    refusal_ = detail::join("rank 0 at ", address, ':', port, ' ', difference_of(options.token, *hub_nonce),
                            "; REPRISE_JOB_TOKEN or --token-file must be the same on all ranks");
  if (!is_accepted.value_or(false)) return {};
  stream_.seal(handshake.key_to_hub(hello_), handshake.key_to_rank(hello_));
  const std::optional<Frame> called = answer(by);
  if (!called || called->kind != FrameKind::call) return called;
  take_call(*called);
  if (!stream_.send({FrameKind::places, make_addresses(options)})) return {};
  return answer(by);
}

// The nonce of our job's hub, which may be empty; nothing from any other server.
std::optional<std::string> HubClient::greeting(const std::string& job, Clock::time_point deadline) {
  try {
    const std::optional<Frame> frame = receive(std::min(Clock::now() + greeting_time, deadline));
    if (!frame || frame->kind != FrameKind::greeting || frame->fields.size() != 3) return {};
    if (frame->fields[0] != hub_protocol) return {};
    if (frame->fields[1] == job) return frame->fields[2];
    // The hub of an attempt before this one will end, and ours may come yet; this rank is a leftover where its attempt is the older one.
    const std::optional<int> theirs = attempt_of(frame->fields[1], job), own = attempt_of(job, job);
    if (theirs && own && *theirs > *own)
      refusal_ = detail::join("the launcher has started the ranks again: rank 0 is of attempt ", *theirs,
                              ", this rank of attempt ", *own, " (TORCHELASTIC_RESTART_COUNT)");
    return {};
  } catch (const Error&) { return {}; }  // another server
}

// Whether the hub takes this rank, and has proved itself; nothing if it hangs up.
std::optional<bool> HubClient::accepts(const Handshake& handshake, Clock::time_point deadline) {
  try {
    const std::optional<Frame> frame = receive(std::min(Clock::now() + proof_time, deadline));
    if (!frame) return {};
    return frame->kind == FrameKind::accepted && frame->fields.size() == 1 &&
           is_same_secret(frame->fields[0], handshake.hub_proof(hello_));
  } catch (const Error&) { return {}; }
}

// Who rank 0 is, in the hub's words: "rank 0 (host a, pid 4711)".
void HubClient::take_call(const Frame& frame) {
  check(frame.fields.size() == 1 && frame.fields[0].starts_with("rank 0"), "hub: a call of ",
        frame.fields.size(), " fields, or of another than rank 0");
  constexpr size_t longest_shown = 200;
  first_ = printable(frame.fields[0].substr(0, longest_shown));
}

// The hub hears this rank meanwhile, however long it takes.
std::vector<std::string> HubClient::make_addresses(const Options& options) {
  const std::jthread beats([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    try {
      do beat();
      while (!ended.wait_for(lock, stop, tick, [&] { return stop.stop_requested(); }));
    } catch (const std::exception&) {}  // this rank falls silent, unless it is done soon
  });
  return options.addresses(own_address(stream_.socket()));
}

void HubClient::take_welcome(const Options& options, const Frame& frame) {
  if (frame.kind == FrameKind::failure) throw TransportError(failure_in(frame));
  if (frame.kind == FrameKind::refusal && !frame.fields.empty())
    throw TransportError({FailureKind::refused, options.rank, "join: " + frame.fields[0]});
  const auto n = size_t(ranks_), me = size_t(options.rank);
  const bool is_open = options.token.empty();
  check(frame.kind == FrameKind::welcome && frame.fields.size() == (is_open ? 3 : 2) * n,
        "hub: a welcome of ", frame.fields.size(), " fields");
  const auto begin = frame.fields.begin();
  addresses_.assign(begin, begin + ranks_);
  if (is_open) {
    sent_.assign(begin + ranks_, begin + 2 * ranks_);
    expected_.assign(begin + 2 * ranks_, begin + 3 * ranks_);
    return;
  }
  const std::vector<std::string> nonces(begin + ranks_, begin + 2 * ranks_);
  check(nonces[me] == hello_.nonce, "hub: a welcome with another nonce of this rank");
  for (int r = 0; r < ranks_; ++r) {
    sent_.push_back(pair_proof(options.token, options.rank, r, nonces[me], nonces[size_t(r)]));
    expected_.push_back(pair_proof(options.token, r, options.rank, nonces[size_t(r)], nonces[me]));
  }
}

std::optional<Frame> HubClient::receive(Clock::time_point deadline) {
  while (true) {
    if (auto frame = stream_.next()) return frame;
    if (!wait_readable(stream_.socket(), until(deadline)) || !stream_.receive()) return {};
  }
}

// What the hub says once it has taken this rank, which sends heartbeats meanwhile; nothing if it hangs up.
std::optional<Frame> HubClient::answer(Clock::time_point deadline) {
  Silence silence(peer_timeout_);
  while (Clock::now() < deadline) {
    beat();
    if (auto frame = stream_.next()) {
      if (frame->kind != FrameKind::beat) return frame;
    } else if (!listen(silence)) {
      return {};
    }
  }
  return {};
}

// Takes what has come, waiting for it a moment; false once the connection has ended. What has come is heard first, also where this
// process was stopped.
bool HubClient::listen(Silence& silence) {
  if (wait_readable(stream_.socket(), tick)) {
    if (!stream_.receive()) return false;
    silence.heard();
  } else if (silence.is_too_long() && !has_left(0)) {
    throw TransportError(silent_failure(0, first_, silence));
  }
  return true;
}

void HubClient::run() {
  try {
    loop();
  } catch (const std::bad_alloc&) { end_by_own(); }
}

// Within a catch. It takes no memory but for what the others are told: without that, they see this rank fall silent.
void HubClient::end_by_own() {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    own_ = std::current_exception();
    failure_ = Failure{FailureKind::left, rank_, "out of memory"};  // short enough to lie within the string
  }
  changed_.notify_all();
  on_failure_();
  try {
    report({FailureKind::left, rank_,
            detail::join("rank ", rank_, " failed in its hub's thread: out of memory")});
  } catch (const std::bad_alloc&) {}
}

void HubClient::loop() {
  Silence silence(peer_timeout_);
  try {
    while (!is_closing_) {
      beat();
      if (auto frame = stream_.next()) {
        handle(*frame);
      } else if (!listen(silence)) {
        break;
      }
    }
  } catch (const TransportError& error) { return end(error.failure()); } catch (const Error& error) {
    return end({FailureKind::transport, 0, error.what()});
  }
  if (!is_closing_ && !has_left(0))
    end({FailureKind::died, 0, first_ + " died: its connection closed without a goodbye", silence.seconds()});
}

void HubClient::beat() {
  const auto now = Clock::now();
  if (now < beat_at_) return;
  beat_at_ = now + beat_time;
  std::lock_guard lock(send_mutex_);
  stream_.send_if_room({FrameKind::beat});
}

void HubClient::handle(const Frame& frame) {
  if (frame.kind == FrameKind::failure) return end(failure_in(frame));
  std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::beat && !frame.fields.empty())
    clock_.heard(double(number_in_frame(frame, 0, 0, INT64_MAX)) / 1e6, recorded_now());
  if (frame.kind != FrameKind::left) return;
  left_.emplace(int(number_in_frame(frame, 0, 0, ranks_ - 1)),
                frame.fields.size() > 1 ? frame.fields[1] : "");
  changed_.notify_all();
}

void HubClient::end(const Failure& failure) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  changed_.notify_all();
  on_failure_();
}

void HubClient::report(const Failure& failure) {
  std::lock_guard lock(send_mutex_);
  stream_.send(frame_of(failure));
}

void HubClient::say_goodbye(const std::string& last) {
  std::lock_guard lock(send_mutex_);
  stream_.send({FrameKind::goodbye, {last.substr(0, longest_frame / 2)}});
}

std::optional<Failure> HubClient::failure(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return failure_.has_value(); });
  return failure_;
}

double HubClient::clock_offset() const {
  std::lock_guard lock(mutex_);
  return clock_.seconds();
}

std::exception_ptr HubClient::own_error() const {
  std::lock_guard lock(mutex_);
  return own_;
}

std::optional<std::string> HubClient::last_call_of(int rank) const {
  std::lock_guard lock(mutex_);
  const auto found = left_.find(rank);
  return found == left_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace reprise::distributed
