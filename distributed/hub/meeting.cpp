#include "reprise/distributed/hub/meeting.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "reprise/core/error.h"
#include "reprise/core/listing.h"
#include "reprise/core/quote.h"
#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/mac.h"

namespace reprise::distributed {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_questions{500};

// Of rank 0; the name service of a cluster knows it some time after it has started.
std::string resolved(const std::string& host, std::chrono::milliseconds time) {
  check(host.find(':') == std::string::npos, "join: rank 0 is at ", quote(host),
        ", which is no name of a machine; addresses are IPv4");
  const auto end = Clock::now() + time;
  while (true) {
    try {
      return address_of(host);
    } catch (const Error&) {
      if (Clock::now() >= end) throw;
    }
    std::this_thread::sleep_until(std::min(Clock::now() + between_questions, end));
  }
}

std::string only_address() {
  const std::vector<std::string> all = own_addresses();
  Listing listed;
  for (const std::string& address : all) listed.add(address);
  check(
      all.size() < 2,
      "join: this machine has several addresses; say by --bind on which one rank 0 is to be:", listed.str());
  return all.empty() ? "127.0.0.1" : all.front();
}

std::vector<int> ports_from(int first) {
  std::vector<int> ports;
  for (int i = 0; i <= more_ports; ++i) ports.push_back(first + i);
  return ports;
}

bool means_loopback(const std::string& host) { return host == "localhost" || is_loopback(host); }

}  // namespace

Meeting::Meeting(const Environment& e, const std::string& token, const std::string& bind, const Tell& tell,
                 std::chrono::milliseconds timeout)
    : is_first_(e.rank == 0),
      has_token_(!token.empty()),
      time_for_names_(has_token_ ? std::min<std::chrono::milliseconds>(timeout, longest_time_for_names)
                                 : std::chrono::milliseconds(0)) {
  check(!has_token_ || has_mac(),
        "join: a job's token is proved by libcrypto, which this build does not have; sudo apt-get install "
        "libssl-dev, and configure again");
  if (!e.rendezvous_folder.empty()) file_.emplace(e.rendezvous_folder, e.job, token);
  place_.ports = file_ ? std::vector{0} : ports_from(e.port);
  if (is_first_ || !file_) choose(e, bind, tell);
}

void Meeting::choose(const Environment& e, const std::string& bind, const Tell& tell) {
  const bool is_bound = is_first_ && !bind.empty() && bind != any_address;
  const std::string host = is_bound ? bind : e.address;
  if (!host.empty())
    place_.address = resolved(host, time_for_names_);
  else if (has_token_)
    place_.address = only_address();
  listen_ = is_first_ && bind == any_address ? bind : place_.address;
  for (const std::string& address : {place_.address, listen_})
    check(has_token_ || is_loopback(address), "join: rank 0 is at ", quote(host), ", ", address,
          ": beyond loopback, ranks prove by a token that they are of this job; set REPRISE_JOB_TOKEN on all "
          "of "
          "them, or give them --token-file");
  if (!is_first_ || !has_token_ || !tell) return;
  if (listen_ == any_address)
    tell("--bind 0.0.0.0: rank 0 listens on all networks of this machine until all ranks have come");
  else if (is_loopback(listen_) && !means_loopback(host) && !host.empty())
    tell(detail::join("rank 0 listens on ", listen_, ", which ", quote(host),
                      " is on this machine; others do not reach it: give --bind with the address they know"));
}

Meeting::~Meeting() {
  if (is_announced_) file_->remove();
}

void Meeting::announce(int port) {
  place_.ports = {port};
  if (!file_) return;
  file_->write(place_.address, port);
  is_announced_ = true;
}

std::optional<Place> Meeting::place() const { return file_ && !is_first_ ? file_->read() : place_; }

}  // namespace reprise::distributed
