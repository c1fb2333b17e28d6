// SPDX-License-Identifier: MIT
// Prints the build before the tests of every executable. If the main() of Catch2's package cannot
// be used, CATCH_CONFIG_MAIN compiles one here.
#ifndef CATCH_CONFIG_MAIN
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#endif
#include "support/catch.hpp"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

#include "support/print_build_info.hpp"

namespace {
// A listener prints nothing if test cases are only listed. It prints to stderr, because reports go
// to stdout.
class BuildInfoListener : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override { print_build_info(std::cerr); }
};
CATCH_REGISTER_LISTENER(BuildInfoListener)
}  // namespace

// Catch2 2.13 has defined it by this line.
#if defined CATCH_CONFIG_MAIN && __has_include(<catch2/catch_session.hpp>)
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#endif
