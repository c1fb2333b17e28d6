// SPDX-License-Identifier: MIT
// A tour of positional encodings on the words of a text, in the terminal and in one offline page.
#include "chapters.hpp"
#include "error.hpp"
#include "files.hpp"
#include "options.hpp"
#include "sample.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

namespace {

struct Section {
  const char* title;
  void (*show)(tour::Tour&);
};

struct Chapter {
  const char* title;
  std::vector<Section> sections;
};

std::vector<Chapter> chapters() {
  using namespace tour;
  return {
      {"Setup, cost and comparison",
       {{"Build, text and shapes", overview::show},
        {"What each encoding acts on", places::show},
        {"Parameters", parameters::show},
        {"The encodings compared", comparison::show}}},
      {"Added to the embeddings",
       {{"Integer and binary codes, and their faults", simple_encodings::show},
        {"Sinusoidal", sinusoidal::show},
        {"Sinusoidal on a grid", sinusoidal::show_on_grid},
        {"The path of the positions", sinusoidal::show_path_of_positions},
        {"A learned table and its resize", learned::show}}},
      {"Queries and keys rotated: RoPE",
       {{"RoPE: cos and sin", rope::show_tables},
        {"RoPE: its spectrum", rope::show_spectrum},
        {"RoPE: curves by dimension", rope::show_curves},
        {"RoPE: one vector at several positions", rope::show_rotated_vector},
        {"RoPE: arrows of a rotation", rope::show_rotation_arrows},
        {"RoPE: scores depend on the distance alone", relative_scores::show},
        {"RoPE on a grid: two axes", grid_rope::show},
        {"M-RoPE: text and images in one prompt", grid_rope::show_mrope},
        {"xPos: RoPE whose fast pairs fade", xpos::show}}},
      {"Beyond the trained length",
       {{"Wavelengths before and after scaling", scaling::show_wavelengths},
        {"Angles beyond the trained length", scaling::show_angles_past_training},
        {"Built for 64 tokens, run on 128", extrapolation::show},
        {"Trained models on longer texts", study::show}}},
      {"A bias on the scores",
       {{"ALiBi: the bias of each head", alibi::show_bias},
        {"ALiBi: slopes", alibi::show_slopes},
        {"T5, KERPLE and FIRE compared with ALiBi", learned_biases::show}}},
      {"In attention",
       {{"Attention patterns", patterns::show},
        {"Two dogs: the permutation experiment", permutation::show},
        {"A causal mask leaks position", leakage::show},
        {"Decoding from a cache", cached_decoding::show}}},
      {"Properties of encodings",
       {{"Similarity of positions", similarity::show},
        {"Six desirable properties", properties::show},
        {"Accuracy of the angles", accuracy::show}}},
  };
}

/// Returns the sections whose titles contain one of `parts`; all if there are no parts.
std::vector<Chapter> chosen(std::vector<Chapter> all, std::vector<std::string> parts) {
  if (parts.empty()) return all;
  const std::vector<std::string> wanted = parts;
  for (Chapter& chapter : all) {
    std::erase_if(chapter.sections, [&](const Section& section) {
      const auto is_in_title = [title = std::string(section.title)](const std::string& part) {
        return title.find(part) != std::string::npos;
      };
      std::erase_if(parts, is_in_title);
      return std::none_of(wanted.begin(), wanted.end(), is_in_title);
    });
  }
  if (!parts.empty()) throw tour::UsageError("--only: no section's title has " + parts.front());
  std::erase_if(all, [](const Chapter& chapter) { return chapter.sections.empty(); });
  return all;
}

void show_all(const std::vector<Chapter>& all, tour::Tour& tour) {
  for (const Chapter& chapter : all) {
    tour.report.chapter(chapter.title);
    for (const Section& section : chapter.sections) {
      tour.report.section(section.title);
      section.show(tour);
    }
  }
}

/// Adds the playground to the report, if it was built: a link to its page, and its figures in place
/// of pictures where scripts may run.
void add_playground(const std::filesystem::path& folder, tour::Report& report) {
#if defined(TOUR_PLAYGROUND_FOLDER)
  const std::filesystem::path built = TOUR_PLAYGROUND_FOLDER;
  std::error_code error;
  if (!std::filesystem::exists(built / "playground.html", error)) return;
  tour::write_file(folder / "playground.html", tour::read_file(built / "playground.html"));
  report.link("playground.html", "Playground: drag positions and change the settings");
  report.end_with(tour::read_file(built / "figures.html"));
#else
  (void)folder;
  (void)report;
#endif
}

int run(const tour::Options& options) {
  const std::vector<Chapter> all = chosen(chapters(), options.only);
  const auto text = options.text.empty() ? tour::default_text() : options.text;
  const tour::Sample sample = tour::read_sample(text);
  const tour::Gnuplot gnuplot(options.out / "pictures");
  if (!gnuplot.installed()) {
    std::cerr
        << "gnuplot was not found, so no pictures are drawn; install it (package gnuplot-nox) "
           "and run the tour again. Everything else follows.\n";
  }
  std::size_t sections = 0;
  for (const Chapter& chapter : all) sections += chapter.sections.size();
  tour::Report report(std::cout, gnuplot, sections);
  add_playground(options.out, report);
  tour::Tour tour{sample, report};
  show_all(all, tour);

  const auto page = options.out / "report.html";
  report.write(page, "A tour of posenc: where position enters attention");
  std::cout << "\nPage:     " << page.string() << "\nPictures: " << gnuplot.folder().string()
            << " (" << report.drawn() << " drawn; each with its data and its script)" << std::endl;
  if (report.failed() == 0) return EXIT_SUCCESS;
  std::cerr << "gnuplot failed on " << report.failed() << " pictures; its messages are above\n";
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tour::Options options = tour::parse_options({argv + 1, argv + argc});
    if (options.help) {
      std::cout << tour::usage();
      return EXIT_SUCCESS;
    }
    return run(options);
  } catch (const tour::UsageError& error) {
    std::cerr << "posenc_tour: " << error.what() << "\n\n" << tour::usage();
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "posenc_tour: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
