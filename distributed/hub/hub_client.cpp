#include "reprise/distributed/hub/hub_client.h"

#include <unistd.h>

#include <algorithm>

#include "reprise/core/listing.h"

namespace reprise::distributed {
namespace {

constexpr std::chrono::milliseconds greeting_time{1000};  // another server may never speak first
constexpr std::chrono::milliseconds between_tries{20};
constexpr std::chrono::milliseconds tick{50};

std::chrono::milliseconds until(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

}  // namespace

HubClient::HubClient(const Options& options, std::function<void()> on_failure)
    : ranks_(options.ranks), peer_timeout_(options.peer_timeout), on_failure_(std::move(on_failure)) {
  ignore_sigpipe();
  join(options);
  thread_ = std::thread([this] { loop(); });
}

HubClient::~HubClient() {
  is_closing_ = true;
  if (thread_.joinable()) thread_.join();
}

void HubClient::join(const Options& options) {
  const auto deadline = Clock::now() + options.timeout;
  Frame hello{FrameKind::hello,
              {std::to_string(options.rank), std::to_string(options.ranks), std::to_string(getpid())}};
  hello.fields.insert(hello.fields.end(), options.addresses.begin(), options.addresses.end());
  std::optional<Frame> heard;
  while (!heard && Clock::now() < deadline) {  // a hub that waited too long for the hello has hung up
    for (size_t i = 0; !heard && i < options.ports.size(); ++i) {
      socket_ = connect_to(options.address, options.ports[i]);
      if (!socket_ || !is_same_user(socket_) || !is_our_hub(options.job) || !send_all(socket_, encode(hello)))
        continue;
      heard = answer(deadline + greeting_time);  // the hub's own word is better
    }
    if (!heard) std::this_thread::sleep_for(between_tries);
  }
  if (!heard) {
    Listing tried;
    tried.add(options.address, ", ports ", options.ports.front(), " to ", options.ports.back());
    throw TransportError({FailureKind::late, 0, "rank 0 was not found, at none of:" + tried.str()});
  }
  if (heard->kind == FrameKind::refusal && !heard->fields.empty())
    throw TransportError({FailureKind::refused, options.rank, "join: " + heard->fields[0]});
  const auto n = size_t(ranks_);
  check(heard->kind == FrameKind::welcome && heard->fields.size() == 3 * n, "hub: a welcome of ",
        heard->fields.size(), " fields");
  const auto begin = heard->fields.begin();
  addresses_.assign(begin, begin + ranks_);
  sent_.assign(begin + ranks_, begin + 2 * ranks_);
  expected_.assign(begin + 2 * ranks_, begin + 3 * ranks_);
}

bool HubClient::is_our_hub(const std::string& job) {
  reader_ = {};
  try {
    const std::optional<Frame> frame = receive(Clock::now() + greeting_time);
    return frame && frame->kind == FrameKind::greeting &&
           frame->fields == std::vector<std::string>{"reprise-hub-1", job};
  } catch (const Error&) { return false; }  // another server
}

std::optional<Frame> HubClient::receive(Clock::time_point deadline) {
  while (true) {
    if (auto frame = reader_.next()) return frame;
    if (!wait_readable(socket_, until(deadline))) return {};
    const std::string bytes = receive_some(socket_);
    if (bytes.empty()) return {};
    reader_.feed(bytes);
  }
}

// What the hub says once it has this rank's hello; nothing if it hangs up.
std::optional<Frame> HubClient::answer(Clock::time_point deadline) {
  Silence silence(peer_timeout_);
  while (Clock::now() < deadline) {
    if (auto frame = reader_.next()) {
      if (frame->kind != FrameKind::beat) return frame;
    } else if (wait_for_bytes(silence)) {
      const std::string bytes = receive_some(socket_);
      if (bytes.empty()) return {};
      reader_.feed(bytes);
    }
  }
  return {};
}

// False if nothing has come yet. What has come is heard first, also where this process was stopped.
bool HubClient::wait_for_bytes(Silence& silence) {
  if (wait_readable(socket_, tick)) {
    silence.heard();
    return true;
  }
  if (silence.is_too_long() && !has_left(0)) throw TransportError(silent_failure(0, "rank 0", silence));
  return false;
}

void HubClient::loop() {
  Silence silence(peer_timeout_);
  try {
    while (!is_closing_) {
      beat();
      if (auto frame = reader_.next()) {
        handle(*frame);
      } else if (wait_for_bytes(silence)) {
        const std::string bytes = receive_some(socket_);
        if (bytes.empty()) break;
        reader_.feed(bytes);
      }
    }
  } catch (const TransportError& error) { return end(error.failure()); } catch (const Error& error) {
    return end({FailureKind::transport, 0, error.what()});
  }
  if (!is_closing_ && !has_left(0))
    end({FailureKind::died, 0, "rank 0 died: its connection closed without a goodbye"});
}

void HubClient::beat() {
  const auto now = Clock::now();
  if (now < beat_at_) return;
  beat_at_ = now + beat_time;
  std::lock_guard lock(send_mutex_);
  send_if_room(socket_, encode({FrameKind::beat}));
}

void HubClient::handle(const Frame& frame) {
  if (frame.kind == FrameKind::failure) return end(failure_in(frame));
  if (frame.kind != FrameKind::left) return;
  std::lock_guard lock(mutex_);
  left_.insert(int(number_in_frame(frame, 0, 0, ranks_ - 1)));
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
  send_all(socket_, encode(frame_of(failure)));
}

void HubClient::say_goodbye() {
  std::lock_guard lock(send_mutex_);
  send_all(socket_, encode({FrameKind::goodbye}));
}

std::optional<Failure> HubClient::failure(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return failure_.has_value(); });
  return failure_;
}

bool HubClient::has_left(int rank) const {
  std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

}  // namespace reprise::distributed
