// SPDX-License-Identifier: MIT
#include "noise.hpp"

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

#if defined(__linux__)
#include <sched.h>
#include <sys/prctl.h>
#endif

namespace bench {
namespace {

bool pinned = false;

#if defined(__linux__)
cpu_set_t all_processors, one_processor;

bool bind(const cpu_set_t& processors) {
  return sched_setaffinity(0, sizeof(processors), &processors) == 0;
}

/// Binds the process to its current processor. Returns false if the system refuses.
bool pin() {
  const int current = sched_getcpu();
  if (current < 0 || sched_getaffinity(0, sizeof(all_processors), &all_processors) != 0) {
    return false;
  }
  CPU_ZERO(&one_processor);
  CPU_SET(static_cast<unsigned>(current), &one_processor);
  return bind(one_processor);
}

/// Returns the first line of a file, or "" if there is none.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// True if memory has pages of the base size unless a program requests large ones.
bool control_pages() {
  const std::string setting = line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  if (setting.find("[always]") == std::string::npos) return true;
  // From Linux 6.18 on a process can keep the pages that it requests and exclude others.
  constexpr unsigned long except_advised = 2;
  return prctl(PR_SET_THP_DISABLE, 1UL, except_advised, 0UL, 0UL) == 0;
}

/// True if the processor's clock is known to be fixed.
bool has_fixed_clock() {
  const int current = sched_getcpu();
  return line_of("/sys/devices/system/cpu/cpu" + std::to_string(current) +
                 "/cpufreq/scaling_governor") == "performance" &&
         line_of("/sys/devices/system/cpu/cpufreq/boost") == "0";
}

/// True if the processor is one of a virtual machine, whose host may give its time to others.
bool is_virtual() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("flags", 0) == 0) return line.find(" hypervisor") != std::string::npos;
  }
  return false;
}
#endif

}  // namespace

std::string control_noise() {
#if defined(__linux__)
  std::string missing;
  const auto add = [&](const char* what) {
    if (!missing.empty()) missing += ", ";
    missing += what;
  };
  pinned = pin();
  if (!pinned) add("the processor that it runs on");
  if (!control_pages()) add("the size of pages");
  if (!has_fixed_clock()) add("the clock rate");
  if (is_virtual()) add("other virtual machines of the host");
  return missing.empty() ? "nothing" : missing;
#else
  return "the processor that it runs on, the size of pages, the clock rate";
#endif
}

bool is_pinned() { return pinned; }

#if defined(__linux__)
AllProcessors::AllProcessors() : was_pinned_(pinned) {
  if (was_pinned_) pinned = !bind(all_processors);
}
AllProcessors::~AllProcessors() {
  if (was_pinned_) pinned = bind(one_processor);
}
#else
AllProcessors::AllProcessors() : was_pinned_(false) {}
AllProcessors::~AllProcessors() = default;
#endif

double clock_seconds() {
#if defined(__linux__)
  if (pinned) {
    // The time of all threads, because another library may compute on a thread of its own.
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
#endif
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace bench
