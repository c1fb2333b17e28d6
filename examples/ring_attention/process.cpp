// SPDX-License-Identifier: MIT
#include "process.hpp"

#include "../tour/numbers.hpp"

#include <array>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>

namespace ring {
namespace {

void check(int code, const std::string& call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(call + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

/// MPI type of that many bytes as one element, for the time it takes to post a message.
class Unit {
 public:
  explicit Unit(std::size_t bytes) {
    check(MPI_Type_contiguous(count_of(bytes), MPI_BYTE, &type_), "MPI_Type_contiguous");
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit() { MPI_Type_free(&type_); }

  MPI_Datatype type() const noexcept { return type_; }

  static int count_of(std::size_t number) {
    if (number > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw std::length_error(tour::cat("MPI counts to ", std::numeric_limits<int>::max(),
                                        ", but a message has ", number, " parts"));
    }
    return static_cast<int>(number);
  }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

Process::Process(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) {
    throw MpiError("this MPI allows no threads beside the one that calls it");
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
}

Process::~Process() { MPI_Finalize(); }

void Process::abort() noexcept {
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::abort();
}

Request::Request(Letter letter, Direction direction) noexcept
    : letter_(std::move(letter)), direction_(direction) {}

Request Request::send(std::span<const std::byte> bytes, Letter letter) {
  Request request(std::move(letter), Direction::Send);
  const Letter& to = request.letter_;
  const Unit unit(to.unit);
  check(MPI_Isend(bytes.data(), Unit::count_of(bytes.size() / to.unit), unit.type(), to.peer,
                  to.tag, MPI_COMM_WORLD, &request.request_),
        tour::cat("MPI_Isend of ", to.name, " to rank ", to.peer));
  return request;
}

Request Request::receive(std::span<std::byte> bytes, Letter letter) {
  Request request(std::move(letter), Direction::Receive);
  const Letter& from = request.letter_;
  const Unit unit(from.unit);
  check(MPI_Irecv(bytes.data(), Unit::count_of(bytes.size() / from.unit), unit.type(), from.peer,
                  from.tag, MPI_COMM_WORLD, &request.request_),
        tour::cat("MPI_Irecv of ", from.name, " from rank ", from.peer));
  return request;
}

Request::Request(Request&& other) noexcept
    : request_(std::exchange(other.request_, MPI_REQUEST_NULL)),
      letter_(std::move(other.letter_)),
      direction_(other.direction_) {}

Request::~Request() {
  // A request is pending here only during an exception, which ends the run.
  if (request_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&request_);
  MPI_Request_free(&request_);
}

bool Request::done() {
  int is_done = 0;
  check(MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE), "MPI_Test, while " + complaint());
  return is_done != 0;
}

std::string Request::complaint() const {
  return tour::cat("rank ", letter_.peer,
                   direction_ == Direction::Send ? " has not taken " : " has not sent ",
                   letter_.name);
}

void wait(std::span<Request> requests, std::chrono::duration<double> limit) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    std::string missing;
    for (Request& request : requests) {
      if (!request.done()) missing += (missing.empty() ? "" : ", ") + request.complaint();
    }
    if (missing.empty()) return;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > limit) {
      throw LateRank(tour::cat("waited ", limit.count(), " s in vain: ", missing));
    }
    // Short waits do not sleep; long waits do not occupy the processor.
    if (waited < std::chrono::microseconds(200)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace ring
