// SPDX-License-Identifier: MIT
// The main() of every test executable: says what was compiled, then runs the cases.
#define CATCH_CONFIG_RUNNER  // Catch2 2.13 compiles its implementation into this unit
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
// A listener, because it stays silent while the cases are only listed; and stderr, because reports go to stdout.
class BuildInfoListener : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override { print_build_info(std::cerr); }
};
CATCH_REGISTER_LISTENER(BuildInfoListener)
}  // namespace

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
