#include "reprise/apps/common/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <fmt/core.h>

#include "reprise/distributed/environment.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/distributed/hub/socket.h"
#include "reprise/distributed/hub/token.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/output.h"

namespace reprise::apps {
namespace {

using distributed::Socket;
using Clock = std::chrono::steady_clock;

constexpr int failed_elsewhere = 4;

// Signals that come to the launcher alone, for the ranks are in process groups of their own.
class SignalReader {
 public:
  SignalReader() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&set, signal);
    check(::sigprocmask(SIG_BLOCK, &set, &before_) == 0, "--ranks: signals cannot be blocked");
    socket_ = Socket(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    check(bool(socket_), "--ranks: signalfd: ", std::strerror(errno));
  }
  ~SignalReader() { restore(); }
  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int fd() const { return socket_.fd(); }
  /// 0 if none is left.
  int next() const {
    signalfd_siginfo info;
    return ::read(fd(), &info, sizeof info) == sizeof info ? int(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  Socket socket_;
};

std::string random_job() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

Socket listening(int& port) {
  Socket listener;
  do listener = distributed::listen_on("127.0.0.1", {0}, port);
  while (port > 65535 - distributed::more_ports);
  return listener;
}

// What ranks know one another by. The token is on no command line, in no file and in no environment. Rank 0 inherits the socket that
// it listens on: nobody else can take the port.
struct Job {
  std::string name = random_job();
  int port = 0;
  Socket listener = listening(port);
  std::string token = distributed::has_mac() ? distributed::new_token() : "";
};

// The end of a pipe from which a child reads the token; none without one.
Socket token_pipe(const std::string& token) {
  if (token.empty()) return {};
  int ends[2];
  const int made = ::pipe2(ends, O_CLOEXEC);  // before its errno is read
  check(made == 0, "--ranks: pipe: ", std::strerror(errno));
  Socket reader(ends[0]);
  const Socket writer(ends[1]);
  const ssize_t written = ::write(writer.fd(), token.data(), token.size());
  check(written == ssize_t(token.size()), "--ranks: pipe: ", std::strerror(errno));
  return reader;
}

// One process, and what it says on standard error.
class Rank {
 public:
  Rank(int rank, int ranks, const Job& job, char** argv, const SignalReader& signals) : rank_(rank) {
    int ends[2];
    const int made = ::pipe2(ends, O_CLOEXEC);
    check(made == 0, "--ranks: pipe: ", std::strerror(errno));
    errors_ = Socket(ends[0]);
    const Socket writer(ends[1]);
    const Socket token = token_pipe(job.token);
    std::vector<std::string> variables = variables_of(rank, ranks, job, token);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    process_ = ::fork();
    check(process_ >= 0, "--ranks: fork: ", std::strerror(errno));
    if (process_ > 0) return;
    // From here to exec only what may follow a fork.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGUSR1, SIG_IGN);  // until the rank listens to it
    // Its group is not the terminal's, which by `stty tostop` would stop it where it writes.
    ::signal(SIGTTOU, SIG_IGN);
    ::dup2(writer.fd(), STDERR_FILENO);
    if (token) ::fcntl(token.fd(), F_SETFD, 0);  // exec leaves it open
    if (rank == 0) ::fcntl(job.listener.fd(), F_SETFD, 0);
    if (rank > 0) {
      const int null = ::open("/dev/null", O_RDWR);
      ::dup2(null, STDIN_FILENO);
      ::dup2(null, STDOUT_FILENO);
    }
    signals.restore();
    ::execve("/proc/self/exe", argv, environment.data());
    ::_exit(127);
  }
  ~Rank() {
    if (is_running()) ::kill(process_, SIGKILL), ::waitpid(process_, nullptr, 0);
  }
  Rank(Rank&& other) noexcept = delete;

  int fd() const { return errors_.fd(); }
  bool is_running() const { return !code_; }
  bool is_over() const { return code_ && !errors_; }
  int code() const { return code_.value_or(0); }
  bool was_killed() const { return was_killed_; }
  void signal(int number) const {
    if (is_running()) ::kill(process_, number);
  }
  /// A signal of the user's, which may end a rank that does not listen yet: it is interrupted then, as all are.
  void pass(int number) {
    signal(number);
    passed_.insert(number);
  }

  // Passes whole lines on; at the end, what is left.
  void pass_on() {
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(errors_.fd(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) {
      errors_.close();
      if (!line_.empty()) tell(line_ + '\n');
      return;
    }
    line_.append(bytes.data(), size_t(count));
    for (size_t end; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1))
      tell(line_.substr(0, end + 1));
  }

  void collect(const char* name) {
    int status = 0;
    if (!is_running() || ::waitpid(process_, &status, WNOHANG) != process_) return;
    const bool is_asked = WIFSIGNALED(status) && passed_.contains(WTERMSIG(status));
    was_killed_ = WIFSIGNALED(status) && !is_asked;
    code_ = is_asked ? train::interrupted_exit_code : was_killed_ ? failed_elsewhere : WEXITSTATUS(status);
    if (was_killed_)
      train::warn("{}: rank {} (pid {}) was killed by signal {}, {}\n", name, rank_, process_,
                  WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }

 private:
  static std::vector<std::string> variables_of(int rank, int ranks, const Job& job, const Socket& token) {
    distributed::Variables variables = distributed::process_variables();
    variables["REPRISE_RANK"] = std::to_string(rank);
    variables["REPRISE_RANKS"] = std::to_string(ranks);
    variables["REPRISE_JOB"] = job.name;
    variables["REPRISE_PORT"] = std::to_string(job.port);
    variables.erase("REPRISE_JOB_TOKEN");
    if (token) variables["REPRISE_TOKEN_FD"] = std::to_string(token.fd());
    variables.erase(distributed::listener_variable);
    if (rank == 0) variables[distributed::listener_variable] = std::to_string(job.listener.fd());
    std::vector<std::string> lines;
    for (const auto& [name, value] : variables) lines.push_back(name + '=' + value);
    return lines;
  }
  void tell(const std::string& line) const {
    train::warn("{}", line == "\n" ? line : fmt::format("[{}] {}", rank_, line));
  }

  int rank_;
  pid_t process_ = -1;
  Socket errors_;
  std::string line_;
  std::optional<int> code_;
  bool was_killed_ = false;
  std::set<int> passed_;
};

class Launcher {
 public:
  Launcher(const char* name, int ranks, char** argv, const TimesToEnd& times) : name_(name), times_(times) {
    const Job job;
    for (int rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(rank, ranks, job, argv, signals_));
  }

  int run() {
    while (!std::ranges::all_of(ranks_, [](const auto& rank) { return rank->is_over(); })) {
      wait();
      pass_signals();
      end_the_rest();
    }
    // Where a signal ended one rank at once, before its first step, others fail for want of it.
    if (is_interrupted_ && !is_settled_) return train::interrupted_exit_code;
    return failure_.value_or(0);
  }

 private:
  void wait() {
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
    for (const auto& rank : ranks_)
      fds.push_back({rank->fd(), POLLIN, 0});  // a closed one is -1: passed over
    ::poll(fds.data(), fds.size(), failed_at_ ? 100 : -1);
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (fds[i + 1].revents != 0) ranks_[i]->pass_on();
  }

  void pass_signals() {
    while (const int signal = signals_.next()) {
      if (signal == SIGCHLD) continue;
      for (const auto& rank : ranks_) rank->pass(signal);
    }
    for (const auto& rank : ranks_) {
      if (!rank->is_running()) continue;
      rank->collect(name_);
      if (!rank->is_running()) take(*rank);
    }
  }

  // Those that failed because another one did have nothing to say about the code.
  void take(const Rank& rank) {
    const int code = rank.code();
    if (code == train::interrupted_exit_code) is_interrupted_ = true;
    if (code == 0 || code == train::interrupted_exit_code) return;
    if (!failed_at_) failed_at_ = Clock::now();
    if (!failure_ || (*failure_ == failed_elsewhere && !is_settled_)) failure_ = code;
    is_settled_ = is_settled_ || code != failed_elsewhere || rank.was_killed();
  }

  void end_the_rest() {
    if (!failed_at_) return;
    const auto since = Clock::now() - *failed_at_;
    const int signal = since > times_.by_themselves + times_.asked ? SIGKILL : SIGTERM;
    if (since < times_.by_themselves || signal == last_signal_) return;
    last_signal_ = signal;
    for (const auto& rank : ranks_) rank->signal(signal);
  }

  const char* name_;
  TimesToEnd times_;
  SignalReader signals_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::optional<Clock::time_point> failed_at_;
  std::optional<int> failure_;
  bool is_settled_ = false;  // the failure is known to be the first one's
  bool is_interrupted_ = false;
  int last_signal_ = 0;
};

}  // namespace

std::optional<int> run_as_ranks(const char* name, const TrainingOptions& options, char** argv,
                                const TimesToEnd& times) {
  const distributed::Environment environment =
      distributed::read_environment(distributed::process_variables());
  if (options.ranks <= 1 || environment.ranks > 1) return {};
  distributed::ignore_sigpipe();
  return Launcher(name, int(options.ranks), argv, times).run();
}

}  // namespace reprise::apps
